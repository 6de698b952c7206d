"""Replaces a store's queues and index by rebuilt ones, and keeps the old ones.

    <root>/wakelog.rebuild/                                         where the rebuild is made
    <root>/wakelog.quarantine/replaced.<milliseconds>/consumequeue  the old files
    <root>/wakelog.quarantine/replaced.<milliseconds>/consumequeue_ext
    <root>/wakelog.quarantine/replaced.<milliseconds>/index

Extension units leave first and arrive last. Entries may lack their units for a while, and never
point to the units of other entries.

Each folder moves in two renames. A crash between them leaves the folder missing, and the next start
of a broker makes it from the log. No start makes extension units alone, so a move that fails
undoes the moves before it.
"""

import os
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from posixpath import basename, dirname, join
from typing import Final

from wakelog.audit.operator import SILENT, AuditRefused, Move, Operator
from wakelog.audit.rebuild import LogReport, now_ms, rebuild_into
from wakelog.audit.store_files import refuse_links
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.dispatched import lower_dispatched
from wakelog.storage.durability.store_lock import StoreLock
from wakelog.storage.errors import StoreError, store_failure
from wakelog.storage.file_system import FileSystem
from wakelog.storage.paths import QUARANTINE_NAME, StorePaths

REBUILD_NAME: Final = "wakelog.rebuild"
"""In the store's root, so that a rename can move it into place."""


def rebuild_store(config: StoreConfig, operator: Operator = SILENT) -> LogReport:
    """Replace the queues and index of a store. Raises: StoreLocked, AuditRefused, StoreError."""
    fs = FileSystem()
    lock = StoreLock(fs, config.paths.lock)
    try:
        refuse_links(fs, config)
        return rebuild_in_place(fs, config, operator)
    finally:
        lock.release()


def rebuild_in_place(fs: FileSystem, config: StoreConfig, operator: Operator) -> LogReport:
    """Do the work of `rebuild_store` under a lock that the caller holds."""
    rebuilt = rebuild_paths(config)
    try:
        report = rebuild_into(config, rebuilt.root, operator=operator)
        # Half of the renames would be hard to explain; unreported ones would be hard to undo.
        with operator.uninterrupted():
            operator.report_moves(swap_in(fs, config.paths, rebuilt, now_ms()))
    finally:
        shutil.rmtree(rebuilt.root, ignore_errors=True)
    return report


def rebuild_paths(config: StoreConfig) -> StorePaths:
    """Return the paths of a rebuild inside the store; removes one that was killed."""
    target = join(config.paths.root, REBUILD_NAME)
    if os.path.islink(target) or os.path.isfile(target):
        raise AuditRefused(f"{target} is no folder", "remove it, or give a new folder with --into")
    shutil.rmtree(target, ignore_errors=True)
    return StorePaths(target)


def swap_in(fs: FileSystem, paths: StorePaths, rebuilt: StorePaths, time_ms: int) -> list[Move]:
    """Move the store's queues and index aside and the rebuilt ones in, durably.

    A failed swap is undone as far as the disk allows.
    Returns: the renames in order. Raises: StoreFailed, StoreFull.
    """
    lower_dispatched(fs, paths.dispatched, 0)  # it describes the files that leave
    kept = join(paths.root, QUARANTINE_NAME, f"replaced.{time_ms}")
    units, queues = paths.consume_queue_extension_root, paths.consume_queue_root
    index = paths.index_directory
    wanted = (
        (units, join(kept, basename(units))),
        (queues, join(kept, basename(queues))),
        (rebuilt.consume_queue_root, queues),
        (rebuilt.consume_queue_extension_root, units),
        (index, join(kept, basename(index))),
        (rebuilt.index_directory, index),
    )
    return move_in_order(fs, wanted)


def move_in_order(fs: FileSystem, wanted: Iterable[tuple[str, str]]) -> list[Move]:
    """Rename what is there of the sources, durably and one after the other.

    A failure undoes the moves before it as far as the disk allows.
    Returns: the renames in order. Raises: StoreFailed, StoreFull.
    """
    moves: list[Move] = []
    for source, target in wanted:
        try:
            if fs.exists(source):
                fs.make_directories(dirname(target))
                fs.rename(source, target)
                moves.append(Move(source, target))
                _sync_names(fs, moves[-1])
        except OSError as error:
            with suppress(StoreError):
                undo(fs, moves)
            raise store_failure(target, "move", error) from error
    return moves


def undo(fs: FileSystem, moves: Sequence[Move]) -> None:
    """Do the reverse renames, the last first. Raises: StoreFailed, StoreFull."""
    for source, target in reversed(moves):
        try:
            fs.rename(target, source)
            _sync_names(fs, Move(target, source))
        except OSError as error:
            raise store_failure(target, "move", error) from error


def _sync_names(fs: FileSystem, move: Move) -> None:
    fs.sync_directory(dirname(move.target))
    fs.sync_directory(dirname(move.source))
