"""Delayed messages: how they are stored and delivered, and the table of delayOffset.json.

A message with the property DELAY=n is stored in queue n-1 of SCHEDULE_TOPIC_XXXX, with its
destination in REAL_TOPIC and REAL_QID. Its consume queue entry has the time of delivery in place of
the tag's hash. A delivered message keeps all three properties, because 4.9.3 builds the string
before it cleans the map, and consumers see them.

Schedule returns the messages that are due. DelayedDelivery puts each into its real topic, once. The
offset of a level is the queue offset of the next message to deliver. A message below it was
delivered before and is skipped. So a Schedule that restarts, or asks twice, changes nothing.

4.9.3 stores the start of the delivered batch plus one. After a clean restart it delivers the rest
of the batch again. wakelog stores the true next offset, and 4.9.3 reads it as such.

Invariants:
    - level = queue id + 1; level n waits for element n - 1 of `StoreConfig.delays_ms`.
    - a level's offset grows by one for each message that was put or found undeliverable, and is
      never moved past a message whose put the store refused.

Source: org.apache.rocketmq.store.schedule.{ScheduleMessageService, DelayOffsetSerializeWrapper},
org.apache.rocketmq.store.CommitLog.asyncPutMessage (4.9.3).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wakelog.broker.names import NO_SEND_TOPICS
from wakelog.broker.schedule import DueMessage
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.fastjson import FILE_ENTRIES_MAX, dumps, loads, to_long
from wakelog.protocol.java import parse_integer
from wakelog.protocol.names import SCHEDULE_TOPIC, is_topic
from wakelog.protocol.properties import (
    DELAY,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    decode_properties,
    encode_properties,
)
from wakelog.protocol.record import MessageRecord
from wakelog.storage.log.append import MessageDraft, PutStatus, moved_draft

_NEVER_ACCEPTED = frozenset({PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED})
"""Refusals that repeat for ever for the same message. In 4.9.3 they block the level for good."""


def delay_level(properties: Mapping[str, str]) -> int:
    """Return the level that properties ask for, 0 for none.

    Raises: RemoteProtocolError with code 1 if DELAY is not a number.
    """
    text = properties.get(DELAY)
    if text is None:
        return 0
    try:
        return parse_integer(text)
    except ValueError as error:
        remark = f"java.lang.NumberFormatException: {error}"
        raise RemoteProtocolError(ResponseCode.SYSTEM_ERROR, remark) from error


def delay_draft(
    level_max: int, properties: dict[str, str], topic: str, queue_id: int
) -> tuple[str, int, str] | None:
    """Return topic, queue id and properties text under which a delayed message is stored.

    None if the properties ask for no delay. ``properties`` are changed to the stored ones.

    level_max: the level of a message that asks for a higher one.

    Raises: RemoteProtocolError with code 1 if DELAY is not a number.
    """
    level = delay_level(properties)
    if level <= 0:
        return None
    if level > level_max:
        level = level_max
        properties[DELAY] = str(level)
    properties[REAL_TOPIC] = topic
    properties[REAL_QUEUE_ID] = str(queue_id)
    return SCHEDULE_TOPIC, level - 1, encode_properties(properties)


def delivered_draft(
    record: MessageRecord, properties: dict[str, str] | None = None
) -> MessageDraft | None:
    """Return the message that a due record of the schedule topic is delivered as.

    properties: of the record, if the caller has decoded them.

    None if the record names no destination that a message may have. 4.9.3 would try such a record
    for ever, or refuse it when it names the half topic. It would put an op message.
    """
    if properties is None:
        properties = decode_properties(record.properties_text)
    topic = properties.get(REAL_TOPIC, "")
    queue_id = properties.get(REAL_QUEUE_ID, "")
    if topic in NO_SEND_TOPICS or not is_topic(topic):
        return None
    if not (queue_id.isascii() and queue_id.isdigit() and int(queue_id) <= 0x7FFFFFFF):
        return None
    text = encode_properties(properties)
    return moved_draft(record, topic=topic, queue_id=int(queue_id), properties_text=text)


class DelayedDelivery:
    """How far each level has been delivered."""

    def __init__(self) -> None:
        self._offsets: dict[int, int] = {}
        self.dirty = False
        self._delivered_count = 0
        self._repeated_count = 0
        self._undeliverable_count = 0
        self._refused_count = 0
        self._corrected_count = 0
        self.delayed_count = 0

    def offsets(self) -> dict[int, int]:
        """Return the next queue offset of each level that was ever used."""
        return dict(self._offsets)

    def deliver(
        self,
        due: Sequence[DueMessage],
        records: Sequence[MessageRecord | None],
        put: Callable[[MessageDraft, int], PutStatus],
    ) -> dict[int, int]:
        """Put due messages into their real topics; return the next offset of each level named.

        records: one for each of ``due``, None if the log no longer has the record.
        put: appends a message of a level to the store.
        """
        stopped: set[int] = set()
        for message, record in zip(due, records, strict=True):
            if message.level in stopped:
                continue
            if message.queue_offset < self._offsets.get(message.level, 0):
                self._repeated_count += 1
            elif self._deliver_one(record, message.level, put):
                self._offsets[message.level] = message.queue_offset + 1
                self.dirty = True
            else:
                stopped.add(message.level)
        return {message.level: self._offsets.get(message.level, 0) for message in due}

    def correct(self, queue_end: Callable[[int], int]) -> None:
        """Lower offsets beyond the end of their queue to the end.

        A crash can cut the log below the offsets. Other messages then get the same offsets, and
        would count as delivered.

        queue_end: the end of a queue of the schedule topic, by queue id.
        """
        for level, offset in self._offsets.items():
            end = queue_end(level - 1)
            if offset > end:
                self._offsets[level] = end
                self._corrected_count += 1
                self.dirty = True

    def content(self) -> dict[str, dict[int, int]]:
        """Return a copy of the table in the shape of its file, which is that of code 45's body."""
        return {"offsetTable": dict(sorted(self._offsets.items()))}

    def snapshot(self) -> Callable[[], str]:
        """Copy the table; return a function that encodes the copy as delayOffset.json."""
        self.dirty = False
        content = self.content()
        return lambda: dumps(content, pretty=True).decode()

    def load(self, text: str) -> None:
        """Read a delayOffset.json of wakelog or 4.9.3."""
        table = loads(text, entries_max=FILE_ENTRIES_MAX).get("offsetTable") or {}
        self._offsets.update({int(level): to_long(offset) for level, offset in table.items()})

    def statistics(self) -> dict[str, Any]:
        """Return offsets and counters."""
        return {
            "offsets": dict(self._offsets),
            "delivered_count": self._delivered_count,
            "repeated_count": self._repeated_count,
            "undeliverable_count": self._undeliverable_count,
            "refused_count": self._refused_count,
            "corrected_count": self._corrected_count,
        }

    def validate(self) -> None:
        """Assert that levels and offsets are possible ones."""
        assert all(level > 0 and offset >= 0 for level, offset in self._offsets.items())

    def _deliver_one(
        self,
        record: MessageRecord | None,
        level: int,
        put: Callable[[MessageDraft, int], PutStatus],
    ) -> bool:
        draft = None if record is None else delivered_draft(record)
        if draft is None:
            self._undeliverable_count += 1
            return True
        status = put(draft, level)
        if status in _NEVER_ACCEPTED:
            self._undeliverable_count += 1
            return True
        if status is not PutStatus.PUT_OK:
            self._refused_count += 1
            return False
        self._delivered_count += 1
        return True
