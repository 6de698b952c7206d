"""Summing comes first, comparing keeps its rate, and a place is reported once."""

from __future__ import annotations

import errno

from tests.fakes.logs import SEGMENT_BYTES, small_config, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.storage.durability.summed_segments import CONFIG, change, segment_path, segments
from wakelog.storage.durability.sum_keeper import (
    COMPARE_BYTES,
    FAILED_PAUSE_MS,
    IDLE_PAUSE_MS,
    ROUND_PAUSE_MS,
    SUM_PAUSE_MS,
    SumKeeper,
)
from wakelog.storage.durability.watermark import Watermark


def durable(fs: MemoryFileSystem, physical_offset: int) -> None:
    watermark = Watermark(fs, CONFIG.paths.watermark)
    watermark.note(physical_offset, 0)
    watermark.close()


def test_it_sums_then_compares_round_after_round() -> None:
    fs = segments(2)
    durable(fs, 2 * SEGMENT_BYTES)
    keeper = SumKeeper(fs, CONFIG)
    assert [keeper.step(0), keeper.step(1)] == [SUM_PAUSE_MS] * 2
    assert keeper.step(2) == IDLE_PAUSE_MS
    assert keeper.statistics() == (2 * SEGMENT_BYTES, 2 * SEGMENT_BYTES, 1, 0, 0)
    assert keeper.step(3) == IDLE_PAUSE_MS
    assert keeper.statistics().compare_rounds_count == 1
    keeper.step(2 + ROUND_PAUSE_MS)
    assert keeper.statistics().compare_rounds_count == 2
    keeper.close()


def test_a_changed_block_is_reported_once() -> None:
    fs = segments(1)
    durable(fs, SEGMENT_BYTES)
    keeper = SumKeeper(fs, CONFIG)
    keeper.step(0)
    change(fs, 200)
    for now_ms in (1, 2 * ROUND_PAUSE_MS):
        keeper.step(now_ms)
    assert keeper.statistics()[2:4] == (2, 1)
    (line,) = keeper.news
    assert "[128, 256)" in line and "wakelog log verify" in line


def test_a_round_is_compared_piece_by_piece() -> None:
    segment_bytes = 4 * COMPARE_BYTES
    fs = MemoryFileSystem()
    write_file(fs, segment_path(0), bytes(segment_bytes))
    durable(fs, segment_bytes)
    config = small_config(commit_log_file_bytes=segment_bytes, scrub_bytes_per_second=1 << 30)
    keeper = SumKeeper(fs, config)
    keeper.step(0)
    change(fs, 200)
    for piece in range(1, 5):
        keeper.step(piece * 1000)
        assert keeper.statistics()[1:4] == (piece * COMPARE_BYTES, 0, 1)
    keeper.step(5000)
    assert keeper.statistics()[1:4] == (segment_bytes, 1, 1)


def test_comparing_can_be_turned_off() -> None:
    fs = segments(1)
    durable(fs, SEGMENT_BYTES)
    keeper = SumKeeper(fs, small_config(scrub_bytes_per_second=0))
    assert [keeper.step(0), keeper.step(1)] == [SUM_PAUSE_MS, IDLE_PAUSE_MS]
    assert keeper.statistics()[:2] == (SEGMENT_BYTES, 0)


def test_comparing_keeps_its_rate() -> None:
    fs = segments(1)
    durable(fs, SEGMENT_BYTES)
    keeper = SumKeeper(fs, small_config(scrub_bytes_per_second=SEGMENT_BYTES // 64))
    keeper.step(0)
    keeper.step(1)
    assert keeper.step(ROUND_PAUSE_MS + 1) == IDLE_PAUSE_MS
    assert keeper.statistics().compare_rounds_count == 1
    keeper.step(64_001)
    assert keeper.statistics().compare_rounds_count == 2


def test_a_failure_is_reported_and_tried_again() -> None:
    fs = segments(1)
    durable(fs, SEGMENT_BYTES)
    keeper = SumKeeper(fs, CONFIG)
    fs.fail("pwrite", number=errno.EIO)
    assert keeper.step(0) == FAILED_PAUSE_MS
    assert (len(keeper.news), keeper.statistics().sum_failures_count) == (1, 1)
    assert keeper.step(1) == SUM_PAUSE_MS
    fs.unlink(segment_path(0))
    assert keeper.step(2) > 0
