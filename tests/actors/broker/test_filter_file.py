"""The filters that dispatch gets: all of them at once, or none."""

import errno

import pytest

from tests.broker.harness import sql_subscription
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.actors.broker.filter_file import FilterPublisher
from wakelog.dispatchers.filter_bitmap import FilterFile
from wakelog.filter.bloom import BloomFilter
from wakelog.filter.consumer_filters import ConsumerFilters
from wakelog.storage.paths import StorePaths

PATHS = StorePaths("/store")


@pytest.fixture
def fs() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.make_directories("/store")
    return fs


@pytest.fixture
def filters() -> ConsumerFilters:
    return ConsumerFilters(BloomFilter(error_percent=20, names_count=32), 0, dead_ms_max=1)


def register(filters: ConsumerFilters, group: str) -> None:
    filters.register(group, [sql_subscription("a > 1")], 5)


def reported(fs: MemoryFileSystem) -> int | None:
    table = FilterFile(fs, PATHS.filters)()
    return None if table is None else len(table)


def test_changes_are_published_and_nothing_else(
    fs: MemoryFileSystem, filters: ConsumerFilters
) -> None:
    publisher = FilterPublisher(fs, PATHS, 7, filters)
    publisher.publish()
    assert reported(fs) == 0
    reader = FilterFile(fs, PATHS.filters)
    for group, count in (("g", 1), ("h", 2), ("h", 2)):
        register(filters, group)
        publisher.publish()
        table = reader()
        assert table is not None and len(table) == count
    filters.register("g", [], 9)
    publisher.publish()
    publisher.retry()
    assert publisher.published_count == 3
    assert fs.list_directory("/store") == ["wakelog.filters"]
    publisher.remove()
    publisher.remove()
    assert reported(fs) is None


def test_another_broker_s_table_is_another(fs: MemoryFileSystem, filters: ConsumerFilters) -> None:
    FilterPublisher(fs, PATHS, 7, filters).publish()
    reader = FilterFile(fs, PATHS.filters)
    first = reader()
    FilterPublisher(fs, PATHS, 8, filters).publish()
    assert reader() is not first


@pytest.mark.parametrize("operation", ["open", "pwrite", "rename"])
def test_filters_that_cannot_be_written_leave_no_file(
    fs: MemoryFileSystem, filters: ConsumerFilters, operation: str
) -> None:
    publisher = FilterPublisher(fs, PATHS, 7, filters)
    publisher.publish()
    register(filters, "g")
    fs.fail(operation, number=errno.ENOSPC)
    publisher.publish()
    assert reported(fs) is None
    publisher.publish()  # a turn does not try again, a tick does
    assert reported(fs) is None
    publisher.retry()
    assert reported(fs) == 1


def test_a_file_that_cannot_be_removed_is_logged(
    fs: MemoryFileSystem, filters: ConsumerFilters
) -> None:
    publisher = FilterPublisher(fs, PATHS, 7, filters)
    publisher.publish()
    fs.fail("unlink")
    publisher.remove()
    assert reported(fs) == 0


def test_what_was_written_again_is_not_written_once_more(
    fs: MemoryFileSystem, filters: ConsumerFilters
) -> None:
    publisher = FilterPublisher(fs, PATHS, 7, filters)
    fs.fail("rename", number=errno.ENOSPC)
    publisher.publish()
    publisher.retry()
    assert (reported(fs), publisher.published_count) == (0, 2)
    publisher.retry()
    assert publisher.published_count == 2
