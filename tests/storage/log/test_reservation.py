"""Reservation: blocks ahead of the writer, in steps, and a full disk met before a write."""

import errno
import os
from pathlib import Path

import pytest

from tests.fakes.logs import SEGMENT_BYTES, draft, open_log, small_config
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.protocol.record import BLANK_BYTES
from wakelog.storage.errors import NotWriteable
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log import commit_log
from wakelog.storage.log.append import PutStatus
from wakelog.storage.log.commit_log import CommitLog
from wakelog.storage.log.encoded_batch import EncodedBatch
from wakelog.storage.log.mapped_file import MappedFile
from wakelog.storage.log.reservation import LOG_STEP_BYTES, Reservation, step_end
from wakelog.storage.log.transient_pool import TransientPool

STEP_BYTES = 1024
NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("position", "expected"), [(1, 10), (10, 10), (11, 20), (20, 20), (21, 25), (25, 25)]
)
def test_a_step_is_cut_at_the_files_end(position: int, expected: int) -> None:
    assert step_end(position, 10, 25) == expected


class Disk(MemoryFileSystem):
    """Notes what is reserved."""

    def __init__(self) -> None:
        super().__init__()
        self.reserved: list[tuple[int, int]] = []

    def reserve(self, fd: int, position: int, length: int) -> None:
        super().reserve(fd, position, length)
        self.reserved.append((position, length))


def test_a_writer_reserves_from_where_it_writes_and_each_step_once() -> None:
    fs = Disk()
    fd = fs.open("/file", create=True)
    fs.truncate(fd, 100)
    file = MappedFile(fs, "/file", start_offset=200, size_bytes=100)
    reservation = Reservation(40)
    reservation.cover(file, 230, 235)
    reservation.cover(file, 235, 240)
    reservation.cover(file, 240, 241)
    reservation.cover(file, 281, 281)
    reservation.cover(file, 285, 300)
    reservation.cover(file, 300, 300)
    assert fs.reserved == [(30, 10), (40, 40), (85, 15)]
    assert reservation.end == 300
    reservation.forget_from(200)
    reservation.cover(file, 200, 201)
    assert fs.reserved[-1] == (0, 40)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_log, "LOG_STEP_BYTES", STEP_BYTES)


def placed_end(log: CommitLog) -> int:
    log.write_pending()
    return log.appended_offset


