"""The order in which a store is opened and closed, and what a failure in between leaves."""

from contextlib import closing, suppress

import pytest

from tests.fakes.logs import draft, read_file, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import NOW_MS, dispatch, put, store_config
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.checkpoint import Checkpoint, decode_checkpoint
from wakelog.storage.errors import DamagedStore, StoreError, StoreLocked
from wakelog.storage.file_system import Buffer
from wakelog.storage.log.mapped_file_queue import MappedFileQueue
from wakelog.storage.log.transient_pool import copy_range
from wakelog.storage.message_store import MessageStore
from wakelog.storage.read.store_readers import StoreReaders
from wakelog.storage.store_parts import (
    CLOCK_AHEAD_MS_MAX,
    OpenOptions,
    StoreParts,
    close_parts,
    open_parts,
)

ABORT = "/store/abort"
WATERMARK = "/store/wakelog.watermark"
SEGMENT = f"/store/commitlog/{0:020d}"
POOL = "/shm/pool"
CONFIG = store_config()
POOLED = store_config(transient_store_pool_enable=True, transient_store_pool_count=2)


def opened(
    fs: MemoryFileSystem, config: StoreConfig = CONFIG, options: OpenOptions | None = None
) -> StoreParts:
    return open_parts(fs, config, NOW_MS, options or OpenOptions())


def as_store(parts: StoreParts) -> MessageStore:
    return MessageStore(parts, StoreReaders(parts.fs, parts.config, physical_memory_bytes=1000))


def tree(fs: MemoryFileSystem, path: str = "/store") -> dict[str, bytes]:
    """Every file below a path with its content."""
    found = {}
    for name in fs.list_directory(path):
        below = f"{path}/{name}"
        if fs.is_file(below):
            found[below] = read_file(fs, below)
        else:
            found |= tree(fs, below)
    return found


def test_a_second_broker_changes_nothing(fs: MemoryFileSystem) -> None:
    parts = opened(fs)
    put(as_store(parts), b"one")
    # Compared at by a third process: closing the lock file would give up this one's lock.
    before = tree(fs.other_process())
    with pytest.raises(StoreLocked):
        opened(fs.other_process())
    assert tree(fs.other_process()) == before
    close_parts(parts, last_store_timestamp_ms=0, clean=True)
    opened(fs.other_process())


def test_a_failed_open_gives_the_lock_back(fs: MemoryFileSystem) -> None:
    for number, length in enumerate((100, 4096)):
        write_file(fs, f"/store/commitlog/{number * 4096:020d}", b"x" * length)
    with pytest.raises(DamagedStore):
        opened(fs)
    assert not fs.exists(ABORT)
    fs.unlink(f"/store/commitlog/{0:020d}")
    opened(fs.other_process())


def test_the_mark_is_there_while_the_store_is_open(fs: MemoryFileSystem) -> None:
    parts = opened(fs)
    assert fs.exists(ABORT)
    assert close_parts(parts, last_store_timestamp_ms=0, clean=True)
    assert not fs.exists(ABORT)
    assert fs.descriptor_count == 0


