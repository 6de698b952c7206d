"""Traffic: how many messages and bytes went in by topic and out by topic and group.

The counters of 4.9.3's TOPIC_PUT_NUMS, TOPIC_PUT_SIZE, GROUP_GET_NUMS, GROUP_GET_SIZE and
SNDBCK_PUT_NUMS. They only grow; their reader makes rates of them. When a table is full, a new name
counts under ``OTHERS``, so that made-up names cannot fill the memory.

Source: org.apache.rocketmq.store.stats.BrokerStatsManager (4.9.3).
"""

from collections.abc import Mapping
from typing import Any, TypeVar

Value = TypeVar("Value")

NAMES_MAX = 20_000  # for each table; 4.9.3 has no limit
OTHERS = "*"


class Traffic:
    """Counters of one broker."""

    def __init__(self) -> None:
        self._puts: dict[str, list[int]] = {}
        self._gets: dict[tuple[str, str], list[int]] = {}
        self._send_backs: dict[tuple[str, str], int] = {}

    def count_put(self, topic: str, messages_count: int, size_bytes: int) -> None:
        """Count messages that were appended to a topic."""
        counter = self._puts.get(topic)
        if counter is None:
            name = topic if len(self._puts) < NAMES_MAX else OTHERS
            counter = self._puts.setdefault(name, [0, 0])
        counter[0] += messages_count
        counter[1] += size_bytes

    def count_get(self, topic: str, group: str, messages_count: int, size_bytes: int) -> None:
        """Count messages that a group has received."""
        counter = self._gets.get((topic, group))
        if counter is None:
            key = (topic, group) if len(self._gets) < NAMES_MAX else (OTHERS, OTHERS)
            counter = self._gets.setdefault(key, [0, 0])
        counter[0] += messages_count
        counter[1] += size_bytes

    def count_send_back(self, topic: str, group: str) -> None:
        """Count a message that a group sent back."""
        key = (topic, group)
        if key not in self._send_backs and len(self._send_backs) >= NAMES_MAX:
            key = (OTHERS, OTHERS)
        self._send_backs[key] = self._send_backs.get(key, 0) + 1

    def statistics(self) -> dict[str, Any]:
        """Return a copy of all counters.

        (messages, bytes) by topic, or by topic and then group; send-backs count messages only.
        """
        return {
            "put_by_topic": {name: (count, size) for name, (count, size) in self._puts.items()},
            "get_by_topic_and_group": _by_topic(
                {key: (count, size) for key, (count, size) in self._gets.items()}
            ),
            "send_back_by_topic_and_group": _by_topic(self._send_backs),
        }


def _by_topic(counts: Mapping[tuple[str, str], Value]) -> dict[str, dict[str, Value]]:
    """Nest by topic: JSON between processes has no pairs as keys."""
    nested: dict[str, dict[str, Value]] = {}
    for (topic, group), value in counts.items():
        nested.setdefault(topic, {})[group] = value
    return nested
