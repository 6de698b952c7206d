"""AgeClock: jumps ahead do not count at once, all else does."""

from random import Random

import pytest

from wakelog.storage.retention.retention import JUMP_MS_MIN, AgeClock

HOUR_MS = 3_600_000
RESERVED_MS = 72 * HOUR_MS
YEAR_MS = 365 * 24 * HOUR_MS
WALL_MS, STEADY_MS = 1_700_000_000_000, 5_000


@pytest.fixture
def clock() -> AgeClock:
    return AgeClock(RESERVED_MS, WALL_MS, STEADY_MS)


def test_without_jumps_it_is_the_wall_clock(clock: AgeClock) -> None:
    for hours in range(200):
        wall_ms = WALL_MS + hours * (HOUR_MS + JUMP_MS_MIN - 1)
        assert clock.aging_ms(wall_ms, STEADY_MS + hours * HOUR_MS) == wall_ms


def test_a_jump_ahead_counts_once_all_segments_before_it_have_their_age(clock: AgeClock) -> None:
    assert clock.aging_ms(WALL_MS + YEAR_MS, STEADY_MS) == WALL_MS
    passed_ms = RESERVED_MS - 1
    now_ms = clock.aging_ms(WALL_MS + YEAR_MS + passed_ms, STEADY_MS + passed_ms)
    assert now_ms == WALL_MS + passed_ms
    passed_ms += 1
    now_ms = clock.aging_ms(WALL_MS + YEAR_MS + passed_ms, STEADY_MS + passed_ms)
    assert now_ms == WALL_MS + YEAR_MS + passed_ms


def test_a_jump_back_counts_at_once_and_undoes_one_ahead(clock: AgeClock) -> None:
    assert clock.aging_ms(WALL_MS - HOUR_MS, STEADY_MS) == WALL_MS - HOUR_MS
    assert clock.aging_ms(WALL_MS, STEADY_MS) == WALL_MS - HOUR_MS
    assert clock.aging_ms(WALL_MS - HOUR_MS, STEADY_MS) == WALL_MS - HOUR_MS
    assert clock.aging_ms(WALL_MS - YEAR_MS, STEADY_MS) == WALL_MS - YEAR_MS


def test_clocks_that_part_by_a_minute_between_two_calls_were_set(clock: AgeClock) -> None:
    assert clock.aging_ms(WALL_MS + JUMP_MS_MIN, STEADY_MS) == WALL_MS
    assert clock.aging_ms(WALL_MS, STEADY_MS) == WALL_MS


@pytest.mark.parametrize("seed", range(50))
def test_whatever_the_clock_does_nothing_is_taken_for_older_than_it_is(seed: int) -> None:
    random = Random(seed)
    wall_ms, steady_ms = WALL_MS, STEADY_MS
    clock = AgeClock(RESERVED_MS, wall_ms, steady_ms)
    written: list[tuple[int, int]] = []
    for _ in range(300):
        written.append((wall_ms, steady_ms))
        passed_ms = random.randrange(10 * HOUR_MS)
        jump_ms = random.choice([0, 0, 0, HOUR_MS, -HOUR_MS, YEAR_MS, -YEAR_MS, 2 * JUMP_MS_MIN])
        steady_ms += passed_ms
        wall_ms += passed_ms + jump_ms
        now_ms = clock.aging_ms(wall_ms, steady_ms)
        assert now_ms <= wall_ms
        for then_ms, then_steady_ms in written:
            if now_ms - then_ms >= RESERVED_MS:
                assert steady_ms - then_steady_ms >= RESERVED_MS
