"""Where recovery begins, by positions and by the checkpoint's times; see `test_steps.py` too."""

from __future__ import annotations

import pytest

from tests.fakes.stores import NOW_MS
from tests.storage.recovery.test_steps import BYTES, CONFIG, CrashedStore
from wakelog.storage.durability.checkpoint import CheckpointTimes
from wakelog.storage.recovery.search import (
    CheckPlan,
    checked_from_after_crash,
    first_store_timestamp_ms,
    plan_after_clean_exit,
    plan_after_crash,
)
from wakelog.storage.recovery.segments import load_segments
from wakelog.storage.recovery.watermark_trust import DurablePositions

TIMES = CheckpointTimes(NOW_MS + 12_000, NOW_MS + 12_000, 0)


@pytest.mark.parametrize(
    ("watermark", "dispatched", "queues_end", "expected"),
    [
        (9_000, 8_000, 8_500, CheckPlan(8_000, 8_000, 8_000, by_position=True)),
        (9_000, 9_500, 9_500, CheckPlan(9_000, 9_500, 9_000, by_position=True)),
        (9_000, 8_000, 7_000, CheckPlan(7_000, 7_000, 7_000, by_position=True)),
        (9_000, 8_000, -1, CheckPlan(0, 0, 0, by_position=True)),  # the queues were removed
        (9_000, 0, 8_500, CheckPlan(BYTES, BYTES, BYTES)),
        (0, 8_000, 8_500, CheckPlan(BYTES, BYTES, BYTES)),
    ],
)
def test_after_a_crash(
    watermark: int, dispatched: int, queues_end: int, expected: CheckPlan
) -> None:
    crashed = CrashedStore()
    files = load_segments(crashed.fs, CONFIG)
    positions = DurablePositions(watermark, dispatched)
    assert plan_after_crash(CONFIG, files, TIMES, queues_end, positions) == expected


def test_after_a_clean_stop_three_segments() -> None:
    crashed = CrashedStore(clean=True)
    files = load_segments(crashed.fs, CONFIG)
    assert plan_after_clean_exit(files, crashed.end) == CheckPlan(BYTES, crashed.end, BYTES)
    assert plan_after_clean_exit(files, 100) == CheckPlan(BYTES, 100, 0)


def test_a_clock_that_was_set_back_makes_recovery_begin_earlier() -> None:
    """4.9.3 would begin at the last segment, whose first message is old."""
    crashed = CrashedStore()
    crashed.overwrite(crashed.places[24] + 56, (NOW_MS - 10**6).to_bytes(8, "big"))
    files = load_segments(crashed.fs, CONFIG)
    assert checked_from_after_crash(files, NOW_MS + 12_000) == BYTES
    assert checked_from_after_crash(files, NOW_MS - 1) == 0
    assert checked_from_after_crash(files, NOW_MS + 10**6) == 3 * BYTES


def test_the_first_time_of_a_segment() -> None:
    crashed = CrashedStore()
    crashed.overwrite(2 * BYTES, bytes(8))
    files = load_segments(crashed.fs, CONFIG).files
    times = [first_store_timestamp_ms(file) for file in files]
    assert times == [NOW_MS, NOW_MS + 8000, None, NOW_MS + 24_000]
