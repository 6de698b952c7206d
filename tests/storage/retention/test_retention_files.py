"""Looking at a store for Retention, and removing what it chose."""

from __future__ import annotations

import errno

import pytest

from tests.fakes.logs import write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import store_config
from wakelog.storage.errors import StoreFailed
from wakelog.storage.file_system import DiskUsage
from wakelog.storage.retention.retention import Segment
from wakelog.storage.retention.retention_files import (
    look_at_store,
    remove_segment,
    retention_segments,
)

BYTES = 4096
CONFIG = store_config()


@pytest.fixture
def fs() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    for i in range(3):
        write_file(fs, path(i), bytes(BYTES))
        fs.set_modified_ms(path(i), 1000 + i)
    return fs


def path(number: int) -> str:
    return f"/store/commitlog/{number * BYTES:020d}"


def test_a_look_lists_segments_and_disks(fs: MemoryFileSystem) -> None:
    files = retention_segments(fs, CONFIG)
    look = look_at_store(fs, CONFIG, files, hour=4, appended=9000, dispatched=8000)
    assert look.segments == [Segment(i * BYTES, (i + 1) * BYTES, 1000 + i) for i in range(3)]
    assert look.log_usages == [fs.usage]
    assert (look.hour, look.appended, look.dispatched) == (4, 9000, 8000)
    write_file(fs, path(3), bytes(BYTES))
    again = look_at_store(fs, CONFIG, files, hour=4, appended=9000, dispatched=8000)
    assert len(again.segments) == 4


class SilentDisk(MemoryFileSystem):
    """A disk whose usage cannot be asked."""

    def disk_usage(self, path: str) -> DiskUsage:
        raise OSError(errno.EIO, "no answer", path)


def test_a_disk_that_does_not_answer_is_unknown() -> None:
    fs = SilentDisk()
    files = retention_segments(fs, CONFIG)
    look = look_at_store(fs, CONFIG, files, hour=4, appended=0, dispatched=0)
    assert (look.segments, look.log_usages, look.queue_usage) == ([], [None], None)


def test_only_the_oldest_segment_is_removed(fs: MemoryFileSystem) -> None:
    files = retention_segments(fs, CONFIG)
    files.refresh()
    assert remove_segment(files, BYTES) is None
    assert remove_segment(files, 0) == path(0)
    assert remove_segment(files, 0) is None
    assert not fs.exists(path(0)) and fs.exists(path(1))


def test_a_refused_removal_is_told(fs: MemoryFileSystem) -> None:
    files = retention_segments(fs, CONFIG)
    files.refresh()
    fs.fail("unlink", number=errno.EACCES)
    with pytest.raises(StoreFailed):
        remove_segment(files, 0)
