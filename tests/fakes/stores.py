"""Whole small stores for tests: open one, fill it, dispatch it as Reput would, in plain steps."""

from collections.abc import Sequence
from typing import Any

from tests.fakes.logs import draft, small_config
from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import FileSystem
from wakelog.storage.index.index_writer import IndexWriter
from wakelog.storage.log.allocate import make_segment
from wakelog.storage.log.append import PutResult
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.log.dispatch_request import DispatchRequest
from wakelog.storage.log.mapped_file import OpenFiles
from wakelog.storage.log.queue_offsets import QueueKey
from wakelog.storage.log.record_check import CheckKind
from wakelog.storage.log.scan import scan_plain
from wakelog.storage.message_store import MessageStore
from wakelog.storage.queue.consume_queue_writer import ConsumeQueueWriter
from wakelog.storage.store_parts import OpenOptions

MEMORY_BYTES = 1 << 30
NOW_MS = 1_700_000_000_000


def open_store(
    fs: FileSystem,
    config: StoreConfig,
    *,
    now_ms: int = NOW_MS,
    physical_memory_bytes: int = MEMORY_BYTES,
    **options: Any,
) -> MessageStore:
    """Open a store on a machine with 1 GiB of memory."""
    return MessageStore.open(
        fs,
        config,
        now_ms,
        physical_memory_bytes=physical_memory_bytes,
        options=OpenOptions(**options),
    )


def store_config(**values: Any) -> StoreConfig:
    """Return a configuration of small files, index included."""
    return small_config(**{"index_slot_count": 20, "index_entry_count": 100} | values)


def put(
    store: MessageStore, *bodies: bytes, now_ms: int = NOW_MS, **values: Any
) -> list[PutResult]:
    """Put one message for each body and write them."""
    results = [store.put_message(draft(body, **values), now_ms) for body in bodies]
    store.write_pending()
    return results


def dispatch(store: MessageStore, fs: FileSystem, begin: int | None = None) -> None:
    """Make the queue entries and index keys of the log from `begin` on, and say so to the store."""
    end = store.max_physical_offset
    begin = store.recovery.dispatch_from if begin is None else begin
    requests = scan_log(fs, store.config, begin, end)
    write_queues(fs, store.config, requests)
    index = IndexWriter(fs, store.config)
    index.load()
    for request in requests:
        index.put(request, NOW_MS)
    index.write_back()
    index.close()
    store.set_dispatched(end)


def place_of(store: MessageStore, topic: str, queue_id: int, queue_offset: int) -> int:
    """Return where a queue's message lies in the log, 0 if there is none."""
    entries = store.consume_queue_entries(topic, queue_id, queue_offset, 1)
    return entries[0].physical_offset if entries else 0


def scan_log(fs: FileSystem, config: StoreConfig, begin: int, end: int) -> list[DispatchRequest]:
    """Return the records of [begin, end), segment after segment."""
    log = CommitLogReader(fs, config)
    requests: list[DispatchRequest] = []
    try:
        while begin < end:
            segment_end = log.segment_end(begin)
            data = log.read_span(begin, min(end, segment_end) - begin)
            scan = scan_plain(data, begin, segment_end, ())
            requests += scan.requests
            stopped_by = scan.stopped_by
            assert stopped_by is None or stopped_by.kind is CheckKind.END_OF_FILE, stopped_by
            begin = segment_end if stopped_by is not None else scan.next_physical_offset
    finally:
        log.close()
    return requests


def write_queues(fs: FileSystem, config: StoreConfig, requests: Sequence[DispatchRequest]) -> None:
    """Append the entries of `requests` to their queues."""
    for key in sorted({(request.topic, request.queue_id) for request in requests}):
        writer = open_queue_writer(fs, config, key)
        for request in requests:
            if (request.topic, request.queue_id) == key:
                writer.put(
                    request.physical_offset,
                    request.size_bytes,
                    request.tags_code,
                    request.queue_offset,
                )
        writer.write_pending()
        writer.close()


def remove_queue_files(
    fs: FileSystem, config: StoreConfig, key: QueueKey, min_physical_offset: int
) -> int:
    """Remove a queue's files below the log's begin, as its writer does; return how many."""
    writer = open_queue_writer(fs, config, key)
    removed_count = writer.remove_files_before(min_physical_offset)
    writer.close()
    return removed_count


def open_queue_writer(fs: FileSystem, config: StoreConfig, key: QueueKey) -> ConsumeQueueWriter:
    """Open one queue for writing."""

    def make_file(path: str, size_bytes: int) -> None:
        make_segment(fs, path, size_bytes, temporary_path=config.paths.new_file(path, "test"))

    writer = ConsumeQueueWriter(
        fs,
        config.paths.consume_queue(*key),
        file_bytes=config.consume_queue_bytes,
        open_files=OpenFiles(),
        make_file=make_file,
    )
    writer.recover()
    return writer
