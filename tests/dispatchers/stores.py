"""What tests of this folder share: a small store in memory and batches of its log."""

from typing import Any

from tests.fakes.logs import read_file, small_config
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.records import LogBytes
from wakelog.compiled.columns import ScanFunctions
from wakelog.dispatchers.dispatcher import DispatchBatch
from wakelog.storage.columns.scan_columns import Columns
from wakelog.storage.config import StoreConfig
from wakelog.storage.log.scan import scan_plain
from wakelog.storage.queue.entries import ENTRY

NOW_MS = 1_700_000_000_000


def dispatch_config(**values: Any) -> StoreConfig:
    return small_config(**{"index_slot_count": 20, "index_entry_count": 50} | values)


def batch_of(
    log: LogBytes, functions: ScanFunctions | None = None, *, begin: int = 0, caught_up: bool = True
) -> DispatchBatch:
    """Return the records of a log of one segment, from offset `begin` on, in either form."""
    if functions is None:
        data = bytes(log.data[begin : log.end])
        requests = scan_plain(data, begin, log.segment_bytes, (1000,)).requests
        return DispatchBatch(begin, log.end, NOW_MS, requests=requests, caught_up=caught_up)
    columns = Columns(functions, (1000,), buffer_bytes=log.segment_bytes, records_max=256)
    columns.buffer[: log.end] = log.data
    columns.scan(begin=begin, end=log.end, physical_offset=begin, segment_end=log.segment_bytes)
    return DispatchBatch(begin, log.end, NOW_MS, columns=columns, caught_up=caught_up)


def queue_entries(
    fs: MemoryFileSystem, config: StoreConfig, topic: str, queue_id: int = 0
) -> list[tuple[int, int, int]]:
    """Return the written entries of a queue."""
    directory = config.paths.consume_queue(topic, queue_id)
    names = fs.list_directory(directory) if fs.exists(directory) else []
    data = b"".join(read_file(fs, f"{directory}/{name}") for name in names)
    return [entry for entry in ENTRY.iter_unpack(data) if entry[1]]
