"""Puts rebuilt queues and index in the place of a store's own, which are kept.

    <root>/wakelog.quarantine/replaced.<milliseconds>/consumequeue  what was there
    <root>/wakelog.quarantine/replaced.<milliseconds>/consumequeue_ext
    <root>/wakelog.quarantine/replaced.<milliseconds>/index

Extension units go first and come last: entries may for a while lack the units that they point to,
and never point to those of others.

Each folder moves in two renames. A crash between them leaves the folder missing, and the next start
of a broker makes it from the log; nothing is lost either way. Extension units alone no start makes
anew, so that a move that fails takes those before it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from posixpath import basename, dirname, join
from typing import Final, NamedTuple

from wakelog.storage.durability.dispatched import lower_dispatched
from wakelog.storage.errors import StoreError, store_failure
from wakelog.storage.file_system import FileSystem
from wakelog.storage.paths import QUARANTINE_NAME, StorePaths

REBUILD_NAME: Final = "wakelog.rebuild"
"""Where a rebuild lies until it is put in place: the root, so that a rename is enough."""


class Move(NamedTuple):
    """A rename that was done; the other way round undoes it."""

    source: str
    target: str


def swap_in(fs: FileSystem, paths: StorePaths, rebuilt: StorePaths, now_ms: int) -> list[Move]:
    """Keep the store's queues and index aside and put the rebuilt ones there, durably.

    One that fails is undone, as far as the disk lets it be.
    Returns: the renames in order. Raises: StoreFailed, StoreFull.
    """
    lower_dispatched(fs, paths.dispatched, 0)  # it speaks of the files that go
    kept = join(paths.root, QUARANTINE_NAME, f"replaced.{now_ms}")
    moves: list[Move] = []
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
    try:
        fs.make_directories(kept)
        for source, target in wanted:
            if fs.exists(source):
                fs.rename(source, target)
                moves.append(Move(source, target))
                _sync_names(fs, moves[-1])
    except OSError as error:
        with suppress(StoreError):
            undo(fs, moves)
        raise store_failure(kept, "move", error) from error
    return moves


def undo(fs: FileSystem, moves: Sequence[Move]) -> None:
    """Do renames the other way round, the last first. Raises: StoreFailed, StoreFull."""
    for source, target in reversed(moves):
        try:
            fs.rename(target, source)
            _sync_names(fs, Move(target, source))
        except OSError as error:
            raise store_failure(target, "move", error) from error


def _sync_names(fs: FileSystem, move: Move) -> None:
    fs.sync_directory(dirname(move.target))
    fs.sync_directory(dirname(move.source))
