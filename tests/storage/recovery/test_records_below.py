"""The look at what stands just below a position: whole records, the last of which ends there."""

from typing import Any

import pytest

from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.records import STORE_MS, LogBytes
from tests.fakes.stores import store_config
from wakelog.protocol.record import encode_blank
from wakelog.storage.recovery import segments
from wakelog.storage.recovery.segments import CHECKED_SHARE, load_segments, store_time_below

BYTES = 4096
CHECKED_BYTES = BYTES // CHECKED_SHARE
BODY = b"b" * 150


def filled(count: int = 20, **values: Any) -> LogBytes:
    """A log of records of 242 bytes, sixteen to a segment, each a second after the one before."""
    log = LogBytes(BYTES)
    fields: dict[str, Any] = {"body": BODY} | values
    for i in range(count):
        log.add(store_timestamp_ms=STORE_MS + 1000 * i, **fields)
    return log


def time_below(log: LogBytes, physical_offset: int) -> int | None:
    fs = MemoryFileSystem()
    config = store_config(commit_log_file_bytes=BYTES)
    log.write(fs, config)
    files = load_segments(fs, config)
    try:
        return store_time_below(files, physical_offset)
    finally:
        files.close()
        assert fs.descriptor_count == 0


def test_the_last_record_says_when_it_was_stored() -> None:
    log = filled()
    for i, place in enumerate(log.offsets[1:]):
        assert time_below(log, place) == STORE_MS + 1000 * i
    assert time_below(log, log.end) == STORE_MS + 19_000


def test_where_the_log_begins_there_is_nothing_below() -> None:
    log = LogBytes(BYTES, begin=3 * BYTES)
    log.add()
    assert time_below(log, 3 * BYTES) == 0
    assert time_below(log, 2 * BYTES) == 0


@pytest.mark.parametrize("away", [-1, 1, 8, 100, 241])
def test_a_position_between_records_is_not_trusted(away: int) -> None:
    log = filled()
    assert time_below(log, log.offsets[15] + away) is None


@pytest.mark.parametrize("victim", [13, 14])
@pytest.mark.parametrize("at", [0, 4, 30, 100])
def test_damage_just_below_is_noticed(victim: int, at: int) -> None:
    log = filled(body=b"b" * 50)
    assert log.offsets[15] - log.offsets[12] < CHECKED_BYTES
    log.damage(log.offsets[victim] + at, b"\x55")
    assert time_below(log, log.offsets[15]) is None


def test_damage_further_below_is_not_searched() -> None:
    log = filled()
    log.damage(log.offsets[10] + 150, b"\x55")
    assert log.offsets[13] - log.offsets[11] < CHECKED_BYTES < log.offsets[13] - log.offsets[10]
    assert time_below(log, log.offsets[13]) == STORE_MS + 12_000


def test_a_tail_of_zeros_is_noticed() -> None:
    log = filled()
    log.damage(log.offsets[18], bytes(log.end - log.offsets[18]))
    assert time_below(log, log.end) is None
    log.damage(BYTES, bytes(log.end - BYTES))
    assert time_below(log, log.end) is None


def test_a_blank_may_lie_between() -> None:
    log = filled()
    assert log.offsets[16] == BYTES
    assert time_below(log, BYTES) == STORE_MS + 15_000
    blank = log.offsets[15] + log.offsets[1]
    assert time_below(log, blank) == STORE_MS + 15_000
    assert time_below(log, blank + 8) is None


def test_a_blank_that_hides_records_is_none() -> None:
    log = filled()
    log.damage(log.offsets[14], encode_blank(BYTES - log.offsets[14]))
    assert time_below(log, log.offsets[15]) is None


def test_one_long_record_is_found_further_below() -> None:
    log = LogBytes(BYTES)
    log.add(body=b"b" * 3_000)
    log.add(body=b"b" * 2_500)
    assert log.offsets[1] == BYTES
    assert time_below(log, BYTES + log.end % BYTES) == STORE_MS
    log.damage(log.offsets[1] + 200, b"\x55")
    assert time_below(log, log.end) is None


def test_a_record_longer_than_what_is_checked_is_not_trusted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = LogBytes(BYTES)
    log.add()
    log.add(body=b"b" * 3_000)
    assert time_below(log, log.end) == STORE_MS
    monkeypatch.setattr(segments, "CHECKED_BYTES_MAX", CHECKED_BYTES)
    assert time_below(log, log.end) is None
