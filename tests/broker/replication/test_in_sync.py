"""InSync: nothing is confirmed that a replica lacks which may lead."""

import pytest

from wakelog.broker.replication.in_sync import (
    ABSENT_MS_MAX,
    BEHIND_MS_MAX,
    LOST_MS_MAX,
    InSync,
)


def make(members: set[int], *, start: int = 10, replicas_min: int = 1) -> InSync:
    """Make the set of master 1."""
    return InSync(1, start, members, confirmed=4, replicas_min=replicas_min, now_ms=0)


def ack(in_sync: InSync, replica: int, durable: int, now_ms: int = 0) -> bool:
    """Let a follower acknowledge."""
    return in_sync.on_ack(replica, durable, now_ms, is_seeding=False)


def test_the_slowest_member_counts() -> None:
    in_sync = make({1, 2, 3})
    assert in_sync.confirmed == 4
    in_sync.on_own_durable(50)
    ack(in_sync, 2, 40)
    assert in_sync.confirmed == 4
    assert ack(in_sync, 3, 30)
    assert in_sync.confirmed == 30
    ack(in_sync, 3, 99)
    assert in_sync.confirmed == 40
    ack(in_sync, 2, 99)
    assert in_sync.confirmed == 50, "the own copy counts, too"


def test_a_master_alone_confirms_what_it_has() -> None:
    in_sync = make({1})
    assert in_sync.confirmed == 10
    in_sync.on_own_durable(20)
    assert in_sync.confirmed == 20
    assert in_sync.acked_by_all_ms(7) == 7


def test_one_without_the_old_bytes_does_not_join() -> None:
    in_sync = make({1})
    ack(in_sync, 2, 9)
    assert in_sync.wanted(0) == {1}
    ack(in_sync, 2, 10)
    assert in_sync.wanted(0) == {1, 2}
    in_sync.on_own_durable(11)
    assert in_sync.wanted(0) == {1}, "confirmed has moved meanwhile"
    in_sync.on_ack(2, 11, 0, is_seeding=True)
    assert in_sync.wanted(0) == {1}, "it is being seeded"
    ack(in_sync, 2, 11)
    assert in_sync.wanted(ABSENT_MS_MAX + 1) == {1}, "it was not heard for a while"


def test_a_joining_replica_counts_before_the_register_answers() -> None:
    in_sync = make({1})
    ack(in_sync, 2, 10)
    in_sync.propose(frozenset({1, 2}), "7")
    in_sync.on_own_durable(20)
    assert in_sync.confirmed == 10
    in_sync.on_register(frozenset({1}), "7")
    in_sync.on_own_durable(21)
    assert in_sync.confirmed == 10, "the proposal may still be on its way"
    in_sync.on_register(frozenset({1}), "8")
    assert in_sync.confirmed == 21, "another value came before it"


def test_a_leaving_replica_counts_until_the_register_agrees() -> None:
    in_sync = make({1, 2})
    in_sync.propose(frozenset({1}), "7")
    in_sync.on_own_durable(20)
    assert in_sync.confirmed == 4
    assert in_sync.on_register(frozenset({1}), "8")
    assert in_sync.confirmed == 20


def test_one_that_falls_behind_leaves() -> None:
    in_sync = make({1, 2})
    ack(in_sync, 2, 10, 0)
    in_sync.on_own_durable(20)
    ack(in_sync, 2, 10, BEHIND_MS_MAX)
    assert in_sync.wanted(BEHIND_MS_MAX) == {1, 2}
    ack(in_sync, 2, 19, BEHIND_MS_MAX + 1)
    assert in_sync.wanted(BEHIND_MS_MAX + 1) == {1}, "it lacks what was the end long ago"
    ack(in_sync, 2, 20, BEHIND_MS_MAX + 2)
    assert in_sync.wanted(BEHIND_MS_MAX + 2) == {1, 2}


def test_one_that_is_gone_or_seeded_leaves_sooner() -> None:
    in_sync = make({1, 2})
    ack(in_sync, 2, 10, 0)
    assert in_sync.wanted(ABSENT_MS_MAX) == {1, 2}
    in_sync.on_lost(2, ABSENT_MS_MAX)
    assert in_sync.wanted(ABSENT_MS_MAX + 1) == {1}
    in_sync.on_ack(2, 10, ABSENT_MS_MAX + 1, is_seeding=True)
    assert in_sync.wanted(ABSENT_MS_MAX + 1) == {1}


def test_one_whose_connection_has_ended_leaves_at_once_if_enough_are_left() -> None:
    in_sync = make({1, 2, 3}, replicas_min=2)
    for replica in (2, 3):
        ack(in_sync, replica, 10, 0)
    in_sync.on_lost(2, 100)
    in_sync.on_lost(2, 900)  # a second time, or asking, moves nothing
    assert in_sync.wanted(900) == {1, 2, 3}
    assert in_sync.wanted(100 + LOST_MS_MAX) == {1, 2, 3}
    assert in_sync.wanted(101 + LOST_MS_MAX) == {1, 3}
    ack(in_sync, 2, 10, 2_000)  # it is back before the register was asked
    assert in_sync.wanted(2_000) == in_sync.wanted(2_001 + LOST_MS_MAX) == {1, 2, 3}
    for replica in (2, 3):
        in_sync.on_lost(replica, 3_100)
    assert in_sync.wanted(3_101 + LOST_MS_MAX) == {1, 2, 3}, "sends would be refused"
    assert in_sync.wanted(2_001 + ABSENT_MS_MAX) == {1}


def test_one_that_has_not_connected_in_this_epoch_has_its_time() -> None:
    in_sync = make({1, 2})
    in_sync.on_lost(2, 0)
    assert in_sync.wanted(0) == in_sync.wanted(LOST_MS_MAX + 1) == {1, 2}


def test_what_a_lost_connection_acknowledged_counts_no_more() -> None:
    in_sync = make({1, 2})
    in_sync.on_own_durable(20)
    ack(in_sync, 2, 15)
    in_sync.on_lost(2, 0)
    assert in_sync.confirmed == 15
    ack(in_sync, 2, 12)
    assert in_sync.confirmed == 15, "what was confirmed stays"


@pytest.mark.parametrize(("replicas_min", "takes"), [(1, True), (2, True), (3, False)])
def test_too_few_replicas_take_nothing(replicas_min: int, *, takes: bool) -> None:
    assert make({1, 2}, replicas_min=replicas_min).takes_sends is takes


def test_a_set_that_may_be_too_small_takes_nothing() -> None:
    in_sync = make({1, 2}, replicas_min=2)
    in_sync.propose(frozenset({1}), "7")
    assert not in_sync.takes_sends


def test_silence_is_that_of_the_quietest() -> None:
    in_sync = make({1, 2, 3})
    ack(in_sync, 2, 10, 100)
    ack(in_sync, 3, 10, 70)
    assert in_sync.acked_by_all_ms(200) == 70


def test_all_have_the_log_only_if_none_is_being_seeded() -> None:
    in_sync = make({1, 2})
    assert not in_sync.all_have(10)
    in_sync.on_ack(2, 10, 0, is_seeding=True)
    assert not in_sync.all_have(10)
    ack(in_sync, 2, 10)
    assert in_sync.all_have(10) and not in_sync.all_have(11)
