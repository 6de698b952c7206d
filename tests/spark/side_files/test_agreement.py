"""The place up to which files and log agree."""

from typing import Any

import pytest

from tests.fakes.logs import write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.records import STORE_MS, LogBytes
from tests.spark.side_files.stores import side_config
from wakelog.spark.side_files.agreement import agreed_end
from wakelog.spark.side_files.folder import SideFolder, Span
from wakelog.spark.side_files.gather import Gatherer
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.paths import offset_name

CONFIG = side_config()
ROOT = CONFIG.paths.side_files_directory


def log_of(*values: dict[str, Any]) -> LogBytes:
    log = LogBytes()
    for each in values:
        log.add(**each)
    return log


def agreed(fs: FileSystem, log: LogBytes, now: LogBytes, *, roll: bool = False) -> int | None:
    """Write the files of a log, then another log in its place; return up to where they agree."""
    if roll:
        log.roll()
        now.roll()
    log.write(fs, CONFIG)
    span = Span(0, log.end)
    reader = CommitLogReader(fs, CONFIG)
    found = Gatherer(reader, "b", bytes_max=1 << 20).gather(span.begin, span.end)
    SideFolder(fs, ROOT).add(span, found.tables)
    now.write(fs, CONFIG)
    paths = [f"{ROOT}/{topic}/{span.file_name}" for topic in found.tables]
    return agreed_end(fs, paths, span.end, CommitLogReader(fs, CONFIG))


A, B = {"topic": "A"}, {"topic": "B", "queue_offset": 7}
SYSTEM = {"topic": "SCHEDULE_TOPIC_XXXX"}


@pytest.mark.parametrize("roll", [False, True])
def test_a_log_that_stayed_agrees_to_the_end(roll: bool, fs: MemoryFileSystem) -> None:
    log = log_of(A, B, A, B)
    assert agreed(fs, log, log_of(A, B, A, B), roll=roll) == log.end


@pytest.mark.parametrize(
    "change",
    [
        {"topic": "C"},
        {"queue_id": 1},
        {"queue_offset": 8},
        {"body": b"ydob"},
        {"born_timestamp_ms": STORE_MS},
        {"store_timestamp_ms": STORE_MS + 1},
        {"body": b"longer"},
    ],
)
def test_another_last_message_agrees_with_nothing(
    change: dict[str, Any], fs: MemoryFileSystem
) -> None:
    assert agreed(fs, log_of(A, B), log_of(A, B | change)) is None


def test_a_log_that_is_shorter_agrees_with_nothing(fs: MemoryFileSystem) -> None:
    now = log_of(A)
    now.data += bytes(4096 - len(now.data))  # as files are that nobody has written yet
    assert agreed(fs, log_of(A, B), now) is None


def test_bytes_after_the_last_message_prove_nothing(fs: MemoryFileSystem) -> None:
    log = log_of(A, B, SYSTEM)
    assert agreed(fs, log, log_of(A, B, SYSTEM)) == log.offsets[2]


def test_times_that_do_not_fit_are_compared_as_files_have_them(fs: MemoryFileSystem) -> None:
    far = {"born_timestamp_ms": 2**63 - 1, "store_timestamp_ms": -(2**63)}
    log = log_of(A | far)
    assert agreed(fs, log, log_of(A | far)) == log.end


def test_files_that_outlive_their_log_are_left_to_retention(fs: MemoryFileSystem) -> None:
    log = log_of(*[A | {"body": bytes(900)}] * 6)
    log.write(fs, CONFIG)
    reader = CommitLogReader(fs, CONFIG)
    span = Span(0, log.offsets[2])
    found = Gatherer(reader, "b", bytes_max=1 << 20).gather(span.begin, span.end)
    SideFolder(fs, ROOT).add(span, found.tables)
    fs.unlink(f"{CONFIG.paths.commit_log_directories[0]}/{offset_name(0)}")
    later = CommitLogReader(fs, CONFIG)
    assert later.min_offset > 0
    assert agreed_end(fs, [f"{ROOT}/A/{span.file_name}"], span.end, later) == span.end


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1"])
def test_a_file_that_cannot_be_read_agrees_with_nothing(data: bytes, fs: MemoryFileSystem) -> None:
    log_of(A).write(fs, CONFIG)
    write_file(fs, f"{ROOT}/A/x", data)
    reader = CommitLogReader(fs, CONFIG)
    assert agreed_end(fs, [f"{ROOT}/A/x"], 100, reader) is None
    assert agreed_end(fs, [f"{ROOT}/A/gone"], 100, reader) is None


def test_a_disk_that_fails_says_nothing_of_files(fs: MemoryFileSystem) -> None:
    log = log_of(A)
    assert agreed(fs, log, log_of(A)) == log.end
    reader = CommitLogReader(fs, CONFIG)
    fs.fail("pread")
    with pytest.raises(OSError, match="Input/output"):
        agreed_end(fs, [f"{ROOT}/A/{Span(0, log.end).file_name}"], log.end, reader)
