"""Which records a selection finds."""

from typing import Any

import pytest

from tests.dispatchers.stores import dispatch_config
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.records import STORE_MS, LogBytes, properties
from wakelog.audit.operator import SILENT, AuditRefused, Move
from wakelog.audit.record_dump import Selection, selected_records
from wakelog.dispatchers.log_cursor import BadStretch
from wakelog.storage.log.commit_log_reader import CommitLogReader

CONFIG = dispatch_config(commit_log_file_bytes=4096)


def untold(stretch: BadStretch) -> None:
    raise AssertionError(f"a sound log has no {stretch}")


@pytest.fixture
def log() -> LogBytes:
    log = LogBytes(4096)
    for i in range(40):
        log.add(
            properties(KEYS=f"a{i} b", UNIQ_KEY=f"u{i}"),
            topic="Even" if i % 2 == 0 else "Odd",
            queue_id=i % 4,
            queue_offset=i // 4,
            store_timestamp_ms=STORE_MS + i,
        )
    return log


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        ({}, range(40)),
        ({"topic": "Odd"}, range(1, 40, 2)),
        ({"queue_id": 2}, range(2, 40, 4)),
        ({"queue_id": 2, "queue_offset": 3}, [14]),
        ({"key": "a7"}, [7]),
        ({"key": "u8"}, [8]),
        ({"key": "a"}, []),
        ({"since_ms": STORE_MS + 3, "until_ms": STORE_MS + 6}, [3, 4, 5]),
    ],
)
def test_a_selection(wanted: dict[str, Any], numbers: list[int], log: LogBytes) -> None:
    fs = MemoryFileSystem()
    log.write(fs, CONFIG)
    found = selected_records(CommitLogReader(fs, CONFIG), Selection(**wanted), untold)
    assert [record.physical_offset for record in found] == [log.offsets[i] for i in numbers]


@pytest.mark.parametrize("shift", [0, -5])
def test_from_an_offset_on(shift: int, log: LogBytes) -> None:
    fs = MemoryFileSystem()
    log.write(fs, CONFIG)
    selection = Selection(physical_offset=log.offsets[30] + shift)
    found = selected_records(CommitLogReader(fs, CONFIG), selection, untold)
    assert [record.physical_offset for record in found] == log.offsets[30:]


def test_what_is_passed_over_is_reported(log: LogBytes) -> None:
    fs = MemoryFileSystem()
    log.write(fs, CONFIG)
    folder = CONFIG.paths.commit_log_directories[0]
    path = f"{folder}/{0:020d}"
    for number in (8192, 12288):  # allocated ahead
        fs.allocate(fs.open(f"{folder}/{number:020d}", create=True), 4096)
    fs.pwrite(fs.open(path), bytes(8), log.offsets[2])
    reported: list[BadStretch] = []
    found = selected_records(CommitLogReader(fs, CONFIG), Selection(), reported.append)
    assert [record.physical_offset for record in found] == log.offsets[:2] + log.offsets[3:]
    assert [(one.begin, one.end) for one in reported] == [(log.offsets[2], log.offsets[3])]


def test_a_silent_operator_lets_everything_happen() -> None:
    with SILENT.progress("verify", 100) as show_done, SILENT.uninterrupted():
        show_done(50)
    SILENT.report_moves([Move("a", "b")])


def test_a_refusal_is_a_cause_and_a_remedy() -> None:
    refused = AuditRefused("x is not empty", "give a new folder")
    assert str(refused) == "x is not empty; give a new folder"
