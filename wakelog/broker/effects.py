"""Effects: what a request's work yields to have done, and gets the result of.

A processor that cannot answer at once is a generator; the server drives it (``network.driver``).

    body = yield InPool(read, WorkKind.SURVEY)      what the function returned, on another thread
    give_back = yield FilterPlace()                 one of few that may keep unfiltered records
    response = yield Ask(channel_id, command, 3.0)  the client's response
    why_not = yield Saved(saves)                    "" once the tables are in their files
    why_not = yield Removed(removal)                "" once the queues are gone
    yield Registered(1.0)                           the name servers have what was registered
    yield Dispatched(offset, deadline_ms)           the queues show the log up to there
    now_ms = yield NOW                              the wall clock
    yield                                           a pause

What fails is raised at the `yield`: such as the StoreError of a read, or that a pool is full.

Source: org.apache.rocketmq.broker.processor (4.9.3), where a thread waits for each of these.
"""

from collections.abc import Callable, Generator
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from wakelog.broker.decision import Outcome, Persist
from wakelog.network.request import Request
from wakelog.protocol.command import RemotingCommand
from wakelog.storage.durability.deleted_topics import QueueRemoval

Work: TypeAlias = Generator[Any, Any, Outcome]
"""The work of one request: it yields effects, and returns an outcome."""


class WorkKind(StrEnum):
    """What work in the pool needs. Work of one kind waits for no other kind.

    READ: it reads from the disk for a short time.
    SEARCH: it looks a client's key up in the index, and may read for seconds.
    SURVEY: it looks at all queues of topics for a tool, and may read for seconds.
    ENCODE: it goes through a whole table, mostly to make its text, and needs the interpreter.
    """

    READ = "read"
    SEARCH = "search"
    SURVEY = "survey"
    ENCODE = "encode"


class InPool(msgspec.Struct, frozen=True):
    """Run a function that may block on the disk, in a thread; the result is what it returns.

    It only reads the store and touches no table of the core.
    """

    work: Callable[[], Any]
    kind: WorkKind = WorkKind.READ


class FilterPlace(msgspec.Struct, frozen=True):
    """Wait for one of the few places of pulls that keep unfiltered records.

    The result is a function that gives the place back; it is called once.
    """


class Ask(msgspec.Struct, frozen=True):
    """Send a request to a client; the result is its response, whatever its code.

    Raises RemotingError if the connection is closed, the client is silent, or too many questions
    are under way.
    """

    channel_id: int
    command: RemotingCommand
    timeout_seconds: float


class Removed(msgspec.Struct, frozen=True):
    """Have Reput remove queues for good; until then their topics take no messages.

    The result is why they are not gone, "" if they are.
    """

    removal: QueueRemoval


class Saved(msgspec.Struct, frozen=True):
    """Save tables that were changed in memory.

    saves: one for each table. If one fails, what was asked for is undone in all of them.

    The result is why what was asked for is not saved, "" if it is.
    """

    saves: tuple[Persist, ...]


class Registered(msgspec.Struct, frozen=True):
    """Wait until every name server has taken what was registered, or failed.

    A client that creates a topic asks for its route next. A RegisterBroker comes with this.
    """

    seconds_max: float


class Dispatched(msgspec.Struct, frozen=True):
    """Wait until the queues reach ``physical_offset``, or for the deadline."""

    physical_offset: int
    deadline_ms: int


def rest_of(outcome: Outcome | Work) -> Work:
    """Do the work that is left of a request, if any is, and return its outcome."""
    return (yield from outcome) if isinstance(outcome, Generator) else outcome


def make_body(
    request: Request[Any], work: Callable[[], bytes], kind: WorkKind = WorkKind.READ
) -> Work:
    """Have the pool make the body of a successful response."""
    return request.success(body=(yield InPool(work, kind)))
