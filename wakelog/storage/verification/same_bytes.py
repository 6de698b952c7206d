"""Tells whether two files begin with the same bytes: the quick way through most of a sound store.

A rebuild of a sound store gives the very bytes that the store has. Only where they differ it takes
looking at entries, and counting and naming what differs.

Invariants: two pieces are in memory, however long the files are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from wakelog.storage.file_system import FileSystem
from wakelog.storage.verification.scratch_files import ScratchFileSystem

# Whole consume queue entries, and two of them in a core's second-level cache.
PIECE_BYTES: Final = 20 << 13

Look = Callable[[bytearray], None]


def same_bytes(
    fs: FileSystem,
    one: str,
    other: str,
    length: int,
    look: Look | None = None,
) -> bool:
    """Compare the first `length` bytes of two files; a file that is shorter differs.

    look: gets each piece of equal bytes, good until it returns; none of the zeros at the end.
    Raises: OSError.
    """
    if isinstance(fs, ScratchFileSystem) and fs.is_as_twin(other, one, length):
        if look is not None:
            _look_through(fs, one, length, look)
        return True
    fds = [fs.open(one, read_only=True)]
    try:
        fds.append(fs.open(other, read_only=True))
        return min(map(fs.size, fds)) >= length and _begin_alike(fs, fds, length, look)
    finally:
        for fd in fds:
            fs.close(fd)


def _begin_alike(fs: FileSystem, fds: list[int], length: int, look: Look | None) -> bool:
    pieces = [bytearray(PIECE_BYTES) for _ in fds]
    for position in range(0, length, PIECE_BYTES):
        if all(fs.next_data(fd, position) is None for fd in fds):
            return True  # most of a queue's last file was never written
        if length - position < PIECE_BYTES:
            pieces = [bytearray(length - position) for _ in fds]
        for fd, piece in zip(fds, pieces, strict=True):
            if fs.pread_into(fd, piece, position) < len(piece):
                return False
        if pieces[0] != pieces[1]:
            return False
        if look is not None:
            look(pieces[0])
    return True


def _look_through(fs: FileSystem, path: str, length: int, look: Look) -> None:
    fd = fs.open(path, read_only=True)
    try:
        piece = bytearray(PIECE_BYTES)
        for position in range(0, length, PIECE_BYTES):
            if fs.next_data(fd, position) is None:
                return
            if length - position < PIECE_BYTES:
                piece = bytearray(length - position)
            fs.pread_into(fd, piece, position)
            look(piece)
    finally:
        fs.close(fd)
