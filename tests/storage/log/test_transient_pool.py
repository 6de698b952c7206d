"""Buffers in shared memory: what they hold outlives every process."""

import errno
import itertools

import pytest

from tests.fakes.logs import SEGMENT_BYTES, draft, open_log, read_file, small_config, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.protocol.record import decode_record
from wakelog.storage.errors import DamagedStore, NotWriteable, StoreFailed, StoreFull
from wakelog.storage.log.commit_log import CommitLog
from wakelog.storage.log.commit_log_reader import CommitLogReader, commit_log_files
from wakelog.storage.log.transient_pool import (
    CommitRange,
    TransientPool,
    copy_range,
    restore_buffers,
)

CONFIG = small_config()
POOL = "/shared/wakelog-id"


def open_pool(fs: MemoryFileSystem, count: int = 2) -> TransientPool:
    return TransientPool(fs, POOL, count=count, segment_bytes=SEGMENT_BYTES)


@pytest.fixture
def pool(fs: MemoryFileSystem) -> TransientPool:
    return open_pool(fs)


@pytest.fixture
def log(fs: MemoryFileSystem, pool: TransientPool) -> CommitLog:
    return open_log(fs, CONFIG, pool=pool)


def restore(fs: MemoryFileSystem, log_begin: int = 0) -> list[CommitRange]:
    """Restore as a start does if no other broker had the store meanwhile."""
    files = commit_log_files(fs, CONFIG)

    def path_of(start_offset: int) -> str | None:
        return files.path_for(start_offset) if start_offset >= log_begin else None

    return restore_buffers(fs, POOL, path_of, taken)


def taken(piece: CommitRange) -> None:
    raise AssertionError(piece)


def put(log: CommitLog, *found: bytes) -> int:
    """Append messages in one turn; return where the log ends."""
    for body in found:
        log.append(draft(body), 1)
    return log.write_pending()


def large(count: int) -> list[bytes]:
    """Return bodies of which two fill a segment."""
    return [bytes([65 + i]) * 1500 for i in range(count)]


def commit_all(fs: MemoryFileSystem, log: CommitLog, pool: TransientPool) -> None:
    for piece in pool.pending(log.appended_offset):
        copy_range(fs, piece, log.files.path_for(piece.segment_start_offset))
        pool.on_committed(piece.end)


def bodies(fs: MemoryFileSystem, end: int) -> list[bytes]:
    """Read every record of the segments below `end`."""
    reader = CommitLogReader(fs, CONFIG)
    found, offset = [], 0
    while offset < end:
        data = reader.read_span(offset, SEGMENT_BYTES)
        size = int.from_bytes(data[:4], "big")
        if data[4:8] == b"\xda\xa3\x20\xa7":
            found.append(decode_record(data[:size]).body)
        offset += size
    reader.close()
    return found


def test_what_is_appended_reaches_the_segment_when_it_is_committed(
    fs: MemoryFileSystem, pool: TransientPool, log: CommitLog
) -> None:
    end = put(log, b"one")
    assert (log.appended_offset, log.committed_offset) == (end, 0)
    assert read_file(fs, log.files.path_for(0)) == bytes(SEGMENT_BYTES)
    commit_all(fs, log, pool)
    assert log.committed_offset == end
    assert bodies(fs, end) == [b"one"]


def test_a_buffer_is_free_again_once_its_segment_is_whole(fs: MemoryFileSystem) -> None:
    pool = open_pool(fs, count=1)
    log = open_log(fs, CONFIG, pool=pool)
    expected = []
    for i in range(9):
        body = bytes([65 + i]) * 1500
        put(log, body)
        commit_all(fs, log, pool)
        expected.append(body)
    assert log.committed_offset == log.appended_offset
    assert bodies(fs, log.appended_offset) == expected
    assert pool.lend(1 << 40) is None  # the last segment has the only buffer


