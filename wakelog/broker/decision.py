"""What the broker core hands to its shell: answers that must wait, and instructions.

``Broker.process`` returns one of four things. A RemotingCommand is the answer. None is no answer. A
Deferred says what has to happen before there is an answer:

=================  =================================================================================
AwaitFlush         the answer is ready and may leave once ``flushed >= physical_offset_end``
HoldPull           nothing to read yet; the Broker kept the request under ``hold_id`` and asks the
                   shell to give this note to PullHold, which says when to call ``Broker.wake``
RunInPool          ``work()`` would block: run it in a pool thread, then give its result to
                   ``finish`` on the Broker's own thread
AwaitRegistration  the answer is ready and may leave once the name servers have been told
=================  =================================================================================

Everything else the core wants done (pushes, files to write, routes to register) it appends to
``Broker.instructions``, which the shell drains after each turn.

Invariants:
    - a Deferred or an Instruction never holds a socket: a connection is named by its channel id.
    - a one-way request has no answer, however its work was deferred.

Source: org.apache.rocketmq.broker.longpolling.PullRequest, CompletableFuture<PutMessageResult> and
    BrokerController.registerBrokerAll (4.9.3), turned into values.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

import msgspec

from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand


class Channel(Protocol):
    """One connection, as much of it as the core may know."""

    @property
    def id(self) -> int:
        """Number of the connection, never used twice by one server."""
        ...

    @property
    def remote_host(self) -> str:
        """Numeric address of the peer."""
        ...

    @property
    def remote_port(self) -> int:
        """Port of the peer."""
        ...


class Lane(StrEnum):
    """Class of requests that wait in one bounded queue, named as 4.9.3's executors."""

    SEND = "send"
    PULL = "pull"
    REPLY = "reply"
    QUERY = "query"
    CLIENT_MANAGE = "clientManage"
    HEARTBEAT = "heartbeat"
    END_TRANSACTION = "endTransaction"
    CONSUMER_MANAGE = "consumerManage"
    ADMIN = "admin"


class AwaitFlush(msgspec.Struct):
    """A successful answer that waits for the disk (flushDiskType=SYNC_FLUSH and WAIT not false)."""

    response: RemotingCommand
    physical_offset_end: int
    deadline_ms: int
    failure: int = ResponseCode.FLUSH_DISK_TIMEOUT

    def timed_out(self) -> RemotingCommand:
        """Return the answer for ``now_ms >= deadline_ms``: the failure code with the full header.

        The message is in the log and may yet become durable, so clients get its id and offset.
        """
        self.response.code = self.failure
        return self.response

    def flush_failed(self, remark: str) -> RemotingCommand:
        """Return the answer after a flush that reported an error.

        4.9.3 answers success here. Code 1 makes a producer send the message again elsewhere.
        """
        self.response.code = ResponseCode.SYSTEM_ERROR
        self.response.remark = remark
        self.response.ext_fields = {}
        return self.response


class HoldPull(msgspec.Struct, frozen=True):
    """A note for PullHold: wake ``hold_id`` when the queue reaches beyond ``queue_offset``.

    ``codes`` are the tag hashes the pull accepts, None for all, and for a filter by properties. It
    is a hint that saves wakes: the Broker filters again.
    """

    hold_id: int
    topic: str
    queue_id: int
    queue_offset: int
    deadline_ms: int
    codes: frozenset[int] | None


class RunInPool(msgspec.Struct, frozen=True):
    """Work that may block on the disk.

    ``work`` only reads the store and touches no table of the core, so any thread may run it.
    ``finish(result, now_ms)`` runs on the Broker's thread and returns what ``process`` would have.
    If ``work`` raises, the shell answers ``Broker.error_answer(request, error)``.
    """

    work: Callable[[], Any]
    finish: Callable[[Any, int], "Outcome"]


class AwaitRegistration(msgspec.Struct, frozen=True):
    """A ready answer that waits until the name servers know the topic table, or did not answer.

    Whoever creates a topic asks for its route next. A RegisterBroker comes with it.

    oneway: as of that RegisterBroker; it is enough then that the registration was sent. 4.9.3 sends
        it on the thread that answers, so that it is ahead of what the client does next.
    """

    response: RemotingCommand
    oneway: bool = False


Deferred: TypeAlias = AwaitFlush | HoldPull | RunInPool | AwaitRegistration
Outcome: TypeAlias = RemotingCommand | AwaitFlush | HoldPull | RunInPool | AwaitRegistration | None


class Push(msgspec.Struct, frozen=True):
    """Write ``command`` to a connection, if it is still there."""

    channel_id: int
    command: RemotingCommand


class Continue(msgspec.Struct, frozen=True):
    """A held pull was woken and has to be deferred: treat it as ``process`` having returned it."""

    channel_id: int
    request: RemotingCommand
    deferred: Deferred


class RegisterBroker(msgspec.Struct, frozen=True):
    """Register with every name server, the whole topic table.

    4.9.3 sends single topics as increments with the table's new version. When an earlier
    registration was lost, that makes a name server believe it is up to date without the lost
    topic; so we never do.

    oneway: do not wait for the answers, as for a topic that a send has created.
    """

    oneway: bool


class Persist(msgspec.Struct, frozen=True):
    """Write what ``Broker.snapshot(name)`` makes to the config file of that name.

    The names are the stems of 4.9.3's files: topics, subscriptionGroup, consumerOffset (or
    lmqConsumerOffset), delayOffset, consumerFilter.
    """

    name: str


class ReadAhead(msgspec.Struct, frozen=True):
    """Have a stretch of the log in the page cache; nobody waits for it."""

    physical_offset: int
    length_bytes: int


class CloseChannel(msgspec.Struct, frozen=True):
    """Close a connection whose client stopped sending heartbeats."""

    channel_id: int


class ForgetHolds(msgspec.Struct, frozen=True):
    """Tell PullHold to drop these holds: their connection is gone or they were answered."""

    hold_ids: tuple[int, ...]


class Appender(StrEnum):
    """A log that the core has lines for, by the name of its member of ``telemetry.logs.Log``."""

    REBALANCE_LOCK = "REBALANCE_LOCK"
    FILTER = "FILTER"
    TRANSACTION = "TRANSACTION"


class WriteLine(msgspec.Struct, frozen=True):
    """Write a line to a log; of more than some a second the shell may leave out the rest."""

    appender: Appender
    event: str
    values: dict[str, Any]


Instruction: TypeAlias = (
    Push | Continue | RegisterBroker | Persist | ReadAhead | CloseChannel | ForgetHolds | WriteLine
)
