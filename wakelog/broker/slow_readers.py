"""SlowReaders: queues that groups read far behind the log's end, while that is to bar them.

With disableConsumeIfConsumerReadSlowly a group that reads so far behind is barred: its reads of old
messages would take the disk from everyone. An operator lets it consume again (updateSubGroup).

Source: org.apache.rocketmq.broker.BrokerController.protectBroker,
BrokerStatsManager.recordDiskFallBehindSize (4.9.3).
"""

from typing import Final

QUEUES_MAX: Final = 20_000
"""More queues are not noted: some 4 MB. A group with so many is barred for one of them."""


class SlowReaders:
    """How many bytes behind the log's end the last read of each slow queue was."""

    def __init__(self) -> None:
        """Know of no slow queue."""
        self._behind_bytes: dict[tuple[str, str, int], int] = {}

    def note(
        self, group: str, topic: str, queue_id: int, *, behind_bytes: int, limit_bytes: int
    ) -> None:
        """Note a read of a group; one within the limit ends what was noted of its queue."""
        key = group, topic, queue_id
        if behind_bytes <= limit_bytes:
            self._behind_bytes.pop(key, None)
        elif key in self._behind_bytes or len(self._behind_bytes) < QUEUES_MAX:
            self._behind_bytes[key] = behind_bytes

    def take(self) -> dict[str, int]:
        """Return the slow groups, with how far behind they were at most, and forget them."""
        found: dict[str, int] = {}
        for (group, _, _), behind_bytes in self._behind_bytes.items():
            found[group] = max(behind_bytes, found.get(group, 0))
        self._behind_bytes.clear()
        return found
