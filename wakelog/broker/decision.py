"""What the broker core hands to its shell: responses that have to wait, and instructions.

``Broker.process`` returns a response, None for no response, or a Deferred, which says what has to
happen before a response leaves. Everything else that the core wants done (pushes, files to write,
routes to register) it appends to ``BrokerState.instructions``. The shell takes these after each
turn.

Invariants:
    - a Deferred or an Instruction holds no socket. It names a connection by its channel id;
      AwaitDispatch keeps the request's Channel for the handler.
    - a one-way request has no response, however its work was deferred.

Source: org.apache.rocketmq.broker.longpolling.PullRequest, CompletableFuture<PutMessageResult> and
BrokerController.registerBrokerAll (4.9.3), turned into values.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from wakelog.network.errors import RemotingError
from wakelog.network.request import Request
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.steps import InOrder, Steps
from wakelog.storage.durability.deleted_topics import QueueRemoval


class Lane(StrEnum):
    """A class of requests that wait in one bounded queue, named after 4.9.3's executors."""

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
    """A ready response that may leave once its message is durable, here, on a slave, or on both.

    deadline_ms: when it no longer waits for the disk.
    failure: the code of the response if the disk takes too long.
    replica_deadline_ms: when it no longer waits for a slave; None if it does not.
    waits_for_disk: whether it waits for ``flushed >= physical_offset_end``.
    """

    response: RemotingCommand
    physical_offset_end: int
    deadline_ms: int
    failure: int = ResponseCode.FLUSH_DISK_TIMEOUT
    replica_deadline_ms: int | None = None
    waits_for_disk: bool = True

    def timed_out(self) -> RemotingCommand:
        """Return the response at the disk's deadline: the failure code with the full header.

        The message is in the log and may still become durable, so the client gets id and offset.
        """
        if self.response.code != ResponseCode.FLUSH_SLAVE_TIMEOUT:
            self.response.code = self.failure
        return self.response

    def replica_timed_out(self) -> RemotingCommand:
        """Return the response at the slave's deadline; its code goes before the disk's."""
        self.response.code = ResponseCode.FLUSH_SLAVE_TIMEOUT
        return self.response

    def flush_failed(self, remark: str) -> RemotingCommand:
        """Return the response after a flush that reported an error.

        4.9.3 answers SUCCESS here. Code 1 makes the producer send the message again elsewhere.
        """
        return self._instead(ResponseCode.SYSTEM_ERROR, remark)

    def refused(self, remark: str) -> RemotingCommand:
        """Return the response of a master that is none any more: the message may be cut."""
        return self._instead(ResponseCode.SERVICE_NOT_AVAILABLE, remark)

    def _instead(self, code: int, remark: str) -> RemotingCommand:
        self.response.code = code
        self.response.remark = remark
        self.response.ext_fields = {}
        return self.response


class HoldPull(msgspec.Struct, frozen=True, gc=False):
    """A note for PullHold: have ``Broker.wake`` run the pull when its queue reaches further.

    ``codes`` are the tag hashes that the pull accepts. None accepts all, and stands for a filter by
    properties. The hint saves wakes: the Broker filters again.
    """

    hold_id: int
    topic: str
    queue_id: int
    queue_offset: int
    deadline_ms: int
    codes: frozenset[int] | None


DoSteps: TypeAlias = Callable[[Steps[Any]], Any]
"""Returns the result of steps, however and wherever they are done."""


class WorkKind(StrEnum):
    """What work in the pool needs. Work of one kind waits for no other kind.

    READ: it reads from the disk for a short time.
    JUDGE: it also computes for long, in steps. It is called as ``work(do_steps)``, which has them
        done on the Broker's thread between other requests, and waits.
    SEARCH: it looks a client's key up in the index, and may read for seconds.
    SURVEY: it looks at all queues of topics for a tool, and may read for seconds.
    ENCODE: it goes through a whole table, mostly to make its text, and needs the interpreter.
    """

    READ = "read"
    JUDGE = "judge"
    SEARCH = "search"
    SURVEY = "survey"
    ENCODE = "encode"


class RunInPool(msgspec.Struct, frozen=True):
    """Work that may block on the disk.

    ``work()`` only reads the store and touches no table of the core, so any thread may run it.
    ``finish(result, now_ms)`` runs on the Broker's thread and returns what ``process`` would have.
    If ``work`` raises, the shell responds with ``error_response(request, error)``.
    """

    work: Callable[..., Any]
    finish: Callable[[Any, int], "Outcome"]
    kind: WorkKind = WorkKind.READ


def make_body(
    request: Request[Any], work: Callable[[], bytes], kind: WorkKind = WorkKind.READ
) -> RunInPool:
    """Have the pool make the body of a successful response."""
    return RunInPool(work, lambda body, _now_ms: request.success(body=body), kind)