def test_a_copier_that_wakes_late_leaves_the_segment_alone(fs: MemoryFileSystem) -> None:
    pool = open_pool(fs, count=1)
    log = open_log(fs, CONFIG, pool=pool)
    put(log, b"first")
    [late] = pool.pending(log.appended_offset)
    for _ in range(9):
        commit_all(fs, log, pool)
        put(log, b"." * 1500)
    [current] = pool.pending(log.appended_offset)
    assert current.buffer_path == late.buffer_path and current.segment_start_offset > 0
    path = log.files.path_for(0)
    before = read_file(fs, path)
    assert not copy_range(fs, late, path)
    assert read_file(fs, path) == before
    assert copy_range(fs, current, log.files.path_for(current.segment_start_offset))


def test_a_buffer_may_be_lent_again_while_it_is_read(fs: MemoryFileSystem) -> None:
    pool = open_pool(fs, count=1)
    log = open_log(fs, CONFIG, pool=pool)
    put(log, b"first")
    [late] = pool.pending(log.appended_offset)

    class Late(MemoryFileSystem):
        def pread(self, fd: int, length: int, position: int) -> bytes:
            if length == late.end - late.begin:
                pool.on_committed(log.appended_offset)
                for _ in range(9):
                    put(log, b"." * 1500)
                    commit_all(fs, log, pool)
            return super().pread(fd, length, position)

    path = log.files.path_for(0)
    assert not copy_range(Late(fs._disk), late, path)
    assert read_file(fs, path)[:4] == bytes(4)


def test_without_a_free_buffer_the_segment_is_written_itself(fs: MemoryFileSystem) -> None:
    pool = open_pool(fs, count=1)
    log = open_log(fs, CONFIG, pool=pool)
    end = put(log, *large(4))
    # The second segment holds its bytes, but the log is committed only without a hole.
    assert log.committed_offset == 0
    assert pool.pending(end) == [CommitRange(f"{POOL}/buffer-0", 0, 0, SEGMENT_BYTES)]
    commit_all(fs, log, pool)
    assert log.committed_offset == end
    assert len(bodies(fs, end)) == 4


def test_a_commit_may_cover_a_part(
    fs: MemoryFileSystem, pool: TransientPool, log: CommitLog
) -> None:
    first = put(log, b"one")
    put(log, b"two")
    [piece] = pool.pending(first)
    assert (piece.begin, piece.end) == (0, first)
    pool.on_committed(piece.end)
    assert log.committed_offset == first
    assert pool.pending(log.appended_offset)[0].begin == first


@pytest.mark.parametrize("committed_turns", [0, 2, 5])
def test_uncommitted_bytes_outlive_the_broker(fs: MemoryFileSystem, committed_turns: int) -> None:
    pool = open_pool(fs, count=3)
    log = open_log(fs, CONFIG, pool=pool)
    expected = []
    for turn in range(6):
        body = bytes([65 + turn]) * 1500
        put(log, body)
        expected.append(body)
        if turn < committed_turns:
            commit_all(fs, log, pool)
    end = log.appended_offset
    # The broker dies; the next one finds files alone.
    after = fs.successor()
    restored = restore(after)
    assert bodies(after, end) == expected
    assert [piece.begin for piece in restored] == sorted(piece.begin for piece in restored)
    assert not after.exists(POOL)
    assert restore(after) == []


def test_bytes_written_but_not_noted_are_not_restored(fs: MemoryFileSystem, log: CommitLog) -> None:
    """A broker that dies between the two calls has sent no response."""
    end = put(log, b"kept")
    log.append(draft(b"lost"), 1)
    fs.fail("pwrite")  # the header's word; the buffer itself is written with pwritev
    with pytest.raises(NotWriteable):
        log.write_pending()
    after = fs.successor()
    [piece] = restore(after)
    assert (piece.begin, piece.end) == (0, end)


def test_what_is_restored_is_durable_before_the_buffers_go(
    fs: MemoryFileSystem, log: CommitLog
) -> None:
    put(log, b"one")
    after = fs.successor()
    after.fail("datasync")
    with pytest.raises(StoreFailed):
        restore(after)
    assert "pool" in after.list_directory(POOL)
    [piece] = restore(after)
    assert (piece.begin, piece.end) == (0, log.appended_offset)


