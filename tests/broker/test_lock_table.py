"""Locks of queues that are consumed in order (fact 58)."""

from collections.abc import Iterator

import pytest

from wakelog.broker import lock_table
from wakelog.broker.error_response import LimitReached
from wakelog.broker.lock_table import LOCK_LIVE_MS_MAX, LockTable
from wakelog.broker.table_limits import TableLimits
from wakelog.protocol.bodies import HeldLock, HeldLocks, decode_body, encode_body
from wakelog.protocol.body_codec import MessageQueue

Q0, Q1 = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)


@pytest.fixture
def locks() -> Iterator[LockTable]:
    table = LockTable()
    yield table
    table.validate()


def test_the_first_client_gets_a_lock_and_others_do_not(locks: LockTable) -> None:
    assert locks.lock("g", "c1", {Q0}, 0) == {Q0}
    assert locks.lock("g", "c2", {Q0, Q1}, 1) == {Q1}


def test_a_client_renews_its_own_lock(locks: LockTable) -> None:
    locks.lock("g", "c1", {Q0}, 0)
    assert locks.lock("g", "c1", {Q0}, LOCK_LIVE_MS_MAX) == {Q0}
    assert locks.lock("g", "c2", {Q0}, LOCK_LIVE_MS_MAX + 1) == set()


def test_a_lock_goes_to_another_client_60_s_after_the_last_renewal(locks: LockTable) -> None:
    locks.lock("g", "c1", {Q0}, 0)
    assert locks.lock("g", "c2", {Q0}, LOCK_LIVE_MS_MAX) == set()
    assert locks.lock("g", "c2", {Q0}, LOCK_LIVE_MS_MAX + 1) == {Q0}


@pytest.mark.parametrize(
    ("group", "queue"),
    [
        ("other", Q0),
        ("g", MessageQueue("T", "broker-b", 0)),
        ("g", MessageQueue("U", "broker-a", 0)),
        ("g", Q1),
    ],
)
def test_groups_brokers_topics_and_queues_are_locked_apart(
    locks: LockTable, group: str, queue: MessageQueue
) -> None:
    locks.lock("g", "c1", {Q0}, 0)
    assert locks.lock(group, "c2", {queue}, 0) == {queue}


def test_only_the_holder_can_unlock(locks: LockTable) -> None:
    locks.lock("g", "c1", {Q0}, 0)
    locks.unlock("g", "c2", {Q0})
    assert locks.lock("g", "c2", {Q0}, 1) == set()
    locks.unlock("g", "c1", {Q0, Q1})
    assert locks.statistics()["group_count"] == 0
    assert locks.lock("g", "c2", {Q0}, 1) == {Q0}


def test_unlocking_in_an_unknown_group_does_nothing(locks: LockTable) -> None:
    locks.unlock("g", "c1", {Q0})
    assert locks.statistics()["lock_count"] == 0


def test_expired_locks_are_swept_away(locks: LockTable) -> None:
    locks.lock("g", "c1", {Q0}, 0)
    locks.lock("g", "c1", {Q1}, 10)
    locks.expire(LOCK_LIVE_MS_MAX + 1)
    assert locks.statistics()["lock_count"] == 1
    locks.expire(LOCK_LIVE_MS_MAX + 11)
    assert locks.statistics()["group_count"] == 0


def test_locks_above_a_limit_are_refused() -> None:
    locks = LockTable(TableLimits(locks=5, locks_per_group=3))
    many = [MessageQueue("T", "b", queue_id) for queue_id in range(4)]
    with pytest.raises(LimitReached):
        locks.lock("g", "c1", set(many), 0)
    assert len(locks.lock("g", "c1", set(many[:-1]), 0)) == 3
    with pytest.raises(LimitReached):
        locks.lock("h", "c1", set(many[:3]), 0)
    assert len(locks.lock("h", "c1", set(many[:2]), 0)) == 2
    assert locks.unlock("h", "c1", set(many[:1])) == set(many[:1])
    assert len(locks.lock("i", "c1", set(many[:1]), 0)) == 1
    assert locks.lock("g", "c1", set(many[:2]), 1) == set(many[:2])  # a renewal needs no room
    with pytest.raises(LimitReached):
        locks.lock("g", "c2", set(many[-1:]), 1)
    locks.validate()
    locks.expire(LOCK_LIVE_MS_MAX + 2)
    locks.validate()
    assert locks.statistics() == {"group_count": 0, "lock_count": 0}


def test_a_client_without_an_id_releases_what_it_has(locks: LockTable) -> None:
    queue = MessageQueue("T", "b", 0)
    assert locks.unlock("g", "", {queue}) == set()
    locks.lock("g", "", {queue}, 0)
    assert locks.unlock("g", "", {queue, MessageQueue("T", "b", 1)}) == {queue}


def test_locking_nothing_leaves_nothing(locks: LockTable) -> None:
    assert locks.lock("g", "c1", set(), 0) == set()
    assert locks.statistics()["group_count"] == 0


def test_another_broker_has_the_locks_for_as_long_as_they_have_left(locks: LockTable) -> None:
    locks.lock("g", "c1", {Q0}, 0)
    locks.lock("g", "c2", {Q1}, 50_000)
    copy, begin_ms = LockTable(), 1_000_000  # its clock says something else
    copy.lock("gone", "c9", {Q0}, begin_ms)
    text = encode_body(HeldLocks(locks.all(59_000)))
    copy.replace(decode_body(HeldLocks, text).wakelog_locks, begin_ms)
    copy.validate()
    assert copy.statistics() == {"group_count": 1, "lock_count": 2}
    assert copy.lock("g", "c3", {Q0, Q1}, begin_ms + 1_000) == set()
    assert copy.lock("g", "c3", {Q0, Q1}, begin_ms + 1_001) == {Q0}
    assert copy.lock("g", "c2", {Q1}, begin_ms + 1_002) == {Q1}
    locks.replace([], 0)
    assert locks.statistics()["lock_count"] == 0


def test_a_lock_that_expired_on_its_way_is_not_taken(locks: LockTable) -> None:
    old, new = (HeldLock("g", "c", queue, LOCK_LIVE_MS_MAX + n) for n, queue in enumerate((Q0, Q1)))
    locks.replace([new, old], 1_000_000)
    assert locks.statistics() == {"group_count": 1, "lock_count": 1}
    assert [one.queue for one in locks.all(1_000_000)] == [Q0]


def test_the_newest_locks_are_copied(locks: LockTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_table, "COPIED_MAX", 1)
    locks.lock("g", "c1", {Q0}, 0)
    locks.lock("g", "c2", {Q1}, 10)
    assert [(one.client_id, one.age_ms) for one in locks.all(15)] == [("c2", 5)]
