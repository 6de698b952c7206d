"""The file of leases: a lease that was granted is there after a crash."""

from __future__ import annotations

import errno

import pytest

from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import NOW_MS
from wakelog.storage.errors import StoreFailed, StoreFull
from wakelog.storage.paths import StorePaths
from wakelog.storage.retention.leases import (
    LEASE_MS,
    LEASES_MAX,
    Lease,
    LeaseBook,
    read_leases,
    write_leases,
)

PATHS = StorePaths("/store")
LEASE = Lease("a", "spark", 1000, 2000, NOW_MS + LEASE_MS)


def write_text(fs: MemoryFileSystem, text: bytes) -> None:
    fd = fs.open(PATHS.leases, create=True)
    fs.pwrite(fd, text, 0)
    fs.close(fd)


def test_the_next_process_finds_what_was_granted(fs: MemoryFileSystem) -> None:
    book = LeaseBook(fs, PATHS, NOW_MS)
    assert book.grant("a", "spark", begin=1000, end=2000, now_ms=NOW_MS) == LEASE
    assert read_leases(fs, PATHS) == (LEASE,)
    later = LeaseBook(fs, PATHS, NOW_MS + 1)
    assert later.held_from == 1000 and not later.was_unreadable
    renewed = later.renew("a", NOW_MS + 5)
    assert renewed and read_leases(fs, PATHS) == (renewed,)
    assert later.end("a") and not later.end("a")
    assert fs.list_directory(PATHS.root) == []
    assert fs.descriptor_count == 0


@pytest.mark.parametrize("operation", ["open", "pwrite", "sync", "rename", "sync_directory"])
def test_a_lease_that_cannot_be_written_is_not_granted(
    fs: MemoryFileSystem, operation: str
) -> None:
    book = LeaseBook(fs, PATHS, NOW_MS)
    fs.fail(operation, number=errno.ENOSPC)
    with pytest.raises(StoreFull):
        book.grant("a", "spark", begin=1000, end=2000, now_ms=NOW_MS)
    assert book.held_from is None and fs.descriptor_count == 0
    assert book.grant("a", "spark", begin=1000, end=2000, now_ms=NOW_MS) == LEASE


def test_losses_and_expiries_are_written_by_save_changes(fs: MemoryFileSystem) -> None:
    book = LeaseBook(fs, PATHS, NOW_MS)
    book.grant("a", "spark", begin=1000, end=2000, now_ms=NOW_MS)
    book.grant("b", "spark", begin=3000, end=4000, now_ms=NOW_MS)
    assert [x.lease_id for x in book.lose_below(3000, "full")] == ["a"]
    fs.fail("pwrite", number=errno.ENOSPC)
    with pytest.raises(StoreFull):
        book.save_changes()
    assert book.lose_below(3000, "full") == [] and book.held_from == 3000
    book.save_changes()
    assert [x.lost for x in read_leases(fs, PATHS) or ()] == ["full", ""]
    writes = fs.calls["pwrite"]
    book.save_changes()
    assert fs.calls["pwrite"] == writes
    book.expire(NOW_MS + LEASE_MS)
    book.save_changes()
    assert read_leases(fs, PATHS) == ()


def test_save_changes_writes_what_a_failed_write_left(fs: MemoryFileSystem) -> None:
    book = LeaseBook(fs, PATHS, NOW_MS)
    fs.fail("sync_directory")  # the file has its name by then
    with pytest.raises(StoreFailed):
        book.grant("a", "spark", begin=1000, end=2000, now_ms=NOW_MS)
    assert read_leases(fs, PATHS) == (LEASE,)
    book.save_changes()
    assert read_leases(fs, PATHS) == ()


def test_a_second_expiry_forgets_no_unsaved_change(fs: MemoryFileSystem) -> None:
    book = LeaseBook(fs, PATHS, NOW_MS)
    book.grant("a", "spark", begin=1000, end=2000, now_ms=NOW_MS)
    book.expire(NOW_MS + LEASE_MS)
    book.expire(NOW_MS + LEASE_MS)
    book.save_changes()
    assert read_leases(fs, PATHS) == ()


def test_the_last_lease_ends_only_when_its_file_is_durably_gone(fs: MemoryFileSystem) -> None:
    book = LeaseBook(fs, PATHS, NOW_MS)
    book.grant("a", "spark", begin=1000, end=2000, now_ms=NOW_MS)
    fs.fail("sync_directory")
    with pytest.raises(StoreFailed):
        book.end("a")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\0\0",
        b"{}",
        b'{"version":2,"leases":[]}',
        b'{"version":1,"leases":[{}]}',
        b'{"version":1,"other":"\xff"}',
        b'{"leases":' * 50_000,
    ],
    ids=["empty", "zeros", "nothing", "later", "none", "no text", "deep"],
)
def test_a_text_that_cannot_be_read_holds_nothing(fs: MemoryFileSystem, text: bytes) -> None:
    write_text(fs, text)
    assert read_leases(fs, PATHS) is None
    book = LeaseBook(fs, PATHS, NOW_MS)
    assert book.was_unreadable and book.held_from is None


def test_a_read_error_is_raised(fs: MemoryFileSystem) -> None:
    write_leases(fs, PATHS, [LEASE])
    for operation in ("open", "pread"):
        fs.fail(operation)
        with pytest.raises(StoreFailed, match=r"read of /store/wakelog\.leases failed"):
            read_leases(fs, PATHS)


def test_the_most_leases_there_can_be_fit_into_the_file(fs: MemoryFileSystem) -> None:
    leases = [
        Lease(f"{i:032d}", "é" * 200, 1 << 60, 1 << 61, 1 << 60, "x" * 100)
        for i in range(2 * LEASES_MAX)
    ]
    write_leases(fs, PATHS, leases)
    assert read_leases(fs, PATHS) == tuple(leases)