def test_a_restore_that_died_half_way_is_done_again(fs: MemoryFileSystem, log: CommitLog) -> None:
    end = put(log, *large(4))
    for operation, nth in itertools.product(("pwrite", "datasync", "unlink"), (1, 2)):
        dying = fs.successor()
        dying.fail(operation, nth=nth)
        try:
            restore(dying)
        except StoreFailed:
            continue
    after = fs.successor()
    restore(after)
    assert len(bodies(after, end)) == 4
    assert not after.exists(POOL)


def test_a_segment_that_retention_removed_is_not_brought_back(
    fs: MemoryFileSystem, log: CommitLog
) -> None:
    put(log, *large(3))
    path = log.files.path_for(0)
    fs.unlink(path)
    after = fs.successor()
    [restored] = restore(after, log_begin=SEGMENT_BYTES)
    assert restored.begin == SEGMENT_BYTES
    assert not after.exists(path)


def test_what_another_broker_wrote_is_not_written_over(fs: MemoryFileSystem) -> None:
    """It knows nothing of the buffers, and continues the log where the segments end."""
    log = open_log(fs, CONFIG, pool=open_pool(fs, count=3))
    put(log, *large(5))
    first, second = log.files.path_for(0), log.files.path_for(SEGMENT_BYTES)
    write_file(fs, second, b"other" + bytes(SEGMENT_BYTES - 5))
    kept: list[CommitRange] = []
    after = fs.successor()
    paths = commit_log_files(after, CONFIG)
    [restored] = restore_buffers(after, POOL, paths.path_for, kept.append)
    # The first segment has nothing of its own; what lies behind a place that is taken goes with it.
    assert (restored.begin, restored.end) == (0, SEGMENT_BYTES)
    assert len(bodies(after, SEGMENT_BYTES)) == 2
    assert [piece.segment_start_offset for piece in kept] == [SEGMENT_BYTES, 2 * SEGMENT_BYTES]
    assert read_file(after, second)[:8] == b"other\0\0\0"
    assert not any(read_file(after, log.files.path_for(2 * SEGMENT_BYTES)))
    assert read_file(after, first)[:4] != bytes(4)
    assert not after.exists(POOL)


def test_a_segment_that_has_a_part_of_its_buffer_gets_the_rest(
    fs: MemoryFileSystem, log: CommitLog
) -> None:
    """A broker that is killed in a copy leaves zeros after what it has copied."""
    end = put(log, b"x" * 2000)
    buffer, path = read_file(fs, f"{POOL}/buffer-0"), log.files.path_for(0)
    write_file(fs, path, buffer[:1000] + bytes(SEGMENT_BYTES - 1000))
    [piece] = restore(fs.successor())
    assert (piece.begin, piece.end) == (0, end)
    assert read_file(fs, path) == buffer


def test_later_ranges_follow_a_taken_one_to_the_quarantine_from_any_buffer(
    fs: MemoryFileSystem, pool: TransientPool, log: CommitLog
) -> None:
    put(log, *large(3))
    commit_all(fs, log, pool)
    for i in range(2):
        put(log, bytes([70 + i]) * 1500)
    # The first buffer is the third segment's by now, the second one still the second's.
    third = log.files.path_for(2 * SEGMENT_BYTES)
    [second, _] = pool.pending(log.appended_offset)
    write_file(fs, log.files.path_for(SEGMENT_BYTES), b"x" * SEGMENT_BYTES)
    kept: list[CommitRange] = []
    after = fs.successor()
    assert restore_buffers(after, POOL, commit_log_files(after, CONFIG).path_for, kept.append) == []
    assert [piece.segment_start_offset for piece in kept] == [SEGMENT_BYTES, 2 * SEGMENT_BYTES]
    assert (kept[0], kept[1].buffer_path) == (second, f"{POOL}/buffer-0")
    assert not any(read_file(after, third))


