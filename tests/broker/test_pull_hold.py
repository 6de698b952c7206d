"""Who waits for which queue."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakelog.broker import pull_hold
from wakelog.broker.decision import HoldPull
from wakelog.broker.pull_hold import PullHold
from wakelog.storage.queue.entries import Arrival

A_HASH, B_HASH = 65, 66


@pytest.fixture
def holds() -> Iterator[PullHold]:
    table = PullHold()
    yield table
    table.validate()


def note(
    hold_id: int = 1,
    *,
    topic: str = "T",
    queue_id: int = 0,
    queue_offset: int = 5,
    deadline_ms: int = 1_000,
    codes: frozenset[int] | None = None,
) -> HoldPull:
    return HoldPull(hold_id, topic, queue_id, queue_offset, deadline_ms, codes)


def arrival(
    next_queue_offset: int = 6, tags_code: int | None = 0, topic: str = "T", queue_id: int = 0
) -> Arrival:
    return Arrival(topic, queue_id, next_queue_offset, tags_code)


# Which arrivals wake a pull from offset 5; what the pull's tags are, then the answer.
ARRIVALS = [
    ("the awaited message", arrival(6), None, True),
    ("several messages", arrival(9, None), None, True),
    ("nothing beyond the offset", arrival(5), None, False),
    ("another queue", arrival(6, queue_id=1), None, False),
    ("another topic", arrival(6, topic="U"), None, False),
    ("a wanted tag", arrival(6, A_HASH), frozenset({A_HASH}), True),
    ("an unwanted tag", arrival(6, B_HASH), frozenset({A_HASH}), False),
    ("unknown tags", arrival(9, None), frozenset({A_HASH}), True),
    ("no tag where one is wanted", arrival(6, 0), frozenset({A_HASH}), False),
]


@pytest.mark.parametrize(
    ("came", "codes", "wakes"), [row[1:] for row in ARRIVALS], ids=[row[0] for row in ARRIVALS]
)
def test_an_arrival_wakes_the_pulls_that_may_want_it(
    holds: PullHold, came: Arrival, codes: frozenset[int] | None, wakes: bool
) -> None:
    holds.hold([note(codes=codes)])
    assert holds.arrived([came]) == ([1] if wakes else [])
    assert holds.statistics()["hold_count"] == (0 if wakes else 1)


def test_it_is_counted_why_pulls_were_woken(holds: PullHold) -> None:
    def counts() -> list[int]:
        found = holds.statistics()
        names = ("hold_count", "woken_by_arrival_count", "woken_by_deadline_count")
        return [found[name] for name in names]

    holds.hold([note(1), note(2), note(3, queue_id=1), note(4, queue_id=2)])
    assert holds.arrived([arrival(6)]) == [1, 2] and counts() == [2, 2, 0]
    assert holds.hold([note(5)]) == [5] and counts() == [2, 3, 0], "it has come before"
    assert holds.arrived([arrival(6, queue_id=1)]) == [3] and counts() == [1, 4, 0]
    assert holds.expire(1_000) == [4] and counts() == [0, 4, 1]


def test_a_light_queue_is_a_queue_like_any_other(holds: PullHold) -> None:
    holds.hold([note(topic="%LMQ%device@1")])
    assert holds.arrived([arrival(topic="%LMQ%device@1")]) == [1]


def test_all_pulls_of_a_queue_wake_the_longest_waiting_first(holds: PullHold) -> None:
    holds.hold([note(3), note(1), note(2)])
    assert holds.arrived([arrival()]) == [3, 1, 2]


def test_a_woken_pull_is_woken_once(holds: PullHold) -> None:
    holds.hold([note()])
    assert holds.arrived([arrival(), arrival(7)]) == [1]
    assert holds.expire(2_000) == []


def test_a_note_that_comes_after_its_message_wakes_at_once(holds: PullHold) -> None:
    holds.arrived([arrival(6)])
    assert holds.hold([note(1, queue_offset=5), note(2, queue_offset=6)]) == [1]


def test_a_late_arrival_of_less_does_not_lower_the_reach(holds: PullHold) -> None:
    holds.arrived([arrival(9), arrival(6)])
    assert holds.hold([note(queue_offset=8)]) == [1]


def test_a_deadline_wakes(holds: PullHold) -> None:
    holds.hold([note(1, deadline_ms=1_000), note(2, deadline_ms=500)])
    assert holds.next_deadline_ms() == 500
    assert holds.expire(499) == []
    assert holds.expire(500) == [2]
    assert holds.next_deadline_ms() == 1_000
    assert holds.expire(5_000) == [1]
    assert holds.next_deadline_ms() is None


def test_forgotten_holds_do_not_wake(holds: PullHold) -> None:
    holds.hold([note(1), note(2)])
    holds.forget([1, 99])
    assert holds.arrived([arrival()]) == [2]
    assert holds.next_deadline_ms() is None


def test_the_same_id_again_replaces_the_note(holds: PullHold) -> None:
    holds.hold([note(1, deadline_ms=500)])
    holds.hold([note(1, queue_id=1, deadline_ms=900)])
    assert holds.arrived([arrival()]) == []
    assert holds.expire(500) == []
    assert holds.arrived([arrival(queue_id=1)]) == [1]


def test_notes_beyond_the_bound_are_dropped_and_counted(
    monkeypatch: pytest.MonkeyPatch, holds: PullHold
) -> None:
    monkeypatch.setattr(pull_hold, "HOLDS_MAX", 2)
    assert holds.hold([note(1), note(2), note(3)]) == []
    assert holds.statistics()["refused_count"] == 1
    assert holds.arrived([arrival()]) == [1, 2]


def test_another_broker_starts_from_nothing(holds: PullHold) -> None:
    holds.arrived([arrival(9)])
    holds.hold([note(queue_id=3)])
    holds.clear()
    assert holds.hold([note()]) == []
    assert holds.statistics()["hold_count"] == 1


def test_reaches_are_bounded(monkeypatch: pytest.MonkeyPatch, holds: PullHold) -> None:
    monkeypatch.setattr(pull_hold, "REACHES_MAX", 2)
    holds.arrived([arrival(queue_id=0), arrival(queue_id=1), arrival(queue_id=2)])
    assert holds.hold([note(1, queue_id=0), note(2, queue_id=2)]) == [2]


def test_deadlines_of_holds_that_are_gone_do_not_pile_up(holds: PullHold) -> None:
    for hold_id in range(1, 3 * pull_hold.STALE_COUNT_MIN):
        holds.hold([note(hold_id, deadline_ms=10_000)])
        holds.forget([hold_id])
    assert len(holds._deadlines) <= pull_hold.STALE_COUNT_MIN + 1


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("hold"), st.integers(1, 6), st.integers(0, 3)),
            st.tuples(st.just("arrive"), st.integers(0, 1), st.integers(0, 4)),
            st.tuples(st.just("expire"), st.integers(0, 20), st.just(0)),
            st.tuples(st.just("forget"), st.integers(1, 6), st.just(0)),
        ),
        max_size=30,
    )
)
def test_no_hold_is_woken_unasked_and_none_beyond_its_reach_stays(
    steps: list[tuple[str, int, int]],
) -> None:
    holds, waiting, reach = PullHold(), {}, {0: 0, 1: 0}
    for kind, first, second in steps:
        if kind == "hold":
            waiting[first] = note(first, queue_id=first % 2, queue_offset=second, deadline_ms=10)
            woken = holds.hold([waiting[first]])
        elif kind == "arrive":
            reach[first] = max(reach[first], second)
            woken = holds.arrived([arrival(second, None, queue_id=first)])
        elif kind == "expire":
            woken = holds.expire(first)
        else:
            waiting.pop(first, None)
            holds.forget([first])
            woken = []
        for hold_id in woken:
            del waiting[hold_id]
        holds.validate()
        assert holds.statistics()["hold_count"] == len(waiting)
        assert all(kept.queue_offset >= reach[kept.queue_id] for kept in waiting.values())


@pytest.mark.parametrize("way", ["hold", "forget"])
def test_deadlines_that_are_stale_go_with_each_way_of_change(holds: PullHold, way: str) -> None:
    holds.hold([note(1, deadline_ms=at) for at in range(1, pull_hold.STALE_COUNT_MIN + 2)])
    holds._deadlines += [(at, 99) for at in range(9_000, 9_000 + 2 * pull_hold.STALE_COUNT_MIN)]
    if way == "hold":
        holds.hold([note(1)])
    else:
        holds.forget([2])
    assert len(holds._deadlines) == 1