class Noting(MemoryFileSystem):
    """Notes the files that are written and synced, in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[tuple[str, str]] = []
        self._paths: dict[int, str] = {}

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> int:
        fd = super().open(path, create=create, read_only=read_only)
        self._paths[fd] = path
        return fd

    def pwrite(self, fd: int, data: Buffer, position: int) -> None:
        super().pwrite(fd, data, position)
        self.noted.append(("write", self._paths[fd]))

    def datasync(self, fd: int) -> None:
        super().datasync(fd)
        self.noted.append(("sync", self._paths[fd]))

    def sync(self, fd: int) -> None:
        super().sync(fd)
        self.noted.append(("sync", self._paths[fd]))

    def last(self, what: str, path: str) -> int:
        """Return when something was done to a file for the last time."""
        return max(i for i, noted in enumerate(self.noted) if noted == (what, path))


def test_the_mark_is_durable_before_the_store_is_unsealed() -> None:
    """A crash between them would look like another broker, whose log no watermark vouches for."""
    fs = Noting()
    as_store(opened(fs)).close(dispatch_behind_bytes=0)
    fs.noted.clear()
    opened(fs)
    assert fs.last("sync", ABORT) < fs.last("write", WATERMARK)


def test_the_log_is_durable_before_the_watermark_says_so() -> None:
    fs = Noting()
    store = as_store(opened(fs))
    put(store, b"one")
    fs.noted.clear()
    store.close(dispatch_behind_bytes=0)
    assert fs.noted.index(("sync", SEGMENT)) < fs.noted.index(("write", WATERMARK))


def test_what_the_pool_held_is_durable_before_the_watermark_says_so() -> None:
    fs = Noting()
    store = as_store(opened(fs, POOLED, OpenOptions(pool_directory=POOL)))
    put(store, b"one")
    store.close(dispatch_behind_bytes=0)
    assert fs.last("write", SEGMENT) < fs.last("sync", SEGMENT) < fs.last("write", WATERMARK)


def test_the_checkpoint_is_durable_when_a_store_was_opened_or_closed() -> None:
    fs = Noting()
    store = as_store(opened(fs))
    put(store, b"one", now_ms=NOW_MS)
    store.close(dispatch_behind_bytes=1)
    path = CONFIG.paths.checkpoint
    assert fs.last("write", path) < fs.last("sync", path)
    with closing(Checkpoint(fs, path)) as checkpoint:
        checkpoint.set_logics(NOW_MS + 1)
    fs.noted.clear()
    opened(fs)
    assert fs.last("write", path) < fs.last("sync", path)


@pytest.mark.parametrize(
    ("ahead_ms", "next_ms"),
    [
        (0, NOW_MS),
        (CLOCK_AHEAD_MS_MAX, NOW_MS + CLOCK_AHEAD_MS_MAX),
        (CLOCK_AHEAD_MS_MAX + 1, NOW_MS),  # no clock has told that
    ],
)
def test_store_times_continue_from_one_that_a_clock_may_have_given(
    fs: MemoryFileSystem, ahead_ms: int, next_ms: int
) -> None:
    store = as_store(opened(fs))
    put(store, b"one", now_ms=NOW_MS + ahead_ms)
    store.close(dispatch_behind_bytes=0)
    [result] = put(as_store(opened(fs)), b"two")
    assert result.store_timestamp_ms == next_ms


def test_the_abort_file_stays_if_records_are_not_dispatched(fs: MemoryFileSystem) -> None:
    assert not close_parts(opened(fs), last_store_timestamp_ms=0, clean=False)
    assert fs.exists(ABORT)


@pytest.mark.parametrize("operation", ["pwritev", "datasync", "pwrite"])
def test_the_mark_stays_if_closing_fails(fs: MemoryFileSystem, operation: str) -> None:
    parts = opened(fs)
    store = as_store(parts)
    put(store, b"one")
    parts.log.append(draft(b"two"), NOW_MS)
    fs.fail(operation)
    with pytest.raises(StoreError):
        close_parts(parts, last_store_timestamp_ms=NOW_MS, clean=True)
    assert fs.exists(ABORT)
    opened(fs.other_process())  # the lock was given back


def test_a_failed_log_is_not_called_clean(fs: MemoryFileSystem) -> None:
    parts = opened(fs)
    parts.log.fail("a sync failed")
    assert not close_parts(parts, last_store_timestamp_ms=0, clean=True)
    assert fs.exists(ABORT)


def test_closing_notes_how_far_the_log_is_durable(fs: MemoryFileSystem) -> None:
    parts = opened(fs)
    put(as_store(parts), b"one", now_ms=NOW_MS + 7)
    close_parts(parts, last_store_timestamp_ms=NOW_MS + 7, clean=True)
    times = decode_checkpoint(read_file(fs, CONFIG.paths.checkpoint))
    assert (times.physic_ms, times.logics_ms) == (NOW_MS + 7, 0)


def test_unfinished_segments_of_a_dead_broker_are_removed(fs: MemoryFileSystem) -> None:
    final = f"/store/commitlog/{0:020d}"
    ours = CONFIG.paths.new_file(final, "broker")
    others = CONFIG.paths.new_file(final, "allocate")
    write_file(fs, ours, b"half")
    write_file(fs, others, b"half")
    opened(fs)
    assert (fs.exists(ours), fs.exists(others)) == (False, True)


def test_uncommitted_bytes_of_a_dead_broker_are_committed_first(fs: MemoryFileSystem) -> None:
    options = OpenOptions(pool_directory=POOL)
    dead = opened(fs, POOLED, options)
    put(as_store(dead), b"one", b"two")
    assert dead.log.committed_offset == 0
    # The process is gone, its shared memory is not; the next one need not even want a pool.
    dead.lock.release()
    parts = opened(fs.successor(), CONFIG, options)
    assert parts.report.log_end == dead.log.appended_offset
    assert parts.report.queue_offsets == {("TopicTest", 0): 2}
    assert not fs.exists(POOL)


def test_what_a_pool_held_gives_way_to_what_another_broker_wrote(fs: MemoryFileSystem) -> None:
    options = OpenOptions(pool_directory=POOL)
    dead = opened(fs, POOLED, options)
    put(as_store(dead), b"one" * 50, b"two")
    pooled = read_file(fs, f"{POOL}/buffer-0")[: dead.log.appended_offset]
    dead.lock.release()
    theirs = opened(fs)  # as 4.9.3 does, without a look at the pool
    [put_result] = put(as_store(theirs), b"other")
    theirs.lock.release()
    report = opened(fs.successor(), CONFIG, options).report
    assert report.log_end == put_result.size_bytes
    assert b"other" in read_file(fs, SEGMENT)
    [piece] = report.unrestored
    assert (piece.physical_offset, report.quarantined) == (0, ())
    assert piece.path.endswith(f".{NOW_MS}.pool")  # no name of what recovery cuts there
    assert read_file(fs, piece.path) == pooled.rstrip(b"\0")
    assert not fs.exists(POOL)


@pytest.mark.parametrize("others_count", [0, 1])
def test_what_a_pool_held_of_segments_that_another_broker_removed_is_kept(
    fs: MemoryFileSystem, others_count: int
) -> None:
    """4.9.3 ends the log where the segments do, and removes later ones."""
    options = OpenOptions(pool_directory=POOL)
    dead = opened(fs, POOLED, options)
    bodies = [bytes([65 + i]) * 1000 for i in range(6)]  # two segments, each with a buffer
    put(as_store(dead), *bodies)
    dead.lock.release()
    theirs = opened(fs)
    put(as_store(theirs), *[b"other"] * others_count)
    theirs.lock.release()
    parts = opened(fs.successor(), CONFIG, options)
    assert parts.report.log_end == 105 * others_count
    kept = b"".join(read_file(fs, piece.path) for piece in parts.report.unrestored)
    assert all(body in kept for body in bodies)


def test_what_a_pool_held_in_front_of_the_log_is_let_go(fs: MemoryFileSystem) -> None:
    options = OpenOptions(pool_directory=POOL)
    dead = opened(fs, POOLED, options)
    put(as_store(dead), *[bytes([65 + i]) * 1000 for i in range(9)])
    dead.lock.release()
    fs.unlink(SEGMENT)
    report = opened(fs.successor(), CONFIG, options).report
    assert (report.log_begin, report.unrestored) == (4096, ())
    assert report.queue_offsets == {("TopicTest", 0): 9}


class Killed(BaseException):
    """The process is gone."""


class Mortal(MemoryFileSystem):
    """A process that is killed in front of its nth change of the disk."""

    changes_left = 1 << 60

    def _count(self, operation: str) -> None:
        super()._count(operation)
        if operation in CHANGES:
            self.changes_left -= 1
            if self.changes_left < 0:
                raise Killed


CHANGES = {
    *("allocate", "datasync", "open", "pwrite", "pwritev", "remove_directory", "rename"),
    *("rename_new", "reserve", "sync", "sync_directory", "truncate", "unlink"),
}


def live(disk: MemoryFileSystem, changes_count: int, stored: list[bytes]) -> bool:
    """Store some messages through a pool, commit some; tell whether that was survived."""
    fs = Mortal(disk.successor()._disk)
    fs.changes_left = changes_count
    try:
        parts = opened(fs, POOLED, OpenOptions(pool_directory=POOL))
        for i in range(5):
            body = bytes([65 + len(stored)]) * 1200
            put(as_store(parts), body)
            stored.append(body)
            pool = parts.pool
            assert pool is not None
            for piece in pool.pending(parts.log.appended_offset) if i % 2 else ():
                copy_range(fs, piece, parts.log.files.path_for(piece.segment_start_offset))
                pool.on_committed(piece.end)
        close_parts(parts, last_store_timestamp_ms=0, clean=False)
    except Killed:
        return False
    return True


@pytest.mark.parametrize("then", [0, 7, 19, 43])
def test_whenever_a_broker_is_killed_nothing_of_its_pool_is_lost(then: int) -> None:
    """And whenever the next one is."""
    for changes_count in range(1000):
        disk, stored = MemoryFileSystem(), list[bytes]()
        survived = live(disk, changes_count, stored)
        live(disk, then, stored)
        parts = opened(disk.successor(), CONFIG, OpenOptions(pool_directory=POOL))
        found = as_store(parts).log
        assert parts.report.unrestored == ()
        assert found.queue_offsets.get(("TopicTest", 0)) >= len(stored), changes_count
        log = b"".join(read_file(disk, file.path) for file in found.files.files)
        assert all(body in log for body in stored)
        if survived:
            return


def test_whenever_a_start_is_killed_both_brokers_messages_are_kept() -> None:
    """What a pool held is aside before the pool goes, and stays there."""
    options = OpenOptions(pool_directory=POOL)
    for changes_count in range(1000):
        disk = MemoryFileSystem()
        dead = opened(disk, POOLED, options)
        put(as_store(dead), b"one" * 50)
        dead.lock.release()
        theirs = opened(disk)
        put(as_store(theirs), b"other")
        theirs.lock.release()
        dying = Mortal(disk.successor()._disk)
        dying.changes_left = changes_count
        with suppress(Killed):
            opened(dying, CONFIG, options)
        after = disk.successor()
        assert opened(after, CONFIG, options).report.queue_offsets == {("TopicTest", 0): 1}
        assert b"other" in read_file(after, SEGMENT)
        kept = tree(after, "/store/wakelog.quarantine")
        assert any(path.endswith(".pool") and b"one" * 50 in kept[path] for path in kept)
        if dying.changes_left >= 0:
            return


def test_closing_commits_the_pool(fs: MemoryFileSystem) -> None:
    parts = opened(fs, POOLED, OpenOptions(pool_directory=POOL))
    store = as_store(parts)
    put(store, *[b"x" * 1000] * 9)
    end = parts.log.appended_offset
    assert close_parts(parts, last_store_timestamp_ms=NOW_MS, clean=True)
    assert not fs.exists(POOL)
    assert opened(fs).report.log_end == end


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("operation", ["pwrite", "pread", "open", "datasync"])
def test_a_stop_that_fails_leaves_what_the_pool_holds(
    fs: MemoryFileSystem, operation: str, nth: int
) -> None:
    options = OpenOptions(pool_directory=POOL)
    parts = opened(fs, POOLED, options)
    put(as_store(parts), b"one", b"two")
    fs.fail(operation, nth=nth)
    with suppress(StoreError):
        close_parts(parts, last_store_timestamp_ms=NOW_MS, clean=True)
    assert fs.descriptor_count == 0
    assert opened(fs.successor(), CONFIG, options).report.queue_offsets == {("TopicTest", 0): 2}


def test_without_a_place_there_is_no_pool(fs: MemoryFileSystem) -> None:
    assert opened(fs, POOLED).pool is None


def test_processes_that_still_write_are_ended_between_lock_and_recovery(
    fs: MemoryFileSystem,
) -> None:
    seen: list[bool] = []

    def after_lock() -> None:
        with pytest.raises(StoreLocked):
            opened(fs.other_process())
        seen.append(fs.exists(CONFIG.paths.checkpoint) or fs.exists(ABORT))

    opened(fs, CONFIG, OpenOptions(after_lock=after_lock))
    assert seen == [False]


def test_a_pool_is_not_read_while_its_copier_may_still_write(fs: MemoryFileSystem) -> None:
    options = OpenOptions(pool_directory=POOL)
    dead = opened(fs, POOLED, options)
    put(as_store(dead), b"one")
    seen: list[bool] = []
    after = fs.successor()
    opened(after, CONFIG, options._replace(after_lock=lambda: seen.append(after.exists(POOL))))
    assert seen == [True]


class NoSegments:
    """A segment source that has none to give."""

    failure = None

    def __init__(self, files: MappedFileQueue) -> None:
        self.asked: list[int] = []

    def take_segment(self, start_offset: int) -> str | None:
        self.asked.append(start_offset)
        return None


def test_segments_come_from_the_given_source(fs: MemoryFileSystem) -> None:
    sources: list[NoSegments] = []

    def make(files: MappedFileQueue) -> NoSegments:
        sources.append(NoSegments(files))
        return sources[0]

    parts = opened(fs, CONFIG, OpenOptions(segment_source=make))
    put(as_store(parts), b"one")
    assert sources[0].asked == [0]
    assert parts.log.appended_offset == 0


def test_nothing_is_vouched_for_where_a_segments_first_message_is_damaged(
    fs: MemoryFileSystem,
) -> None:
    store = as_store(opened(fs))
    for second in range(6):
        put(store, b"x" * 200, now_ms=NOW_MS + 1000 * second)
    store.close(dispatch_behind_bytes=1)
    data = read_file(fs, SEGMENT)
    write_file(fs, SEGMENT, data[:4] + b"\x55" + data[5:])
    path = CONFIG.paths.checkpoint
    with closing(Checkpoint(fs, path)) as checkpoint:
        checkpoint.set_logics(NOW_MS + 1000)
    parts = opened(fs.other_process())
    assert (parts.report.dispatch_from, len(parts.report.damaged)) == (0, 1)
    assert decode_checkpoint(read_file(fs, path)).logics_ms == 0


def test_entries_that_are_made_again_are_not_vouched_for(fs: MemoryFileSystem) -> None:
    parts = opened(fs)
    store = as_store(parts)
    place = 0
    for second in range(60):
        place = put(store, b"x" * 200, now_ms=NOW_MS + 1000 * second)[0].physical_offset
    store.close(dispatch_behind_bytes=1)
    path = CONFIG.paths.checkpoint
    with closing(Checkpoint(fs, path)) as checkpoint:
        checkpoint.set_logics(NOW_MS + 1000 * 60)
    opened(fs.other_process())
    times = decode_checkpoint(read_file(fs, path))
    assert (times.logics_ms, times.physic_ms) == (NOW_MS, NOW_MS + 1000 * 59)
    assert place > CONFIG.commit_log_file_bytes


def test_without_entries_to_make_again_the_checkpoint_stays(fs: MemoryFileSystem) -> None:
    store = as_store(opened(fs))
    put(store, b"one")
    dispatch(store, fs)
    path = CONFIG.paths.checkpoint
    with closing(Checkpoint(fs, path)) as checkpoint:
        checkpoint.set_logics(NOW_MS + 1)
    store.close(dispatch_behind_bytes=0)
    opened(fs)
    assert decode_checkpoint(read_file(fs, path)).logics_ms == NOW_MS + 1
