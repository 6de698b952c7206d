"""Sets a replica's log aside, so that the replica gets it again from its master.

    <root>/wakelog.quarantine/reseeded.<milliseconds>/    what was made of the log, and the log
    <folder of a log>/wakelog.quarantine/reseeded.<milliseconds>/    of a log outside the root

It is for a replica whose log was cut, lost or is another one: it follows no more. The tables in
`config/` stay, and so does the store's identity. The log goes last: a crash before that leaves a
store whose queues the next start makes again, and the command can be repeated.

Nothing is removed. What only this replica has can be read there with `wakelog log dump`.
"""

from collections.abc import Iterator
from posixpath import basename, dirname, join

from wakelog.audit.operator import SILENT, Move, Operator
from wakelog.audit.rebuild import now_ms
from wakelog.audit.replacement import move_in_order
from wakelog.audit.store_files import refuse_links
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.store_lock import StoreLock
from wakelog.storage.file_system import FileSystem
from wakelog.storage.paths import QUARANTINE_NAME, StorePaths


def set_log_aside(config: StoreConfig, operator: Operator = SILENT) -> list[Move]:
    """Move the log of a stopped broker aside, and all that was made of it.

    Durable on return. Raises: StoreLocked, AuditRefused, StoreError.
    """
    fs = FileSystem()
    lock = StoreLock(fs, config.paths.lock)
    try:
        refuse_links(fs, config)
        # Half of the renames would be hard to explain; unreported ones would be hard to undo.
        with operator.uninterrupted():
            name = f"reseeded.{now_ms()}"
            moves = move_in_order(
                fs,
                [
                    (path, join(dirname(path), QUARANTINE_NAME, name, basename(path)))
                    for path in _made_of_the_log(fs, config.paths)
                ],
            )
            operator.report_moves(moves)
    finally:
        lock.release()
    return moves


def _made_of_the_log(fs: FileSystem, paths: StorePaths) -> Iterator[str]:
    """Yield the folders and files that describe the log, and last the log's own folders."""
    yield paths.consume_queue_extension_root
    yield paths.consume_queue_root
    yield paths.index_directory
    yield paths.sums_directory
    yield paths.side_files_directory
    for name in sorted(fs.list_directory(paths.root)):
        path = join(paths.root, name)
        is_own = name.startswith("wakelog.") and path != paths.store_identity
        if is_own and fs.is_file(path):
            yield path  # how far the log is durable, dispatched, deleted, leased, and its epochs
    yield paths.checkpoint
    yield paths.abort
    yield from paths.commit_log_directories
