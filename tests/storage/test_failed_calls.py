"""Whichever call of the disk fails: work that ends leaves no file open, and no lock behind."""

from collections.abc import Callable
from contextlib import closing, suppress
from copy import deepcopy

import pytest

from tests.fakes.logs import SEGMENT_BYTES, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import NOW_MS, dispatch, open_store, put, store_config
from tests.storage.durability.summed_segments import cover_up_to, segment_path
from wakelog.storage.durability.checkpoint import Checkpoint
from wakelog.storage.durability.config_files import ConfigFiles
from wakelog.storage.durability.dispatched import IndexEnd, lower_index_end
from wakelog.storage.durability.marks import AbortFile, FailedSyncMark
from wakelog.storage.durability.store_lock import StoreLock
from wakelog.storage.durability.sum_file import drop_sums_from
from wakelog.storage.durability.sum_keeper import compare_sums
from wakelog.storage.durability.watermark import Watermark, read_mark
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import opened, pread_from_disk
from wakelog.storage.index.index_service import IndexReader
from wakelog.storage.index.index_writer import IndexWriter
from wakelog.storage.log.allocate import FilesAhead, make_segment
from wakelog.storage.log.dispatch_request import DispatchRequest
from wakelog.storage.log.transient_pool import TransientPool, restore_buffers
from wakelog.storage.queue.quick_end import quick_end
from wakelog.storage.recovery.cut import cut_log

CONFIG = store_config()
PATHS = CONFIG.paths
POOL = "/store/pool"


class FailingDisk(MemoryFileSystem):
    """Fails at one call, whichever it is."""

    calls_count = 0
    fails_at = 0

    def _count(self, operation: str) -> None:
        self.calls_count += 1
        if self.calls_count == self.fails_at:
            raise OSError(5, "broken")
        super()._count(operation)


@pytest.fixture(scope="module")
def crashed() -> FailingDisk:
    """Return the disk of a broker that died with messages in segments, queue, index and pool."""
    disk = FailingDisk()
    store = open_store(disk, CONFIG)
    put(store, *[b"x" * 1500] * 3, properties_text="KEYS\1k\2")
    dispatch(store, disk)
    write_file(disk, segment_path(2), bytes(SEGMENT_BYTES))
    cover_up_to(disk, SEGMENT_BYTES)
    pool = TransientPool(disk, POOL, count=1, segment_bytes=SEGMENT_BYTES)
    buffer = pool.lend(SEGMENT_BYTES)
    assert buffer is not None
    buffer.write(0, b"x" * SEGMENT_BYTES)
    pool.on_appended(2 * SEGMENT_BYTES)
    successor = FailingDisk(disk._disk)
    for inode in disk._disk.files.values():
        inode.locks.clear()
    return successor


def started(disk: FailingDisk) -> None:
    open_store(disk, CONFIG).close(dispatch_behind_bytes=0)


def locked(disk: FailingDisk) -> None:
    lock = StoreLock(disk, PATHS.lock)
    with suppress(StoreError):
        lock.sign()
    lock.release()


def marked(disk: FailingDisk) -> None:
    for work in (AbortFile(disk, PATHS.abort).create, FailedSyncMark(disk, PATHS).set):
        with suppress(StoreError):
            work()


def saved(disk: FailingDisk) -> None:
    files = ConfigFiles(disk, PATHS.config)
    for text in ("1", "2"):
        with suppress(StoreError):
            files.save("topics.json", text)
    files.load("topics.json", int)


def noted(disk: FailingDisk) -> None:
    read_mark(disk, PATHS.watermark)
    with closing(Watermark(disk, PATHS.watermark)) as watermark:
        watermark.note(watermark.mark.physical_offset + 1, 1)
    with closing(Checkpoint(disk, "/store/checkpoint2")) as checkpoint:
        checkpoint.sync()
    lower_index_end(disk, PATHS.dispatched, IndexEnd(1, 2))


def made(disk: FailingDisk) -> None:
    ahead = FilesAhead(disk, "/store/new", 100, count=2)
    with suppress(StoreError):
        ahead.make()
    make_segment(disk, segment_path(9), SEGMENT_BYTES, temporary_path="/store/new")


def summed(disk: FailingDisk) -> None:
    list(compare_sums(disk, CONFIG))
    drop_sums_from(disk, PATHS, SEGMENT_BYTES - 1, SEGMENT_BYTES)


def cut(disk: FailingDisk) -> None:
    cut_log(disk, CONFIG, SEGMENT_BYTES - 1, NOW_MS)


def restored(disk: FailingDisk) -> None:
    restore_buffers(disk, POOL, lambda offset: segment_path(2), lambda piece: None)


def measured(disk: FailingDisk) -> None:
    quick_end(disk, PATHS.consume_queue("TopicTest", 0), CONFIG.consume_queue_bytes, None)
    with opened(disk, PATHS.checkpoint) as fd:
        pread_from_disk(disk, fd, 10)


def searched(disk: FailingDisk) -> None:
    with closing(IndexReader(disk, CONFIG)) as reader:
        reader.query("TopicTest", "k", 9, 0, 1 << 62)


def indexed(disk: FailingDisk) -> None:
    """Over the ends of two files, and back."""
    config = store_config(index_entry_count=4)
    with closing(IndexWriter(disk, config)) as index:
        index.load()
        for number in range(9):
            index.put(
                DispatchRequest("T", 0, number, number * 100, 100, 0, NOW_MS, 0, 0, "k", None, {}),
                NOW_MS,
            )
        index.write_back()
        index.cut(index.end, 300, lambda offset: NOW_MS, lambda end: None)


WORK = (started, locked, marked, saved, noted, made, summed, cut, restored, measured, searched)


@pytest.mark.parametrize(
    "work",
    [*WORK, indexed],
    ids=lambda work: work.__name__,
)
def test_whichever_call_fails_nothing_stays_open(
    crashed: FailingDisk, work: Callable[[FailingDisk], None]
) -> None:
    failures = 0
    while True:
        disk = deepcopy(crashed)
        disk.fails_at = disk.calls_count + failures + 1
        with suppress(OSError, StoreError):
            work(disk)
        assert disk.descriptor_count == 0, failures
        StoreLock(disk.other_process(), PATHS.lock).release()
        if disk.calls_count < disk.fails_at:
            break
        failures += 1
    assert failures > 1
