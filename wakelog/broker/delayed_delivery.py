"""DelayedDelivery: the Broker's side of delay levels, and the table that delayOffset.json keeps.

Schedule returns the messages that are due. This module puts each into its real topic, once. The
offset of a level is the queue offset of the next message to deliver. A message below it was
delivered before and is skipped. So a Schedule that restarts, or asks twice, changes nothing.

4.9.3 stores the start of the delivered batch plus one. After a clean restart it delivers the rest
of the batch again. wakelog stores the true next offset, and 4.9.3 reads it as such.

Invariants: a level's offset grows by one for each message that was put or found undeliverable,
and is never moved past a message whose put the store refused.

Source: org.apache.rocketmq.store.schedule.{ScheduleMessageService, DelayOffsetSerializeWrapper}
(4.9.3).
"""

from collections.abc import Callable, Sequence
from typing import Any

from wakelog.broker.delay_level import unpark
from wakelog.broker.schedule import DueMessage
from wakelog.protocol.fastjson import dumps, loads, to_long
from wakelog.protocol.record import MessageRecord
from wakelog.storage.log.append import MessageDraft, PutStatus

_NEVER_ACCEPTED = frozenset(
    {
        PutStatus.MESSAGE_ILLEGAL,
        PutStatus.MESSAGE_SIZE_EXCEEDED,
        PutStatus.PROPERTIES_SIZE_EXCEEDED,
    }
)
"""Refusals that repeat for ever for the same message. In 4.9.3 they block the level for good."""


class DelayedDelivery:
    """How far each level has been delivered."""

    def __init__(self) -> None:
        """Start every level at 0."""
        self._offsets: dict[int, int] = {}
        self.dirty = False
        self._delivered_count = 0
        self._repeated_count = 0
        self._undeliverable_count = 0
        self._refused_count = 0
        self._corrected_count = 0
        self.parked_count = 0

    def offsets(self) -> dict[int, int]:
        """Return the next queue offset of each level that was ever used."""
        return dict(self._offsets)

    def deliver(
        self,
        due: Sequence[DueMessage],
        records: Sequence[MessageRecord | None],
        put: Callable[[MessageDraft], PutStatus],
    ) -> dict[int, int]:
        """Put due messages into their real topics; return the next offset of each level named.

        records: one for each of ``due``, None if the log no longer has the record.
        put: appends a message to the store.
        """
        stopped: set[int] = set()
        for message, record in zip(due, records, strict=True):
            if message.level in stopped:
                continue
            if message.queue_offset < self._offsets.get(message.level, 0):
                self._repeated_count += 1
            elif self._deliver_one(record, put):
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

    def snapshot(self) -> Callable[[], str]:
        """Copy the table; return a function that encodes the copy as delayOffset.json."""
        self.dirty = False
        content = {"offsetTable": dict(sorted(self._offsets.items()))}
        return lambda: dumps(content, pretty=True).decode()

    def load(self, text: str) -> None:
        """Read a delayOffset.json of wakelog or 4.9.3."""
        table = loads(text).get("offsetTable") or {}
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
        self, record: MessageRecord | None, put: Callable[[MessageDraft], PutStatus]
    ) -> bool:
        draft = None if record is None else unpark(record)
        if draft is None:
            self._undeliverable_count += 1
            return True
        status = put(draft)
        if status in _NEVER_ACCEPTED:
            self._undeliverable_count += 1
            return True
        if status is not PutStatus.PUT_OK:
            self._refused_count += 1
            return False
        self._delivered_count += 1
        return True
