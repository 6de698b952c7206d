"""LockTable: which client of a group may consume a queue in order (codes 41 and 42).

A client renews its locks every 20 s, and counts a lock as lost after 30 s. The broker gives a lock
to another client only after 60 s without renewal. So two clients can both own a queue only if their
clocks run at different speeds. 4.9.3 has no limit, and never drops an expired lock.

Invariants: no group is kept without entries; ``_lock_count`` is how many there are.

Source: org.apache.rocketmq.broker.client.rebalance.RebalanceLockManager (4.9.3).
"""

from collections.abc import Iterable, Set
from typing import Final

from wakelog.broker.table_limits import DEFAULT_LIMITS, TableLimits, table_full
from wakelog.protocol.bodies import HeldLock
from wakelog.protocol.body_codec import MessageQueue

LOCK_LIVE_MS_MAX = 60_000  # rocketmq.broker.rebalance.lockMaxLiveTime

COPIED_MAX: Final = 32_768
"""Some 5 MB for a follower; clients lock again what it lacks."""


class LockTable:
    """Owner and time of renewal of each locked queue, by group."""

    def __init__(self, limits: TableLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._groups: dict[str, dict[MessageQueue, tuple[str, int]]] = {}
        self._lock_count = 0

    def lock(
        self, group: str, client_id: str, queues: Set[MessageQueue], now_ms: int
    ) -> set[MessageQueue]:
        """Lock or renew every queue that is free or the client's; return those it holds now.

        Raises: LimitReached if there are too many locks, or too many of the group; nothing changes
            then.
        """
        locked = set()
        self._lock_count = self.check_room(group, queues)
        entries = self._groups.get(group, {})
        for queue in queues:
            entry = entries.get(queue)
            if entry is None or entry[0] == client_id or _is_expired(entry, now_ms):
                entries[queue] = (client_id, now_ms)
                locked.add(queue)
        if entries:
            self._groups[group] = entries
        return locked

    def check_room(self, group: str, queues: Set[MessageQueue]) -> int:
        """Return how many locks there are with these. Raises: LimitReached as `lock`."""
        entries = self._groups.get(group, {})
        grown_count = sum(queue not in entries for queue in queues)
        if len(entries) + grown_count > self._limits.locks_per_group:
            raise table_full("locked queues for each group", self._limits.locks_per_group)
        if self._lock_count + grown_count > self._limits.locks:
            raise table_full("locked queues", self._limits.locks)
        return self._lock_count + grown_count

    def held(self, group: str, client_id: str, queues: Set[MessageQueue]) -> set[MessageQueue]:
        """Return those of the queues whose lock a client has, expired or not."""
        entries = self._groups.get(group, {})
        return {queue for queue in queues if queue in entries and entries[queue][0] == client_id}

    def unlock(self, group: str, client_id: str, queues: Set[MessageQueue]) -> set[MessageQueue]:
        """Release the locks of this client and return them; locks of others stay."""
        released = self.held(group, client_id, queues)
        for queue in released:
            del self._groups[group][queue]
        self._lock_count -= len(released)
        if released and not self._groups[group]:
            del self._groups[group]
        return released

    def all(self, now_ms: int) -> list[HeldLock]:
        """Return the locks, for the members of a group: `COPIED_MAX` at most, the newest first."""
        found = [
            HeldLock(group, client_id, queue, max(0, now_ms - renewed_ms))
            for group, entries in self._groups.items()
            for queue, (client_id, renewed_ms) in entries.items()
        ]
        if len(found) > COPIED_MAX:
            found = sorted(found, key=lambda one: one.age_ms)[:COPIED_MAX]
        return found

    def replace(self, locks: Iterable[HeldLock], now_ms: int) -> None:
        """Have the locks of another broker, and no others, each for as long as it has left."""
        self._groups, self._lock_count = {}, 0
        for one in locks:
            entries = self._groups.setdefault(one.group, {})
            entries[one.queue] = (one.client_id, now_ms - one.age_ms)
        self._lock_count = sum(map(len, self._groups.values()))
        self.expire(now_ms)

    def expire(self, now_ms: int) -> None:
        """Drop the expired locks."""
        for group, entries in list(self._groups.items()):
            expired = [queue for queue, entry in entries.items() if _is_expired(entry, now_ms)]
            for queue in expired:
                del entries[queue]
            self._lock_count -= len(expired)
            if not entries:
                del self._groups[group]

    def statistics(self) -> dict[str, int]:
        """Return the sizes of the table."""
        return {
            "group_count": len(self._groups),
            "lock_count": self._lock_count,
        }

    def validate(self) -> None:
        """Assert the invariants of the module."""
        assert self._lock_count == sum(map(len, self._groups.values())) <= self._limits.locks
        for entries in self._groups.values():
            assert 0 < len(entries) <= self._limits.locks_per_group


def _is_expired(entry: tuple[str, int], now_ms: int) -> bool:
    return now_ms - entry[1] > LOCK_LIVE_MS_MAX
