"""Tells whether two files begin with the same bytes: the quick way through most of a sound store.

A rebuild of a sound store gives the very bytes that the store has. Only where they differ it takes
looking at entries, and counting and naming what differs.

Invariants: two pieces are in memory, however long the files are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from wakelog.storage.file_system import FileSystem

# Whole consume queue entries, and two of them in a core's second-level cache.
PIECE_BYTES: Final = 20 << 13


def same_bytes(
    fs: FileSystem,
    one: str,
    other: str,
    length: int,
    look: Callable[[bytearray], None] | None = None,
) -> bool:
    """Compare the first `length` bytes of two files; a file that is shorter differs.

    look: gets each piece of equal bytes, good until it returns; none of the zeros at the end.
    Raises: OSError.
    """
    fds = [fs.open(one, read_only=True)]
    try:
        fds.append(fs.open(other, read_only=True))
        if min(map(fs.size, fds)) < length:
            return False
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
    finally:
        for fd in fds:
            fs.close(fd)
