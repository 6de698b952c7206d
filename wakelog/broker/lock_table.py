"""LockTable: which client of a group may consume a queue in order (codes 41 and 42).

A client renews its locks every 20 s, and counts a lock as lost after 30 s. The broker gives a lock
to another client only after 60 s without renewal. So two clients can both own a queue only if their
clocks run at different speeds. 4.9.3 has no limit, and never drops an expired lock.

Invariants: no group is kept without entries, or with more than ``QUEUES_MAX``.

Source: org.apache.rocketmq.broker.client.rebalance.RebalanceLockManager (4.9.3).
"""

from collections.abc import Set

from wakelog.broker.error_response import LimitReached
from wakelog.protocol.body_codec import MessageQueue

LOCK_LIVE_MS_MAX = 60_000  # rocketmq.broker.rebalance.lockMaxLiveTime
QUEUES_MAX = 65_536  # for each group; the largest topic that 4.9.3 creates itself has 1,024


class LockTable:
    """Owner and time of renewal of each locked queue, by group."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[MessageQueue, tuple[str, int]]] = {}

    def lock(
        self, group: str, client_id: str, queues: Set[MessageQueue], now_ms: int
    ) -> set[MessageQueue]:
        """Lock or renew every queue that is free or the client's; return those it holds now.

        Raises: LimitReached if the group would hold more than QUEUES_MAX; nothing changes then.
        """
        locked = set()
        entries = self._groups.get(group, {})
        if len(entries.keys() | queues) > QUEUES_MAX:
            raise LimitReached("locked queues for each group", QUEUES_MAX)
        for queue in queues:
            entry = entries.get(queue)
            if entry is None or entry[0] == client_id or _is_expired(entry, now_ms):
                entries[queue] = (client_id, now_ms)
                locked.add(queue)
        if entries:
            self._groups[group] = entries
        return locked

    def held(self, group: str, client_id: str, queues: Set[MessageQueue]) -> set[MessageQueue]:
        """Return those of the queues whose lock a client has, expired or not."""
        entries = self._groups.get(group, {})
        return {queue for queue in queues if entries.get(queue, ("", 0))[0] == client_id}

    def unlock(self, group: str, client_id: str, queues: Set[MessageQueue]) -> set[MessageQueue]:
        """Release the locks of this client and return them; locks of others stay."""
        released = self.held(group, client_id, queues)
        for queue in released:
            del self._groups[group][queue]
        if released and not self._groups[group]:
            del self._groups[group]
        return released

    def expire(self, now_ms: int) -> None:
        """Drop the expired locks."""
        for group, entries in list(self._groups.items()):
            for queue in [q for q, entry in entries.items() if _is_expired(entry, now_ms)]:
                del entries[queue]
            if not entries:
                del self._groups[group]

    def statistics(self) -> dict[str, int]:
        """Return the sizes of the table."""
        return {
            "group_count": len(self._groups),
            "lock_count": sum(len(entries) for entries in self._groups.values()),
        }

    def validate(self) -> None:
        """Assert the invariants of the module."""
        for entries in self._groups.values():
            assert 0 < len(entries) <= QUEUES_MAX
            assert all(owner for owner, _ in entries.values())


def _is_expired(entry: tuple[str, int], now_ms: int) -> bool:
    return now_ms - entry[1] > LOCK_LIVE_MS_MAX
