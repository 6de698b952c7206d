"""What the broker core hands to its shell: responses that have to wait, and instructions.

``Broker.process`` returns a response, None for no response, work for one (``effects``), or what the
shell parks: a response that waits for a watermark, or a pull. Everything else that the core wants
done (pushes, files to write, routes to register) it appends to ``BrokerState.instructions``. The
shell takes these after each turn.

Invariants:
    - nothing here holds a socket. A connection is named by its channel id.
    - a one-way request has no response, however long its work takes.

Source: org.apache.rocketmq.broker.longpolling.PullRequest, CompletableFuture<PutMessageResult> and
BrokerController.registerBrokerAll (4.9.3), turned into values.
"""

from collections.abc import Callable, Generator
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand


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
    replica_failure: the code of the response if the slave takes too long.
    waits_for_disk: whether it waits for ``flushed >= physical_offset_end``.
    """

    response: RemotingCommand
    physical_offset_end: int
    deadline_ms: int
    failure: int = ResponseCode.FLUSH_DISK_TIMEOUT
    replica_deadline_ms: int | None = None
    replica_failure: int = ResponseCode.FLUSH_SLAVE_TIMEOUT
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
        self.response.code = self.replica_failure
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

    def is_woken_by(self, next_queue_offset: int, tags_code: int | None) -> bool:
        """Return whether messages of its queue may be what the pull waits for.

        next_queue_offset: after the last one of them. tags_code: None for several, or unknown ones.
        """
        if next_queue_offset <= self.queue_offset:
            return False
        return self.codes is None or tags_code is None or tags_code in self.codes


Outcome: TypeAlias = RemotingCommand | AwaitFlush | HoldPull | None
"""What a request ends with. The two in the middle are parked until their response is ready."""


class Push(msgspec.Struct, frozen=True):
    """Write ``command`` to a connection, if it is still there."""

    channel_id: int
    command: RemotingCommand


class Continue(msgspec.Struct, frozen=True):
    """A held pull was woken and has no response yet: treat this as the outcome of ``process``."""

    channel_id: int
    request: RemotingCommand
    outcome: Outcome | Generator[Any, Any, Outcome]


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
    AUDIT = "AUDIT"


class WriteLine(msgspec.Struct, frozen=True):
    """Write a line to a log. The shell may drop lines above a rate limit.

    is_kept: never drop it.
    """

    appender: Appender
    event: str
    values: dict[str, Any]
    is_kept: bool = False


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
