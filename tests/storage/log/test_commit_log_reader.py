"""Reading by physical offset while another process appends and removes."""

import errno
from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.logs import SEGMENT_BYTES, draft, open_log, small_config, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.records import STORE_MS, LogBytes
from wakelog.protocol.record import decode_record
from wakelog.storage.errors import StoreFailed
from wakelog.storage.log import commit_log_reader
from wakelog.storage.log.commit_log import CommitLog
from wakelog.storage.log.commit_log_reader import CommitLogReader, commit_log_files
from wakelog.storage.paths import offset_name

CONFIG = small_config()


@pytest.fixture
def log(fs: MemoryFileSystem) -> CommitLog:
    return open_log(fs, CONFIG)


def test_it_follows_a_writer_in_another_process(fs: MemoryFileSystem, log: CommitLog) -> None:
    reader = CommitLogReader(fs.other_process(), CONFIG)
    assert reader.read(0, 1) is None
    bodies = [bytes([i]) * 1500 for i in range(6)]
    results = [log.append(draft(body), 1) for body in bodies]
    log.write_pending()
    for result, body in zip(results, bodies, strict=True):
        data = reader.read(result.physical_offset, result.size_bytes)
        assert data is not None and decode_record(data).body == body
    assert (reader.min_offset, reader.max_file_end) == (0, 3 * SEGMENT_BYTES)


def read_span_into(reader: CommitLogReader, offset: int, size_bytes: int) -> bytes:
    buffer = bytearray(size_bytes)
    return bytes(buffer[: reader.read_span_into(buffer, offset)])


Way = Callable[[CommitLogReader, int, int], bytes | memoryview | None]
WHOLE: list[Way] = [
    CommitLogReader.read,
    CommitLogReader.view,
    lambda reader, offset, size_bytes: reader.view(offset, size_bytes, blocking=False),
]
SPANS: list[Way] = [CommitLogReader.read_span, read_span_into]


@pytest.fixture
def two_segments(log: CommitLog) -> CommitLog:
    for _ in range(4):
        log.append(draft(b"x" * 1500), 1)
    log.write_pending()
    return log


@pytest.fixture
def other(fs: MemoryFileSystem, two_segments: CommitLog) -> MemoryFileSystem:
    return fs.other_process()


def test_directories_are_listed_only_when_something_is_missing(other: MemoryFileSystem) -> None:
    reader = CommitLogReader(other, CONFIG)
    listed = other.calls["list_directory"]
    for _ in range(5):
        assert reader.read(0, 50) is not None
    assert other.calls["list_directory"] == listed
    assert reader.read(5 * SEGMENT_BYTES, 50) is None
    assert other.calls["list_directory"] == listed + 1


def test_what_crosses_a_segment_is_no_record(other: MemoryFileSystem) -> None:
    reader = CommitLogReader(other, CONFIG)
    for read in WHOLE:
        assert read(reader, SEGMENT_BYTES - 10, 20) is None
        assert read(reader, SEGMENT_BYTES - 10, 10) is not None
    for read in SPANS:
        assert read(reader, SEGMENT_BYTES - 10, 20) == reader.read(SEGMENT_BYTES - 10, 10)
    assert reader.segment_end(SEGMENT_BYTES - 10) == SEGMENT_BYTES
    assert reader.segment_end(SEGMENT_BYTES) == 2 * SEGMENT_BYTES


@pytest.mark.parametrize("read", [*WHOLE, *SPANS])
def test_what_the_log_does_not_have_is_absent(
    fs: MemoryFileSystem, other: MemoryFileSystem, read: Way
) -> None:
    reader = CommitLogReader(other, CONFIG)
    for offset in (-1, -SEGMENT_BYTES, 5 * SEGMENT_BYTES):
        assert not read(reader, offset, 8)
    fs.unlink("/store/commitlog/" + offset_name(0))  # removed under the reader
    assert not read(reader, 0, 8)
    assert reader.min_offset == SEGMENT_BYTES
    assert read(reader, SEGMENT_BYTES, 8)


def test_an_open_segment_is_read_until_it_is_let_go(
    fs: MemoryFileSystem, other: MemoryFileSystem
) -> None:
    reader = CommitLogReader(other, CONFIG)
    assert reader.read(0, 8) is not None
    fs.unlink("/store/commitlog/" + offset_name(0))
    assert reader.read(0, 8) is not None
    assert reader.refresh()
    assert reader.read(0, 8) is None


@pytest.mark.parametrize("read", [*WHOLE, *SPANS])
def test_a_read_error_is_not_an_absent_record(other: MemoryFileSystem, read: Way) -> None:
    for call in ("pread", "pread_into", "pread_into_nowait"):
        other.fail(call, number=errno.EIO)
    with pytest.raises(StoreFailed):
        read(CommitLogReader(other, CONFIG), 0, 8)