@pytest.mark.parametrize("header", [b"", b"WAKE", bytes(80)])
def test_a_pool_that_was_being_made_holds_nothing(fs: MemoryFileSystem, header: bytes) -> None:
    write_file(fs, f"{POOL}/buffer-0", b"")
    write_file(fs, f"{POOL}/pool", header)
    assert restore(fs) == []
    assert not fs.exists(POOL)


@pytest.mark.parametrize(
    ("position", "bits"), [(0, 0x40), (15, 0x40), (23, 0x40), (23, 0x02), (40, 0x40), (52, 0x01)]
)
def test_an_impossible_header_is_refused(
    fs: MemoryFileSystem, log: CommitLog, position: int, bits: int
) -> None:
    put(log, b"")
    header = bytearray(read_file(fs, f"{POOL}/pool"))
    header[position] ^= bits
    write_file(fs, f"{POOL}/pool", bytes(header))
    with pytest.raises(DamagedStore, match="remove its directory"):
        restore(fs)
    assert fs.exists(f"{POOL}/buffer-0")


def test_closing_leaves_nothing_behind(
    fs: MemoryFileSystem, pool: TransientPool, log: CommitLog
) -> None:
    put(log, b"")
    commit_all(fs, log, pool)
    log.close()
    pool.close()
    assert not fs.exists(POOL)
    assert fs.descriptor_count == 0


def test_what_no_segment_has_is_left_to_the_next_start(
    fs: MemoryFileSystem, pool: TransientPool, log: CommitLog
) -> None:
    put(log, b"")
    log.close()
    pool.close()
    assert fs.descriptor_count == 0
    [piece] = restore(fs.successor())
    assert (piece.begin, piece.end) == (0, log.appended_offset)


@pytest.mark.parametrize("nth", range(1, 9))
def test_a_header_that_cannot_be_written_costs_nothing(
    fs: MemoryFileSystem, pool: TransientPool, log: CommitLog, nth: int
) -> None:
    """A segment without a buffer is written itself; what was copied already is copied again."""
    fs.fail("pwrite", nth=nth)
    stored = 0
    try:
        for i in range(8):
            put(log, bytes([65 + i]) * 1500)
            stored += 1
            if i != 3:
                commit_all(fs, log, pool)
    except (NotWriteable, StoreFailed):
        pass
    end = log.appended_offset
    after = fs.successor()
    restore(after)
    assert len(bodies(after, end)) >= stored


def test_a_copy_of_a_store_leaves_the_pool_of_the_broker_that_runs(
    fs: MemoryFileSystem, pool: TransientPool, log: CommitLog
) -> None:
    """A copy has the id that the pool's directory is named after."""
    put(log, b"")
    copy = fs.other_process()
    with pytest.raises(DamagedStore, match=f"process {fs.pid} uses it.*remove its wakelog.store"):
        restore(copy)
    with pytest.raises(DamagedStore):
        open_pool(copy)
    assert copy.descriptor_count == 0
    commit_all(fs, log, pool)
    assert log.committed_offset == log.appended_offset
    assert restore(fs.successor()) == []


def test_a_pool_is_its_owners_until_it_is_gone() -> None:
    """Else its owner would remove what the broker of a copy has made there meanwhile."""

    class Closing(MemoryFileSystem):
        def unlink(self, path: str) -> None:
            with pytest.raises(DamagedStore):
                open_pool(self.other_process())
            super().unlink(path)

    fs = Closing()
    pool = open_pool(fs)
    pool.close()
    assert fs.descriptor_count == 0 and not fs.exists(POOL)


def test_too_little_memory_is_an_error(fs: MemoryFileSystem) -> None:
    fs.fail("allocate", nth=2, number=errno.ENOSPC)
    with pytest.raises(StoreFull):
        open_pool(fs)


def test_a_failed_copy_is_an_error(
    fs: MemoryFileSystem, pool: TransientPool, log: CommitLog
) -> None:
    put(log, b"")
    [piece] = pool.pending(log.appended_offset)
    fs.fail("pwrite", number=errno.EIO)
    with pytest.raises(StoreFailed, match="commit"):
        copy_range(fs, piece, log.files.path_for(0))