@pytest.mark.usefixtures("steps")
class TestLog:
    def test_each_record_and_a_blank_lie_in_reserved_steps(self) -> None:
        fs = Disk()
        log = open_log(fs, small_config())
        for _ in range(60):
            assert log.append(draft(b"x" * 90), NOW_MS).status is PutStatus.PUT_OK
            position = placed_end(log) % SEGMENT_BYTES
            assert sum(fs.reserved[-1]) >= position + BLANK_BYTES
            assert sum(fs.reserved[-1]) - position <= STEP_BYTES + BLANK_BYTES
        assert len(log.files.files) > 2

    def test_a_full_disk_refuses_and_leaves_the_log_as_it_was(self) -> None:
        fs = Disk()
        log = open_log(fs, small_config())
        assert log.append(draft(), NOW_MS).status is PutStatus.PUT_OK
        end = placed_end(log)
        fs.fail("reserve", number=errno.ENOSPC)
        refused = log.append(draft(b"x" * STEP_BYTES), NOW_MS)
        assert refused.status is PutStatus.CREATE_MAPPED_FILE_FAILED
        assert refused.cause is not None and os.strerror(errno.ENOSPC) in refused.cause
        assert (log.end_offset, log.failure) == (end, None)
        assert log.append(draft(b"x" * STEP_BYTES), NOW_MS).physical_offset == end
        assert placed_end(log) > end

    def test_a_full_disk_refuses_a_batch(self) -> None:
        fs = Disk()
        log = open_log(fs, small_config())
        messages = [(0, b"x" * 100, b"")] * 3
        fs.fail("reserve", number=errno.ENOSPC)
        refused = log.append_batch(EncodedBatch(draft(), messages), NOW_MS)
        assert refused.status is PutStatus.CREATE_MAPPED_FILE_FAILED
        taken = log.append_batch(EncodedBatch(draft(), messages), NOW_MS)
        assert (taken.physical_offset, taken.queue_offset) == (0, 0)

    def test_the_next_segment_is_begun_only_with_blocks_in_it(self) -> None:
        fs = Disk()
        log = open_log(fs, small_config())
        while log.end_offset < SEGMENT_BYTES - 300:
            log.append(draft(b"x" * 90), NOW_MS)
        end = placed_end(log)
        fs.fail("reserve", number=errno.ENOSPC)
        refused = log.append(draft(b"x" * 500), NOW_MS)
        assert refused.status is PutStatus.CREATE_MAPPED_FILE_FAILED
        assert (log.end_offset, len(log.files.files)) == (end, 1)
        assert log.append(draft(b"x" * 10), NOW_MS).physical_offset == end
        assert log.append(draft(b"x" * 500), NOW_MS).physical_offset == SEGMENT_BYTES
        placed_end(log)
        log.validate()

    def test_a_blank_that_opens_a_recovered_log_is_reserved_as_well(self) -> None:
        fs = Disk()
        log = open_log(fs, small_config())
        while log.end_offset < SEGMENT_BYTES - 300:
            log.append(draft(b"x" * 90), NOW_MS)
        end = placed_end(log)
        again = open_log(fs, small_config(), end_offset=end)
        fs.fail("reserve", number=errno.ENOSPC)
        assert again.append(draft(b"x" * 500), NOW_MS).status is not PutStatus.PUT_OK
        assert len(again.files.files) == 1
        fs.reserved.clear()
        assert again.append(draft(b"x" * 500), NOW_MS).physical_offset == SEGMENT_BYTES
        assert fs.reserved == [(end, SEGMENT_BYTES - end), (0, STEP_BYTES)]

    def test_bytes_of_a_master_are_reserved_as_well(self) -> None:
        fs = Disk()
        log = open_log(fs, small_config())
        fs.fail("reserve", number=errno.ENOSPC)
        with pytest.raises(NotWriteable, match=os.strerror(errno.ENOSPC)):
            log.append_bytes(0, b"x" * 100, NOW_MS)
        log.append_bytes(0, b"x" * 100, NOW_MS)
        fs.fail("reserve", number=errno.ENOSPC)
        with pytest.raises(NotWriteable, match=os.strerror(errno.ENOSPC)):
            log.append_bytes(100, b"x" * STEP_BYTES, NOW_MS)
        log.append_bytes(100, b"x" * (SEGMENT_BYTES - 100), NOW_MS)
        log.append_bytes(SEGMENT_BYTES, b"x" * SEGMENT_BYTES, NOW_MS)
        assert placed_end(log) == 2 * SEGMENT_BYTES
        rest = SEGMENT_BYTES - STEP_BYTES
        assert fs.reserved == [(0, STEP_BYTES), (STEP_BYTES, rest), (0, SEGMENT_BYTES)]

    def test_what_a_pool_has_is_reserved_in_its_segment(self) -> None:
        fs = Disk()
        pool = TransientPool(fs, "/shm/pool", count=2, segment_bytes=SEGMENT_BYTES)
        log = open_log(fs, small_config(), pool=pool)
        fs.fail("reserve", number=errno.ENOSPC)
        assert log.append(draft(), NOW_MS).status is PutStatus.CREATE_MAPPED_FILE_FAILED
        assert log.append(draft(), NOW_MS).status is PutStatus.PUT_OK
        placed_end(log)
        assert log.committed_offset == 0
        assert fs.reserved == [(0, STEP_BYTES)]
        log.close()
        pool.close()


def blocks_bytes(path: Path) -> int:
    return path.stat().st_blocks * 512


def test_a_segment_takes_one_step_for_its_first_message(tmp_path: Path) -> None:
    config = small_config(store_path_root=str(tmp_path), commit_log_file_bytes=3 * LOG_STEP_BYTES)
    log = open_log(FileSystem(), config)
    log.append(draft(), NOW_MS)
    log.write_pending()
    [file] = [Path(file.path) for file in log.files.files]
    assert file.stat().st_size == 3 * LOG_STEP_BYTES
    assert LOG_STEP_BYTES <= blocks_bytes(file) < LOG_STEP_BYTES + (1 << 20)
    log.close()


def test_a_reservation_that_cannot_be_takes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = FileSystem()
    path = tmp_path / "file"
    fd = fs.open(str(path), create=True)
    fs.truncate(fd, 1 << 20)
    real = os.fstatvfs(fd)

    class Nearly:
        f_blocks, f_frsize, f_bavail = real.f_blocks, 4096, 10

    with monkeypatch.context() as patched:
        patched.setattr(os, "fstatvfs", lambda _fd: Nearly)
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            fs.reserve(fd, 0, 1 << 20)
        assert blocks_bytes(path) == 0
        fs.reserve(fd, 0, 4096 * 10)
    assert blocks_bytes(path) == 4096 * 10
    assert path.stat().st_size == 1 << 20
    fs.close(fd)


def test_steps_that_begin_small_double() -> None:
    """One of thousands of queues with a few messages takes a block, not sixteen."""
    fs = Disk()
    fd = fs.open("/file", create=True)
    fs.truncate(fd, 200)
    file = MappedFile(fs, "/file", start_offset=0, size_bytes=200)
    reservation = Reservation(40, 10)
    for end in range(1, 130):
        reservation.cover(file, end - 1, end)
    assert fs.reserved == [(0, 10), (10, 10), (20, 20), (40, 40), (80, 40), (120, 40)]
