"""The queues of half and op messages, as the check of half messages reads them.

Source: org.apache.rocketmq.broker.transaction.queue.TransactionalMessageServiceImpl (4.9.3).
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from wakelog.broker.transactions import REMOVE_TAG
from wakelog.protocol.java import LONG_MAX, LONG_MIN, parse_integer
from wakelog.protocol.properties import (
    CHECK_IMMUNITY_TIME_IN_SECONDS,
    TAGS,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_PREPARED_QUEUE_OFFSET,
    UNIQ_KEY,
    decode_properties,
)
from wakelog.protocol.record import MessageRecord

Message = TypeVar("Message")


class Page(msgspec.Struct, Generic[Message], frozen=True):
    """What one read of a queue found, in queue order.

    next_offset: where to go on. Without messages, this is the offset that was read from if the
        queue ends there, and else the next one at which there may be messages.
    """

    messages: Sequence[Message]
    next_offset: int


class HalfMessage(msgspec.Struct, frozen=True):
    """What the rules need of a half message; check_times and what follows are properties."""

    queue_offset: int
    physical_offset: int
    size_bytes: int
    born_timestamp_ms: int
    store_timestamp_ms: int
    check_times: str | None = None
    immunity_seconds: str | None = None
    prepared_queue_offset: str | None = None
    unique_key: str | None = None

    @property
    def first_offset(self) -> int | None:
        """The queue offset of the half message that this one is a renewed copy of.

        None if it is no copy, and -1 if the property is no number.
        """
        return None if self.prepared_queue_offset is None else long(self.prepared_queue_offset)


class OpMessage(msgspec.Struct, frozen=True):
    """What the rules need of an op message; half_offset is None if it ends nothing."""

    queue_offset: int
    half_offset: int | None


ReadHalves = Callable[[int], Page[HalfMessage]]
ReadOps = Callable[[int], Page[OpMessage]]


def half_message(record: MessageRecord) -> HalfMessage:
    """Return what the rules need of a record of the half queue."""
    properties = decode_properties(record.properties_text)
    return HalfMessage(
        record.queue_offset,
        record.physical_offset,
        record.size_bytes,
        record.born_timestamp_ms,
        record.store_timestamp_ms,
        properties.get(TRANSACTION_CHECK_TIMES),
        properties.get(CHECK_IMMUNITY_TIME_IN_SECONDS),
        properties.get(TRANSACTION_PREPARED_QUEUE_OFFSET),
        properties.get(UNIQ_KEY),
    )


def op_message(record: MessageRecord) -> OpMessage:
    """Return what the rules need of a record of the op queue."""
    ends = decode_properties(record.properties_text).get(TAGS) == REMOVE_TAG
    half_offset = long(record.body.decode("utf-8", "replace")) if ends else None
    return OpMessage(record.queue_offset, half_offset)


def next_page(read: Callable[[int], Page[Message]], offset: int) -> Page[Message]:
    """Read from an offset on, or from where there are messages if that is further or before."""
    page = read(offset)
    if not page.messages and page.next_offset != offset:
        page = read(page.next_offset)
    return page


def long(text: str) -> int:
    """Read a number as 4.9.3 does: -1 if it is none."""
    try:
        return parse_integer(text, minimum=LONG_MIN, maximum=LONG_MAX)
    except ValueError:
        return -1