def test_in_the_writers_process_it_reads_the_writers_files(
    fs: MemoryFileSystem, log: CommitLog
) -> None:
    reader = CommitLogReader(fs, CONFIG, log.files)
    result = log.append(draft(b"shared"), 1)
    log.write_pending()
    data = reader.view(0, result.size_bytes, blocking=False)
    assert data is not None and decode_record(bytes(data)).body == b"shared"
    assert not reader.refresh()
    reader.close()
    assert log.files.last is not None


def test_nothing_cold_is_waited_for(other: MemoryFileSystem) -> None:
    reader = CommitLogReader(other, CONFIG)
    other.cold = True
    assert reader.view(0, 8, blocking=False) is None
    assert reader.read(0, 8) is not None
    assert reader.view(0, 8) is not None
    reader.close()
    assert other.descriptor_count == 0


def test_the_logs_files_are_as_configured(fs: MemoryFileSystem) -> None:
    config = small_config(store_path_commit_log="/a,/b", store_paths_read_only="/b")
    files = commit_log_files(fs, config)
    assert files.path_for(SEGMENT_BYTES).startswith("/a/")
    assert files.file_size_bytes == SEGMENT_BYTES


def test_what_is_read_ahead_ends_with_its_segment(other: MemoryFileSystem) -> None:
    reader = CommitLogReader(other, CONFIG)
    reader.read_ahead(SEGMENT_BYTES // 2, 10 * SEGMENT_BYTES)
    reader.read_ahead(5 * SEGMENT_BYTES, SEGMENT_BYTES)  # no such segment, and nobody waits
    assert other.calls["read_ahead"] == 1


def test_zeros_are_skipped_up_to_where_a_record_may_begin(fs: MemoryFileSystem) -> None:
    directory = CONFIG.paths.commit_log_directories[0]
    first = (bytes(600) + b"\0\0\1\2").ljust(SEGMENT_BYTES, b"\0")
    write_file(fs, f"{directory}/{offset_name(0)}", first)
    reader = CommitLogReader(fs, CONFIG)
    # A size may begin with zeros, the magic behind it does not.
    assert reader.skip_zeros(0) == 598
    assert reader.skip_zeros(601) == 601
    assert reader.skip_zeros(604) == SEGMENT_BYTES
    assert reader.skip_zeros(3 * SEGMENT_BYTES + 5) == 3 * SEGMENT_BYTES + 5
    reader.close()
    assert fs.descriptor_count == 0


def test_an_unreadable_segment_is_a_failure(fs: MemoryFileSystem) -> None:
    directory = CONFIG.paths.commit_log_directories[0]
    write_file(fs, f"{directory}/{offset_name(0)}", bytes(SEGMENT_BYTES))
    reader = CommitLogReader(fs, CONFIG)
    fs.fail("next_data")
    with pytest.raises(StoreFailed, match="seek"):
        reader.skip_zeros(0)
    fs.unlink(f"{directory}/{offset_name(0)}")
    reader.close()
    assert reader.skip_zeros(7) == 7


def test_the_store_time_is_that_of_a_record_and_of_nothing_else(fs: MemoryFileSystem) -> None:
    log = LogBytes(segment_bytes=SEGMENT_BYTES)
    for number, sys_flag in enumerate((0, 1 << 4, 1 << 5, 3 << 4)):  # each kind of hosts
        hosts: dict[str, Any] = {
            name: ("::1" if sys_flag & flag else "127.0.0.1", 10_911)
            for name, flag in (("born_host", 1 << 4), ("store_host", 1 << 5))
        }
        log.add(sys_flag=sys_flag, store_timestamp_ms=STORE_MS + number, **hosts)
    log.write(fs, CONFIG)
    reader = CommitLogReader(fs, CONFIG)
    assert [reader.store_time(at) - STORE_MS for at in log.offsets] == [0, 1, 2, 3]
    for absent in (-1, SEGMENT_BYTES - 8, SEGMENT_BYTES):
        assert reader.store_time(absent) == -1


def test_a_view_is_valid_until_the_next_one(
    fs: MemoryFileSystem, log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for body in (b"first", b"other"):
        log.append(draft(body), 1)
    log.write_pending()
    reader = CommitLogReader(fs.other_process(), CONFIG)
    size_bytes = log.committed_offset // 2
    first = reader.view(0, size_bytes)
    assert first is not None and decode_record(bytes(first)).body == b"first"
    reader.view(size_bytes, size_bytes, blocking=False)
    assert decode_record(bytes(first)).body == b"other"
    monkeypatch.setattr(commit_log_reader, "VIEW_BYTES_KEPT_MAX", size_bytes - 1)
    large = reader.view(0, size_bytes)
    assert large is not None
    reader.view(size_bytes, size_bytes)
    assert decode_record(bytes(large)).body == b"first"
