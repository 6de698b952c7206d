"""Which delayed messages are due."""

from collections.abc import Iterator

import pytest

from wakelog.broker.schedule import ANSWER_MS, BATCH_MAX, DueMessage, Schedule

DELAYS_MS = (1_000, 10_000)
IDLE_MS = 60_000


@pytest.fixture
def schedule() -> Iterator[Schedule]:
    core = Schedule(DELAYS_MS, {1: 5})
    yield core
    core.validate()


def entries(*deliver_ms: int) -> list[tuple[int, int, int]]:
    return [(1_000 + index, 100, moment) for index, moment in enumerate(deliver_ms)]


def take(
    schedule: Schedule, level: int, *deliver_ms: int, now_ms: int = 10_000
) -> list[DueMessage]:
    return schedule.take_due(level, entries(*deliver_ms), now_ms, idle_ms=IDLE_MS)


def test_it_starts_where_the_broker_stands(schedule: Schedule) -> None:
    assert (schedule.position(1), schedule.position(2)) == (5, 0)
    assert schedule.levels_to_read(0) == [1, 2]


def test_messages_are_due_at_their_moment_in_order(schedule: Schedule) -> None:
    assert take(schedule, 1, 9_000, 10_000, 10_001) == [
        DueMessage(1, 5, 1_000, 100),
        DueMessage(1, 6, 1_001, 100),
    ]


def test_a_queue_is_read_again_when_its_first_message_is_due(schedule: Schedule) -> None:
    assert take(schedule, 1, 10_500) == []
    assert take(schedule, 2) == []
    assert schedule.next_read_ms() == 10_500
    assert schedule.levels_to_read(10_499) == []
    assert schedule.levels_to_read(10_500) == [1]


def test_a_moment_beyond_the_levels_delay_is_due_now(schedule: Schedule) -> None:
    """correctDeliverTimestamp: the clock was set back after the message was stored."""
    assert len(take(schedule, 1, 11_000)) == 0
    assert len(take(schedule, 1, 11_001)) == 1


def test_after_the_clock_is_set_back_all_levels_are_read(schedule: Schedule) -> None:
    assert schedule.levels_to_read(10_000) == [1, 2]
    assert take(schedule, 1, 10_900) == take(schedule, 2) == []
    assert schedule.levels_to_read(10_001) == []
    assert schedule.levels_to_read(9_000) == [1, 2]
    assert len(take(schedule, 1, 10_900, now_ms=9_000)) == 1


def test_no_more_than_a_batch_is_under_way(schedule: Schedule) -> None:
    due = take(schedule, 1, *[0] * (BATCH_MAX + 1))
    assert [message.queue_offset for message in due] == list(range(5, 5 + BATCH_MAX))
    assert 1 not in schedule.levels_to_read(10_000)
    schedule.delivered(1, 5 + BATCH_MAX, 10_000)
    assert schedule.position(1) == 5 + BATCH_MAX
    assert 1 in schedule.levels_to_read(10_000)


def test_an_answer_that_never_comes_is_requested_again(schedule: Schedule) -> None:
    take(schedule, 1, 0)
    assert 1 in schedule.levels_to_read(10_000 + ANSWER_MS)
    assert take(schedule, 1, 0, now_ms=10_000 + ANSWER_MS) == [DueMessage(1, 5, 1_000, 100)]


def test_a_position_never_goes_back(schedule: Schedule) -> None:
    schedule.delivered(1, 3, 10_000)
    assert schedule.position(1) == 5


def test_an_arrival_ends_the_sleep_of_an_empty_queue(schedule: Schedule) -> None:
    take(schedule, 2)
    schedule.arrived(2, 10_001)
    assert schedule.levels_to_read(10_001) == [1, 2]
    schedule.arrived(99, 10_001)


@pytest.mark.parametrize(
    ("begin", "end", "position"),
    [
        *((0, 10, 5), (5, 10, 5), (6, 10, 6), (7, 10, 7)),
        *((0, 5, 5), (0, 4, 4), (0, 3, 3), (5, 5, 5), (9, 0, 9)),
    ],
)
def test_a_position_outside_its_queue_is_corrected(
    schedule: Schedule, begin: int, end: int, position: int
) -> None:
    """correctDelayOffset."""
    schedule.correct(1, queue_offset_min=begin, queue_offset_max=end)
    assert schedule.position(1) == position
    assert schedule.statistics()["corrected_count"] == (position != 5)


@pytest.mark.parametrize(
    ("deliver_ms", "due_count", "next_ms"),
    [
        ([], 0, 10_000 + IDLE_MS),
        ([10_001], 0, 10_001),
        ([11_000], 0, 11_000),
        ([10_000], 1, 10_000 + ANSWER_MS),
        ([10_000, 10_001], 1, 10_000 + ANSWER_MS),
        ([0] * BATCH_MAX, BATCH_MAX, 10_000 + ANSWER_MS),
        ([0] * (BATCH_MAX + 1), BATCH_MAX, 10_000 + ANSWER_MS),
    ],
)
def test_when_a_level_is_read_again(deliver_ms: list[int], due_count: int, next_ms: int) -> None:
    core = Schedule((1_000,), {})
    assert len(take(core, 1, *deliver_ms)) == due_count
    assert core.next_read_ms() == next_ms
    assert core.levels_to_read(next_ms - 1) == [] and core.levels_to_read(next_ms) == [1]


def test_progress_has_a_level_read_at_once_and_no_progress_does_not(schedule: Schedule) -> None:
    take(schedule, 1, 0)
    take(schedule, 2)
    for next_offset, levels in ((4, []), (5, []), (6, [1])):
        schedule.delivered(1, next_offset, 10_002)
        assert schedule.levels_to_read(10_002) == levels
    assert schedule.levels_to_read(10_001) == [2, 1], "the clock was set back"


def test_an_arrival_defers_no_read(schedule: Schedule) -> None:
    take(schedule, 1)
    take(schedule, 2, 10_500)
    schedule.arrived(2, 10_700)
    assert schedule.next_read_ms() == 10_500
    schedule.arrived(2, 10_300)
    schedule.arrived(0, 1)
    assert schedule.next_read_ms() == 10_300


def test_the_level_after_the_one_that_had_due_entries_comes_first() -> None:
    core = Schedule((1, 1, 1), {1: -7})
    assert core.position(1) == 0
    for level, order in ((2, [3, 1, 2]), (3, [1, 2, 3]), (1, [2, 3, 1])):
        assert take(core, level, 0)
        core.delivered(level, core.position(level) + 1, 10_000)
        assert core.levels_to_read(20_000) == order
        assert not take(core, level)
        assert core.levels_to_read(99_999) == order, "nothing was due"
        core.levels_to_read(10_000)
