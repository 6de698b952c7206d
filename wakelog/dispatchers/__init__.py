"""From one record of the commit log to every file derived from it.

Reput (`reput.py`) follows the log. It hands records to the built-in dispatchers, in the order of
this table, which is also that of a real 4.9.3 broker.

    dispatcher      builds          why in this place
    filter_bitmap   -               the consume queue's extension units contain its result
    consume_queue   consumequeue/   consumers wait for it; a message without it is invisible
                    consumequeue_ext/
    index           index/          a query by key may come a moment later

A flood of keys lets the index fall behind the queues; `lagging_dispatcher.py` lets it catch up.

Plug-ins (`plugins.py`) come from the entry-point group `wakelog.dispatchers`. Each has a cursor of
its own, so that one that raises or hangs delays no other. With `parquetDispatcher`, wakelog's own
`wakelog/spark/side_files` runs in the same way and writes Parquet files.

Read in this order: `dispatcher`, `reput`, `log_cursor`, `read_ahead`, `lagging_dispatcher`,
`filter_bitmap`, `consume_queue`, `queue_entries`, `index`, `sync_files`, `arrivals`, `plugins`,
`cursor_file`.
"""

from wakelog.dispatchers.consume_queue import ConsumeQueueDispatcher
from wakelog.dispatchers.dispatcher import CoreDispatcher
from wakelog.dispatchers.filter_bitmap import FilterBitmap, FilterSource
from wakelog.dispatchers.index import IndexDispatcher
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.deleted_topics import DeletedTopics
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.commit_log_reader import CommitLogReader

__all__ = ["core_dispatchers"]


def core_dispatchers(
    fs: FileSystem,
    config: StoreConfig,
    log: CommitLogReader,
    *,
    skip_segment: bool = False,
    filters: FilterSource | None = None,
    deleted: DeletedTopics | None = None,
    has_process: bool = False,
) -> list[CoreDispatcher]:
    """Return the built-in dispatchers of a store, in order.

    filters: the filters for bitmaps (enableCalcFilterBitMap); None for no bitmaps.
    deleted: the deleted topics, by default those of this store.
    has_process: whether they have a process of their own; see `ConsumeQueueDispatcher`.
    """
    dispatchers: list[CoreDispatcher] = []
    if filters is not None and config.enable_consume_queue_extension:
        dispatchers.append(FilterBitmap(filters))
    dispatchers.append(
        ConsumeQueueDispatcher(
            fs, config, fill_gaps=not skip_segment, deleted=deleted, has_process=has_process
        )
    )
    if config.message_index_enable:
        dispatchers.append(IndexDispatcher(fs, config, log.store_time))
    return dispatchers
