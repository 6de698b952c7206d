"""Puts rebuilt queues and index in the place of a store's own, which are kept.

    <root>/wakelog.quarantine/replaced.<milliseconds>/consumequeue  what was there
    <root>/wakelog.quarantine/replaced.<milliseconds>/consumequeue_ext
    <root>/wakelog.quarantine/replaced.<milliseconds>/index

Extension units go first and come last: entries may for a while lack the units that they point to,
and never point to those of others.

Each folder moves in two renames. A crash between them leaves the folder missing, and the next start
of a broker makes it from the log; nothing is lost either way.
"""

from __future__ import annotations

from collections.abc import Sequence
from posixpath import basename, dirname, join
from typing import Final, NamedTuple

from wakelog.storage.errors import store_failure
from wakelog.storage.file_system import FileSystem
from wakelog.storage.paths import QUARANTINE_NAME, StorePaths
from wakelog.storage.state.dispatched import lower_dispatched

REBUILD_NAME: Final = "wakelog.rebuild"
"""Where a rebuild lies until it is put in place: the root, so that a rename is enough."""


class Move(NamedTuple):
    """A rename that was done; the other way round undoes it."""

    source: str
    target: str


def swap_in(fs: FileSystem, paths: StorePaths, rebuilt: StorePaths, now_ms: int) -> list[Move]:
    """Keep the store's queues and index aside and put the rebuilt ones there, durably.

    Returns: the renames in order. Raises: StoreFailed, StoreFull.
    """
    lower_dispatched(fs, paths.dispatched, 0)  # it speaks of the files that go
    kept = join(paths.root, QUARANTINE_NAME, f"replaced.{now_ms}")
    moves = []
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
                moves.append(_move(fs, source, target))
    except OSError as error:
        raise store_failure(kept, "move", error) from error
    return moves


def undo(fs: FileSystem, moves: Sequence[Move]) -> None:
    """Do renames the other way round, the last first. Raises: StoreFailed, StoreFull."""
    for source, target in reversed(moves):
        try:
            _move(fs, target, source)
        except OSError as error:
            raise store_failure(target, "move", error) from error


def _move(fs: FileSystem, source: str, target: str) -> Move:
    fs.rename(source, target)
    fs.sync_directory(dirname(target))
    fs.sync_directory(dirname(source))
    return Move(source, target)
