"""Plans cover bounds once, cut at records only, and fill tasks in order."""

import itertools
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from wakelog.spark.columns import KAFKA_COLUMNS, MESSAGE_COLUMNS
from wakelog.spark.plan import (
    NARROW_PARTITION_BYTES,
    PARTITION_BYTES,
    Limits,
    Plan,
    ReadRange,
    make_plan,
    partition_bytes,
)
from wakelog.spark.stores import Segment, StoreLog

SEGMENT_BYTES = 100


def store(*begins: int, broker: str = "b") -> StoreLog:
    return StoreLog(broker, "", tuple(Segment(f"/{at}", at, at + SEGMENT_BYTES) for at in begins))


def every_tenth(part: ReadRange, places: Sequence[int]) -> list[int]:
    """Find records of ten bytes each."""
    return [-(-place // 10) * 10 for place in places]


def plan(begin: int, end: int, limits: Limits, *begins: int) -> Plan:
    return make_plan([(store(*begins), begin, end)], limits, every_tenth)


def spans(found: Plan) -> list[list[tuple[int, int]]]:
    return [[(part.begin, part.end) for part in task] for task in found.tasks]


def test_small_segments_share_a_task() -> None:
    found = plan(0, 250, Limits(200), 0, 100, 200)
    assert spans(found) == [[(0, 100), (100, 200)], [(200, 250)]]


def test_a_large_segment_is_cut_where_records_begin() -> None:
    assert spans(plan(0, 100, Limits(35), 0)) == [[(0, 40)], [(40, 70)], [(70, 100)]]


def test_a_segment_is_whole_where_no_record_is_known() -> None:
    found = make_plan([(store(0), 0, 100)], Limits(10), lambda part, places: [])
    assert spans(found) == [[(0, 100)]]


def test_at_least_so_many_tasks() -> None:
    assert len(plan(0, 200, Limits(1 << 20, partitions_min=4), 0, 100).tasks) == 4


def test_nothing_to_read_is_no_task() -> None:
    assert plan(100, 100, Limits(), 0, 100) == Plan([], [])
    assert make_plan([], Limits(), every_tenth) == Plan([], [])


def test_a_missing_segment_is_a_gap() -> None:
    found = plan(50, 350, Limits(1 << 20), 0, 100, 300)
    assert spans(found) == [[(50, 100), (100, 200), (300, 350)]]
    [(broker, gap)] = found.gaps
    assert (broker, gap.begin, gap.end) == ("b", 200, 300)


def test_each_piece_is_a_task_where_it_is_asked_for() -> None:
    limits = Limits(cut_all=True)
    found = make_plan([(store(0), 0, 100)], limits, lambda part, places: [30, 60])
    assert spans(found) == [[(0, 30)], [(30, 60)], [(60, 100)]]


@given(
    count=st.integers(0, 5),
    begin=st.integers(0, 50),
    length=st.integers(0, 50),
    goal=st.integers(1, 400),
    least=st.integers(1, 9),
)
def test_ranges_follow_each_other(
    count: int, begin: int, length: int, goal: int, least: int
) -> None:
    segments = [at * SEGMENT_BYTES for at in range(count)]
    low, high = begin * 10, min((begin + length) * 10, count * SEGMENT_BYTES)
    found = plan(low, high, Limits(goal, least), *segments)
    pieces = [piece for task in spans(found) for piece in task]
    assert all(begin < end and begin % 10 == 0 for begin, end in pieces)
    if low < high:
        assert (pieces[0][0], pieces[-1][1]) == (low, high)
        assert all(before[1] == behind[0] for before, behind in itertools.pairwise(pieces))
    else:
        assert pieces == []


def test_tasks_without_bodies_and_properties_are_larger() -> None:
    assert partition_bytes(MESSAGE_COLUMNS) == partition_bytes(KAFKA_COLUMNS) == PARTITION_BYTES
    assert partition_bytes(["topic", "body"]) == PARTITION_BYTES
    assert partition_bytes(["timestamp", "key"]) == NARROW_PARTITION_BYTES
    assert partition_bytes(["topic", "tags"]) == NARROW_PARTITION_BYTES
