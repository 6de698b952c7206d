"""Bitmaps are of the filters that the Broker's file holds when a batch is dispatched."""

import pytest

from tests.broker.harness import sql_subscription
from tests.dispatchers.stores import batch_of, dispatch_config, queue_entries
from tests.fakes.logs import write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.records import LogBytes, properties
from tests.filter.bits import bitmap_of
from wakelog.compiled.columns import ScanFunctions
from wakelog.dispatchers import core_dispatchers
from wakelog.dispatchers.filter_bitmap import VERSION, FilterBitmap, FilterFile
from wakelog.dispatchers.sync_files import sync_files
from wakelog.filter.bloom import BloomFilter
from wakelog.filter.consumer_filters import ConsumerFilters
from wakelog.filter.filter_table import decode_filters, encode_filters
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.deleted_topics import QueueRemoval
from wakelog.storage.errors import StoreFailed
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.log.mapped_file import OpenFiles
from wakelog.storage.queue.consume_queue_ext import ConsumeQueueExt

PATH = "/store/wakelog.filters"
BLOOM = BloomFilter(error_percent=20, names_count=32)
CONFIG = dispatch_config(
    enable_consume_queue_extension=True, consume_queue_extension_file_bytes=1024
)


def table(**expressions: str) -> bytes:
    """Return the bytes of filters on topic T by group."""
    filters = ConsumerFilters(BLOOM, 0, dead_ms_max=1)
    for group, expression in expressions.items():
        filters.register(group, [sql_subscription(expression)], 5)
    return encode_filters(filters.all(), BLOOM.bit_count)


def write(fs: MemoryFileSystem, version: int, data: bytes) -> None:
    write_file(fs, PATH, VERSION.pack(9, version) + data)


def bits(*groups: str) -> bytes:
    return bitmap_of(BLOOM.positions(f"{group}#T") for group in groups)


def log_of_colours() -> LogBytes:
    log = LogBytes()
    for i, colour in enumerate(("red", "blue", "green")):
        log.add(properties(colour=colour, TAGS="t"), queue_offset=i, store_timestamp_ms=100 + i)
    log.add(topic="Other")
    return log


def test_each_message_is_tried_against_the_filters_of_its_topic(
    fs: MemoryFileSystem, functions: ScanFunctions | None
) -> None:
    write(fs, 1, table(r="colour = 'red'", n="colour <> 'red'", all="TRUE", bad="colour > 1"))
    batch = batch_of(log_of_colours(), functions)
    dispatcher = FilterBitmap(FilterFile(fs, PATH))
    dispatcher.dispatch(batch)
    assert batch.bitmaps == [bits("r", "all"), bits("n", "all"), bits("n", "all"), b""]
    assert dispatcher.statistics() == {"bitmaps_count": 3}


@pytest.mark.parametrize(
    "data",
    [None, b"", b"no table", b"\x91" * 50_000, encode_filters([], 112)],
    ids=["absent", "empty", "no table", "deep", "no filters"],
)
def test_without_filters_there_are_no_bitmaps(fs: MemoryFileSystem, data: bytes | None) -> None:
    if data is not None:
        write(fs, 1, data)
    batch = batch_of(log_of_colours())
    FilterBitmap(FilterFile(fs, PATH)).dispatch(batch)
    assert batch.bitmaps is None


def test_a_file_is_read_again_when_its_version_is_another(fs: MemoryFileSystem) -> None:
    source = FilterFile(fs, PATH)
    assert source() is None
    write(fs, 1, table(g="TRUE"))
    first = source()
    assert first is not None and len(first) == 1
    assert source() is first
    write(fs, 2, table(g="TRUE", h="FALSE"))
    second = source()
    assert second is not None and len(second) == 2
    fs.unlink(PATH)
    assert source() is None
    write(fs, 2, table(g="TRUE"))
    third = source()
    assert third is not None and len(third) == 1
    assert fs.descriptor_count == 0


@pytest.mark.parametrize("operation", ["open", "pread"])
def test_a_file_that_cannot_be_read_stops_dispatch(fs: MemoryFileSystem, operation: str) -> None:
    write(fs, 1, table(g="TRUE"))
    source = FilterFile(fs, PATH)
    fs.fail(operation)
    with pytest.raises(StoreFailed):
        source()
    assert len(source() or ()) == 1
    assert fs.descriptor_count == 0


def dispatch(fs: MemoryFileSystem, config: StoreConfig, functions: ScanFunctions | None) -> None:
    log = CommitLogReader(fs, config)
    dispatchers = core_dispatchers(fs, config, log, filters=FilterFile(fs, PATH))
    batch = batch_of(log_of_colours(), functions)
    for dispatcher in dispatchers:
        dispatcher.dispatch(batch)
        assert dispatcher.remove_before(0) == 0
        sync_files(fs, dispatcher.prepare_flush().paths)
        dispatcher.close()


def test_the_queue_s_units_have_the_bitmaps(
    fs: MemoryFileSystem, functions: ScanFunctions | None
) -> None:
    write(fs, 1, table(r="colour = 'red'"))
    dispatch(fs, CONFIG, functions)
    ext = ConsumeQueueExt(
        fs,
        CONFIG.paths.consume_queue_extension("T", 0),
        file_bytes=1024,
        open_files=OpenFiles(2),
    )
    found = [ext.unit(tags_code) for _, _, tags_code in queue_entries(fs, CONFIG, "T")]
    assert [unit and (unit.store_timestamp_ms, unit.bitmap) for unit in found] == [
        (100, bits("r")),
        (101, bits()),
        (102, bits()),
    ]
    assert {unit and unit.tags_code for unit in found} == {ord("t")}


def test_without_units_nothing_is_tried(
    fs: MemoryFileSystem, functions: ScanFunctions | None
) -> None:
    write(fs, 1, table(r="colour = 'red'"))
    dispatch(fs, dispatch_config(), functions)
    assert [tags for _, _, tags in queue_entries(fs, CONFIG, "T")] == [ord("t")] * 3
    assert not fs.exists("/store/consumequeue_ext")


def test_it_delays_no_other_actor() -> None:
    dispatcher = FilterBitmap(lambda: decode_filters(table(g="TRUE")))
    assert dispatcher.recover(77) == dispatcher.truncate(77) == 77
    assert dispatcher.prepare_flush().paths == []
    assert dispatcher.remove_before(5) == dispatcher.remove_queues(QueueRemoval((), (), 0)) == 0
