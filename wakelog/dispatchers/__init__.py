"""From one record of the commit log to every file derived from it.

Reput (`reput.py`) follows the log and hands what it finds to the built-in dispatchers, in the order
of this table. The order is also that of a real 4.9.3 broker.

    dispatcher      builds          why at this place
    consume_queue   consumequeue/   consumers wait for it; a message without it is invisible
    index           index/          nobody waits for it; a query by key may come a moment later

The bitmap filter of 4.9.3 will stand before the consume queue, whose extension units take its
result. Dispatchers of others (`plugins.py`) come from the entry-point group `wakelog.dispatchers`
and run apart, each with a cursor of its own: one that raises or hangs holds nobody.

Read in this order: `dispatcher`, `reput`, `log_cursor`, `read_ahead`, `consume_queue`,
`multi_dispatch`, `index`, `arrivals`, `plugins`, `rebuild`.
"""

from __future__ import annotations

from wakelog.dispatchers.consume_queue import ConsumeQueueDispatcher
from wakelog.dispatchers.dispatcher import CoreDispatcher
from wakelog.dispatchers.index import IndexDispatcher
from wakelog.storage.commit_log_reader import CommitLogReader
from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import FileSystem
from wakelog.storage.record_check import HEAD_BY_HOST_FLAGS, HOST_FLAGS, HOST_FLAGS_OFFSET

__all__ = ["core_dispatchers"]


def core_dispatchers(
    fs: FileSystem, config: StoreConfig, log: CommitLogReader, *, skip_segment: bool = False
) -> list[CoreDispatcher]:
    """Return the built-in dispatchers of a store, in order."""

    def store_time(physical_offset: int) -> int:
        head = log.read_span(physical_offset, HEAD_BY_HOST_FLAGS[HOST_FLAGS].size)
        if len(head) < HEAD_BY_HOST_FLAGS[HOST_FLAGS].size:
            return -1
        fields = HEAD_BY_HOST_FLAGS[head[HOST_FLAGS_OFFSET] & HOST_FLAGS].unpack_from(head)
        return int(fields[6])

    dispatchers: list[CoreDispatcher] = [
        ConsumeQueueDispatcher(fs, config, fill_gaps=not skip_segment)
    ]
    if config.message_index_enable:
        dispatchers.append(IndexDispatcher(fs, config, store_time))
    return dispatchers
