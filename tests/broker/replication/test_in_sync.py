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


def test_what_an_earlier_master_confirmed_counts_as_far_as_this_log_goes() -> None:
    for start, confirmed in ((3, 3), (4, 4), (5, 4)):
        assert make({1, 2}, start=start).confirmed == confirmed


@pytest.mark.parametrize(
    ("durable", "silent_ms", "seeding", "joins"),
    [
        (10, 0, False, True),
        (9, 0, False, False),
        (10, ABSENT_MS_MAX, False, True),
        (10, ABSENT_MS_MAX + 1, False, False),
        (10, 0, True, False),
    ],
)
def test_a_replica_joins_when_it_has_all(
    durable: int, silent_ms: int, *, seeding: bool, joins: bool
) -> None:
    in_sync = make({1})
    in_sync.on_ack(2, durable, 100, is_seeding=seeding)
    assert (2 in in_sync.wanted(100 + silent_ms)) is joins


@pytest.mark.parametrize(
    ("moment", "stays"),
    [
        ("connected", True),
        ("absent at the limit", True),
        ("absent for longer", False),
        ("behind at the limit", True),
        ("behind for longer", False),
        ("seeding", False),
    ],
)
def test_a_member_stays_while_it_keeps_up(moment: str, *, stays: bool) -> None:
    in_sync, now_ms = make({1, 2}, replicas_min=2), 100
    ack(in_sync, 2, 10, now_ms)
    in_sync.on_own_durable(20)
    ack(in_sync, 2, 10, now_ms)
    if moment.startswith("absent"):
        in_sync.on_lost(2, now_ms)
        now_ms += ABSENT_MS_MAX
    elif moment.startswith("behind"):
        now_ms += BEHIND_MS_MAX
        ack(in_sync, 2, 19, now_ms)
    elif moment == "seeding":
        in_sync.on_ack(2, 20, now_ms, is_seeding=True)
    assert (2 in in_sync.wanted(now_ms + moment.endswith("longer"))) is stays


def test_one_that_was_behind_has_caught_up_once_it_has_an_earlier_end() -> None:
    in_sync = make({1, 2})
    ends = []
    for step in range(1, 9):
        now_ms = step * 10_000
        in_sync.on_own_durable(10 + step)
        ack(in_sync, 2, 10 + step - 1, now_ms)  # always one behind, and never for long
        ends.append(2 in in_sync.wanted(now_ms + BEHIND_MS_MAX - 10_000))
    assert all(ends)


def test_each_event_says_whether_more_is_confirmed() -> None:
    in_sync = make({1, 2})
    assert not in_sync.on_own_durable(20) and not in_sync.on_own_durable(5)
    assert ack(in_sync, 2, 15) and not ack(in_sync, 2, 15)
    assert ack(in_sync, 2, 99) and in_sync.confirmed == 20, "what was durable once stays so"
    assert in_sync.on_own_durable(21) and not in_sync.on_own_durable(21)
    in_sync.propose(frozenset({1}), "7")
    assert not in_sync.on_register(frozenset({1, 2}), "7") and in_sync.counted == {1, 2}


@pytest.mark.parametrize(
    ("members", "proposed", "replicas_min", "takes"),
    [
        ({1}, {1, 2}, 2, False),
        ({1, 2}, {1, 2, 3}, 2, True),
        ({1, 2}, {1}, 1, True),
        ({1, 2, 3}, {1, 2}, 3, False),
        ({1, 2, 3}, {1, 2}, 2, True),
    ],
)
def test_sends_need_enough_replicas_in_both_sets(
    members: set[int], proposed: set[int], replicas_min: int, *, takes: bool
) -> None:
    in_sync = make(members, replicas_min=replicas_min)
    for one in proposed - members:
        ack(in_sync, one, 10)
    in_sync.propose(frozenset(proposed), "7")
    assert in_sync.takes_sends is takes


def test_a_master_whose_log_is_not_durable_has_less_than_all() -> None:
    in_sync = make({1})
    assert in_sync.all_have(10) and not in_sync.all_have(11)
    both = make({1, 2})
    ack(both, 2, 20)
    assert not both.all_have(20)
    both.on_own_durable(20)
    assert both.all_have(20)