class AskClient(msgspec.Struct, frozen=True):
    """A request of the broker to one of its clients, of whose response the outcome is made.

    ``finish(response, now_ms)`` returns what ``process`` would have. It gets the error instead if
    the connection is closed, the client is silent, or too many questions are under way.
    """

    channel_id: int
    command: RemotingCommand
    timeout_seconds: float
    finish: Callable[[RemotingCommand | RemotingError, int], "Outcome"]


class RemoveQueues(msgspec.Struct, frozen=True):
    """Have Reput remove queues for good; until then their topics take no messages.

    ``finish(why_not, now_ms)`` returns what ``process`` would have; "" if they are gone.
    """

    removal: QueueRemoval
    finish: Callable[[str, int], "Outcome"]


class AwaitSave(msgspec.Struct, frozen=True):
    """A change that was made in memory, and whose tables have to be saved before its response.

    saves: one for each table. If one fails, what was asked for is undone in all of them.
    ``finish(why_not, now_ms)`` returns what ``process`` would have; "" if what was asked for is
    saved.
    """

    saves: tuple["Persist", ...]
    finish: Callable[[str, int], "Outcome"]


class AwaitRegistration(msgspec.Struct, frozen=True):
    """A ready response that waits until every name server has taken what was registered, or failed.

    A client that creates a topic asks for its route next. A RegisterBroker comes with this.

    seconds_max: when the response leaves at the latest.
    """

    response: RemotingCommand
    seconds_max: float


class AwaitDispatch(msgspec.Struct, frozen=True):
    """A request to ``resume`` once the queues reach ``physical_offset``, or at its deadline."""

    request: Request[Any]
    physical_offset: int
    deadline_ms: int


Deferred: TypeAlias = (
    AwaitFlush
    | HoldPull
    | RunInPool
    | AskClient
    | RemoveQueues
    | AwaitSave
    | AwaitRegistration
    | AwaitDispatch
    | InOrder
    | Steps[Any]
)
"""The result of Steps is an Outcome, and so is that of InOrder's ``finish``; both run on the
Broker's thread, between other requests."""

Outcome: TypeAlias = RemotingCommand | Deferred | None


class Push(msgspec.Struct, frozen=True):
    """Write ``command`` to a connection, if it is still there."""

    channel_id: int
    command: RemotingCommand


class Continue(msgspec.Struct, frozen=True):
    """A held pull was woken and has to wait again: treat this as the outcome of ``process``."""

    channel_id: int
    request: RemotingCommand
    deferred: Deferred


class RegisterBroker(msgspec.Struct, frozen=True):
    """Send these topics to every name server, or the whole table if there are none.

    A name server that misses a part of the table gets all of it; see ``registration``.
    """

    topics: tuple[str, ...] = ()


class Persist(msgspec.Struct, frozen=True):
    """Write the text of ``Broker.tables[name].snapshot()`` to the config file of that name.

    The names are the stems of 4.9.3's files: topics, subscriptionGroup, consumerOffset (or
    lmqConsumerOffset), delayOffset, consumerFilter.

    undo: takes back a change that someone asked for, if the table cannot be saved. None for what
        came of itself, such as a topic that a send creates: it stays, and is saved later.
    """

    name: str
    undo: Callable[[], None] | None = None


class ReadAhead(msgspec.Struct, frozen=True):
    """Read a part of the log into the page cache; no request waits for it."""

    physical_offset: int
    length_bytes: int


class CloseChannel(msgspec.Struct, frozen=True):
    """Close a connection: its client sends no heartbeats, or has failed to sign too often.

    What it is to be answered in this turn is sent first.
    """

    channel_id: int


class ForgetHolds(msgspec.Struct, frozen=True):
    """Notify PullHold that these holds are over: their connection is closed."""

    hold_ids: tuple[int, ...]


class UseSettings(msgspec.Struct, frozen=True):
    """Go by the configuration as it is now: something in it has changed."""


class Appender(StrEnum):
    """A log that the core writes lines to: the name of a member of ``telemetry.logs.Log``."""

    REBALANCE_LOCK = "REBALANCE_LOCK"
    FILTER = "FILTER"
    TRANSACTION = "TRANSACTION"
    PROTECTION = "PROTECTION"
    BROKER = "BROKER"


class WriteLine(msgspec.Struct, frozen=True):
    """Write a line to a log. The shell may drop lines above a rate limit."""

    appender: Appender
    event: str
    values: dict[str, Any]


Instruction: TypeAlias = (
    Push
    | Continue
    | RegisterBroker
    | Persist
    | ReadAhead
    | CloseChannel
    | ForgetHolds
    | UseSettings
    | WriteLine
)
