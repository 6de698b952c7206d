"""What the store asks of the disk, in order, for each piece of work that must survive a crash.

`disk_transcripts.txt` has one part for each: what is made, written, cut, synced, renamed and
removed, and which files are open at the end. Reads are left out.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.logs import SEGMENT_BYTES, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import NOW_MS, dispatch, open_store, put, store_config
from tests.storage.durability.summed_segments import cover_up_to, segment_path
from wakelog.storage.durability.checkpoint import Checkpoint
from wakelog.storage.durability.config_files import ConfigFiles
from wakelog.storage.durability.deleted_topics import DeletedTopics, remove_units
from wakelog.storage.durability.dispatched import (
    DispatchedFile,
    IndexEnd,
    lower_dispatched,
    lower_index_end,
)
from wakelog.storage.durability.marks import AbortFile, FailedSyncMark
from wakelog.storage.durability.store_identity import claim_identity
from wakelog.storage.durability.store_lock import StoreLock
from wakelog.storage.durability.sum_file import drop_sums_from, drop_sums_of_changed
from wakelog.storage.durability.watermark import Seal, Watermark
from wakelog.storage.file_system import Buffer, opened
from wakelog.storage.index.index_repair import cut_index_file, repair_index_file
from wakelog.storage.index.index_service import index_shape
from wakelog.storage.log.allocate import FilesAhead, clean_unfinished, make_segment
from wakelog.storage.log.commit_log_reader import commit_log_files
from wakelog.storage.log.mapped_file_queue import MappedFileQueue
from wakelog.storage.log.transient_pool import TransientPool, copy_range, restore_buffers
from wakelog.storage.recovery.cut import cut_log
from wakelog.storage.recovery.quarantine import copy_to_quarantine

CONFIG = store_config()
PATHS = CONFIG.paths
TEXT = Path(__file__).with_name("disk_transcripts.txt")


class RecordedDisk(MemoryFileSystem):
    """Notes what changes the disk, or makes a change durable."""

    def __init__(self, disk: Any = None) -> None:
        super().__init__(disk)
        self.said: list[str] = []
        self._names: dict[int, str] = {}

    def other_process(self) -> "RecordedDisk":
        """Return the same disk as another process sees it, whose work is noted in the same list."""
        other = RecordedDisk(self._disk)
        other.said = self.said
        return other

    def ended(self) -> str:
        """Return what was asked, and what is still open."""
        return "\n".join([*self.said, *(f"open {name}" for name in sorted(self._names.values()))])

    def _say(self, operation: str, *values: object) -> None:
        words = [str(value).removeprefix("/store/") for value in values]
        self.said.append(" ".join([operation, *words]))

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> int:
        if create and not self.exists(path):
            self._say("make", path)
        fd = super().open(path, create=create, read_only=read_only)
        self._names[fd] = path.removeprefix("/store/")
        return fd

    def close(self, fd: int) -> None:
        super().close(fd)
        del self._names[fd]

    def pwrite(self, fd: int, data: Buffer, position: int) -> None:
        self._say("write", self._names[fd], f"{len(data)} at {position}")
        super().pwrite(fd, data, position)

    def datasync(self, fd: int) -> None:
        self._say("sync data of", self._names[fd])
        super().datasync(fd)

    def sync(self, fd: int) -> None:
        self._say("sync", self._names[fd])
        super().sync(fd)

    def forget_cached(self, fd: int) -> None:
        self._say("forget cached", self._names[fd])
        super().forget_cached(fd)

    def allocate(self, fd: int, length: int) -> None:
        self._say("allocate", self._names[fd], length)
        super().allocate(fd, length)

    def reserve(self, fd: int, position: int, length: int) -> None:
        self._say("reserve", self._names[fd], f"{length} at {position}")
        super().reserve(fd, position, length)

    def truncate(self, fd: int, length: int) -> None:
        self._say("set length of", self._names[fd], length)
        super().truncate(fd, length)

    def rename(self, source: str, target: str) -> None:
        self._say("rename", source, target)
        super().rename(source, target)

    def rename_new(self, source: str, target: str) -> None:
        self._say("rename to new", source, target)
        super().rename_new(source, target)

    def unlink(self, path: str) -> None:
        self._say("remove", path)
        super().unlink(path)

    def make_directories(self, path: str, unsynced: list[str] | None = None) -> None:
        if not self.exists(path):
            self._say("make folder", path, *[] if unsynced is None else ["to be synced later"])
        super().make_directories(path, unsynced)

    def remove_directory(self, path: str) -> None:
        self._say("remove folder", path)
        super().remove_directory(path)

    def sync_directory(self, path: str) -> None:
        self._say("sync folder", path)
        super().sync_directory(path)

    def unlock_byte(self, fd: int, byte: int) -> None:
        self._say("unlock", self._names[fd], byte)
        super().unlock_byte(fd, byte)

    def lock_byte(self, fd: int, byte: int) -> bool:
        self._say("lock", self._names[fd], byte)
        return super().lock_byte(fd, byte)


def lock_of_a_store(disk: RecordedDisk) -> None:
    lock = StoreLock(disk, PATHS.lock)
    reput = StoreLock(disk, PATHS.lock, 3)
    lock.sign()
    lock.release()
    reput.release()


def identity(disk: RecordedDisk) -> None:
    disk.make_directories("/store")
    for _ in range(2):
        claim_identity(disk, "/store/wakelog.store", broker_name="a", new_store_id="id")


def marks(disk: RecordedDisk) -> None:
    abort, failed_sync = AbortFile(disk, PATHS.abort), FailedSyncMark(disk, PATHS)
    abort.create()
    abort.remove()
    abort.remove()
    failed_sync.set()
    failed_sync.clear()
    failed_sync.clear()


def watermark(disk: RecordedDisk) -> None:
    disk.make_directories("/store")
    one = Watermark(disk, PATHS.watermark)
    one.note(100, 1)
    one.note(200, 2, Seal(bytes(16), 4096, 5))
    one.lower(200)
    one.lower(50)
    one.close()


def dispatched(disk: RecordedDisk) -> None:
    disk.make_directories("/store")
    lower_dispatched(disk, PATHS.dispatched, 0)
    one = DispatchedFile(disk, PATHS.dispatched)
    one.note(100, IndexEnd(5, 7))
    one.note(100, IndexEnd(5, 7))
    one.close()
    disk.said.append("-- lowered")
    lower_dispatched(disk, PATHS.dispatched, 100)
    lower_dispatched(disk, PATHS.dispatched, 99)
    lower_index_end(disk, PATHS.dispatched, IndexEnd(5, 6))


def checkpoint(disk: RecordedDisk) -> None:
    disk.make_directories("/store")
    for _ in range(2):
        one = Checkpoint(disk, PATHS.checkpoint)
        one.set_physic(1)
        one.set_logics(1)
        one.set_index(1)
        one.sync()
        one.close()


def texts(disk: RecordedDisk) -> None:
    files = ConfigFiles(disk, PATHS.config)
    for text in ("{}", "{1}"):
        files.save("topics.json", text)
    write_file(disk, PATHS.config("topics.json"), b"broken")
    disk.said.append("-- over a broken text")
    files.load("topics.json", lambda text: int(text.strip("{}") or 0))
    files.save("topics.json", "{2}")
    files.save("topics.json", "{3}")


def deleted_topics(disk: RecordedDisk) -> None:
    disk.make_directories("/store")
    topics = DeletedTopics(disk, PATHS)
    topics.note(("a", "b"), 100)
    topics.note(("a",), 100)
    topics.lower(100)
    topics.forget_before(99)
    disk.said.append("-- lowered, forgotten")
    topics.lower(99)
    topics.forget_before(99)


def queue_that_is_removed(disk: RecordedDisk) -> None:
    for queue in (0, 1):
        write_file(disk, f"/store/consumequeue_ext/a/{queue}/0", b"unit")
    disk.said.clear()
    remove_units(disk, "/store/consumequeue_ext/a/0")
    remove_units(disk, "/store/consumequeue_ext/a/2")
    remove_units(disk, "/store/consumequeue_ext/a/1")


def sums(disk: RecordedDisk) -> None:
    with_segments(disk, 2)
    cover_up_to(disk, SEGMENT_BYTES + 300)
    disk.said.append("-- cut")
    drop_sums_from(disk, PATHS, SEGMENT_BYTES + 256, SEGMENT_BYTES)
    drop_sums_from(disk, PATHS, SEGMENT_BYTES + 255, SEGMENT_BYTES)
    drop_sums_from(disk, PATHS, SEGMENT_BYTES, SEGMENT_BYTES)
    disk.said.append("-- the segment is gone")
    drop_sums_of_changed(disk, PATHS, commit_log_files(disk, CONFIG))


def with_segments(disk: RecordedDisk, count: int) -> None:
    for number in range(count):
        write_file(disk, segment_path(number), bytes([number + 1]) * SEGMENT_BYTES)
    disk.said.clear()


def quarantine(disk: RecordedDisk) -> None:
    with_segments(disk, 3)
    write_file(disk, segment_path(2), bytes(SEGMENT_BYTES))
    files = commit_log_files(disk, CONFIG)
    files.load()
    disk.said.clear()
    copy_to_quarantine(disk, "/store", files.files, SEGMENT_BYTES - 10, 7)
    copy_to_quarantine(disk, "/store", files.files, 2 * SEGMENT_BYTES, 8)
    files.close()


def log_that_is_cut(disk: RecordedDisk) -> None:
    with_segments(disk, 3)
    cut_log(disk, CONFIG, SEGMENT_BYTES + 100, NOW_MS)


def segment(disk: RecordedDisk) -> None:
    path = segment_path(0)
    for unsynced in (None, None, list[str]()):
        make_segment(disk, path, SEGMENT_BYTES, temporary_path="/store/new", unsynced=unsynced)
    disk.said.append("-- one that was built before")
    write_file(disk, "/store/built", bytes(SEGMENT_BYTES))
    make_segment(disk, segment_path(1), SEGMENT_BYTES, temporary_path="/store/built", is_built=True)


def files_ahead(disk: RecordedDisk) -> None:
    disk.make_directories("/store")
    ahead = FilesAhead(disk, "/store/new", 100, count=2)
    ahead.make()
    ahead.make()
    ahead.take_file()
    ahead.make()
    ahead.make_more(2)
    ahead.remove()


def unfinished(disk: RecordedDisk) -> None:
    for owner in ("broker", "allocate"):
        for path in (segment_path(0), "/store/consumequeue/a/0/0"):
            write_file(disk, PATHS.new_file(path, owner), b"half")
    disk.said.clear()
    clean_unfinished(disk, PATHS, "broker")


def files_of_a_queue(disk: RecordedDisk) -> None:
    for number in range(5):
        write_file(disk, f"/store/q/{100 * number:020d}", b"x" * (100 if number < 4 else 10))
    disk.said.clear()
    files = MappedFileQueue(disk, ["/store/q"], 100)
    short = files.load().short_last
    assert short is not None
    files.extend_short_last(short)
    disk.said.append("-- cut in a file, there again, at a file, and before one that is kept")
    for offset, keep_empty, is_durable in (
        (350, False, False),
        (350, False, True),
        (350, False, False),
        (300, False, True),
        (200, True, True),
    ):
        files.truncate(offset, keep_empty=keep_empty, is_durable=is_durable)
    disk.said.append("-- removed from the front")
    files.remove_before(200)
    files.close()


def pool(disk: RecordedDisk) -> None:
    for number in range(2):
        write_file(disk, segment_path(number), bytes(SEGMENT_BYTES))
    disk.said.clear()
    one = TransientPool(disk, "/store/pool", count=2, segment_bytes=SEGMENT_BYTES)
    disk.said.append("-- lent, filled, copied")
    for number in range(2):
        buffer = one.lend(number * SEGMENT_BYTES)
        assert buffer is not None
        buffer.write(0, b"x" * SEGMENT_BYTES)
        one.on_appended(buffer.end_offset - number)
    for piece in one.pending(2 * SEGMENT_BYTES):
        copy_range(disk, piece, segment_path(piece.segment_start_offset // SEGMENT_BYTES))
        one.on_committed(piece.end)
    one.close()


def pool_of_a_dead_broker(disk: RecordedDisk) -> None:
    write_file(disk, segment_path(0), bytes(SEGMENT_BYTES))
    one = TransientPool(disk, "/store/pool", count=1, segment_bytes=SEGMENT_BYTES)
    buffer = one.lend(0)
    assert buffer is not None
    buffer.write(0, b"x" * 100)
    one.on_appended(100)
    one.close()
    disk.said.clear()
    restore_buffers(disk, "/store/pool", lambda offset: segment_path(0), lambda piece: None)


def store(disk: RecordedDisk) -> None:
    one = open_store(disk, CONFIG)
    disk.said.append("-- a message")
    put(one, b"one", properties_text="KEYS\1k\2")
    disk.said.append("-- dispatched")
    dispatch(one, disk)
    disk.said.append("-- closed")
    one.close(dispatch_behind_bytes=0)
    disk.said.append("-- opened again")
    again = open_store(disk, CONFIG)
    disk.said.append("-- closed behind")
    again.close(dispatch_behind_bytes=1)


def store_after_a_crash(disk: RecordedDisk) -> None:
    one = open_store(disk, CONFIG)
    put(one, *[b"x" * 1500] * 3, properties_text="KEYS\1k\2")
    dispatch(one, disk)
    path = segment_path(1)
    with opened(disk, path) as fd:
        disk.pwrite(fd, b"torn", one.max_physical_offset % SEGMENT_BYTES)
    disk.said.clear()
    open_store(disk.successor(), CONFIG)


def index(disk: RecordedDisk) -> None:
    one = open_store(disk, CONFIG)
    put(one, b"one", b"two", properties_text="KEYS\1k\2")
    dispatch(one, disk)
    [name] = disk.list_directory(PATHS.index_directory)
    path, shape = f"{PATHS.index_directory}/{name}", index_shape(CONFIG)
    one.close(dispatch_behind_bytes=0)
    disk.said[:] = ["-- cut"]
    cut_index_file(disk, path, shape, entry_next=3, store_time=lambda offset: NOW_MS)
    cut_index_file(disk, path, shape, entry_next=2, store_time=lambda offset: NOW_MS)
    disk.said.append("-- repaired")
    for end in (200, 0):
        repair_index_file(disk, path, shape, physical_offset=end, store_time=lambda offset: NOW_MS)


WORK: dict[str, Callable[[RecordedDisk], None]] = {
    work.__name__: work
    for work in (
        lock_of_a_store,
        identity,
        marks,
        watermark,
        dispatched,
        checkpoint,
        texts,
        deleted_topics,
        queue_that_is_removed,
        sums,
        quarantine,
        log_that_is_cut,
        segment,
        files_ahead,
        unfinished,
        files_of_a_queue,
        pool,
        pool_of_a_dead_broker,
        store,
        store_after_a_crash,
        index,
    )
}


def transcripts() -> dict[str, str]:
    """Return the parts of the text by their names."""
    parts = TEXT.read_text().split("== ")[1:]
    return {part.partition("\n")[0]: part.partition("\n")[2].strip() for part in parts}


@pytest.mark.parametrize("name", WORK)
def test_the_disk_is_asked_for_this_in_this_order(name: str) -> None:
    disk = RecordedDisk()
    WORK[name](disk)
    assert disk.ended() == transcripts()[name]


def test_each_transcript_has_its_work() -> None:
    assert list(transcripts()) == list(WORK)
