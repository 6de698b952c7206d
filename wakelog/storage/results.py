"""What the store answers: the outcome of a put, of a get and of a query by key.

Expected outcomes (an offset too small, nothing matched, the disk is full) are values here, not
exceptions; the broker maps them to response codes in one place.

Source: org.apache.rocketmq.store.PutMessageStatus, PutMessageResult, GetMessageStatus,
GetMessageResult, QueryMessageResult (4.9.3). The names of the statuses are upstream's, because a
pull response carries the name in its remark.
"""

from enum import Enum
from typing import NamedTuple

import msgspec


class PutStatus(Enum):
    """How a put ended; only PUT_OK has positions."""

    PUT_OK = "PUT_OK"
    SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE"
    CREATE_MAPPED_FILE_FAILED = "CREATE_MAPEDFILE_FAILED"
    MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL"
    MESSAGE_SIZE_EXCEEDED = "MESSAGE_SIZE_EXCEEDED"
    PROPERTIES_SIZE_EXCEEDED = "PROPERTIES_SIZE_EXCEEDED"
    OS_PAGE_CACHE_BUSY = "OS_PAGECACHE_BUSY"
    LMQ_CONSUME_QUEUE_NUM_EXCEEDED = "LMQ_CONSUME_QUEUE_NUM_EXCEEDED"
    UNKNOWN_ERROR = "UNKNOWN_ERROR"


class PutResult(NamedTuple):
    """Where a message, or a batch of them, was placed.

    The bytes are gathered, not yet written: `MessageStore.write_pending` writes them, and no
    answer may leave before it returned. `physical_offset_end` is what a flush has to reach.
    """

    status: PutStatus
    physical_offset: int = -1
    size_bytes: int = 0
    queue_offset: int = -1
    store_timestamp_ms: int = 0
    physical_offsets: tuple[int, ...] = ()
    """One physical offset for each message of a batch, in order; one element for a single."""

    cause: str | None = None
    """Why the service is not available, where the store knows more than that."""

    @property
    def physical_offset_end(self) -> int:
        """The first byte after what was put."""
        return self.physical_offset + self.size_bytes


class GetStatus(Enum):
    """How a get ended; see `rocketmq.md` 4.1 for the condition behind each."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


class GetResult(msgspec.Struct, frozen=True):
    """What a get found and where the next one begins.

    frames: records as they lie in the log, in queue order; joined they are the body of the pull
        response. Those read together share one element: there can be fewer frames than messages.
    physical_offsets: one for each message, in queue order.
    suggest_slave: the last entry looked at lies further behind the log's end than 40 % of memory.
    fall_behind_bytes: the same distance in bytes, 0 when no entry was looked at.
    """

    status: GetStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    frames: tuple[bytes, ...] = ()
    count: int = 0
    size_bytes: int = 0
    physical_offsets: tuple[int, ...] = ()
    suggest_slave: bool = False
    fall_behind_bytes: int = 0


class QueryResult(NamedTuple):
    """Records whose key has the asked hash, in ascending physical offset.

    Topic and key are not compared again: the client does that (`rocketmq.md` section 9, fact 8).
    """

    frames: tuple[bytes, ...]
    physical_offsets: tuple[int, ...]
    index_last_update_timestamp_ms: int
    index_last_update_physical_offset: int
