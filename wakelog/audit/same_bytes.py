"""Compares the first bytes of two files: the fast check for most files of a sound store.

A rebuild of a sound store gives the same bytes. Only files that differ are compared by entries.

Invariants: two pieces are in memory, for files of any length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final

from wakelog.audit.scratch_files import ScratchFileSystem
from wakelog.storage.file_system import FileSystem, naming, reading, size_of

# Whole consume queue entries, and two of them in a core's second-level cache.
PIECE_BYTES: Final = 20 << 13

UsePiece = Callable[[bytearray], None]


def same_bytes(
    fs: FileSystem,
    one: str,
    other: str,
    length: int,
    use_piece: UsePiece | None = None,
) -> bool:
    """Return whether the first `length` bytes of two files are equal; a shorter file differs.

    use_piece: gets each piece of equal bytes, but no trailing zeros. The piece is reused.
    Raises: OSError.
    """
    if isinstance(fs, ScratchFileSystem) and fs.is_as_twin(other, one, length):
        if use_piece is not None:
            _begin_alike(fs, (one,), length, use_piece)
        return True
    if min(size_of(fs, path) for path in (one, other)) < length:
        return False
    return _begin_alike(fs, (one, other), length, use_piece)


def _begin_alike(
    fs: FileSystem, paths: Sequence[str], length: int, use_piece: UsePiece | None
) -> bool:
    """Compare the first bytes of files; those of a single file are only passed on."""
    with ExitStack() as stack:
        files = [(path, stack.enter_context(reading(fs, path))) for path in paths]
        pieces = [bytearray(PIECE_BYTES) for _ in files]
        for position in range(0, length, PIECE_BYTES):
            if not any(_has_data(fs, path, fd, position) for path, fd in files):
                return True  # most of a queue's last file was never written
            if length - position < PIECE_BYTES:
                pieces = [bytearray(length - position) for _ in files]
            for (path, fd), piece in zip(files, pieces, strict=True):
                with naming(path):
                    if fs.pread_into(fd, piece, position) < len(piece):
                        return False
            if pieces[0] != pieces[-1]:
                return False
            if use_piece is not None:
                use_piece(pieces[0])
        return True


def _has_data(fs: FileSystem, path: str, fd: int, position: int) -> bool:
    with naming(path):
        return fs.next_data(fd, position) is not None
