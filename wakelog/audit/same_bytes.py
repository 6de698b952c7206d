"""Compares the first bytes of two files: the fast check for most files of a sound store.

A rebuild of a sound store gives the same bytes. Only files that differ are compared by entries.
"""

from wakelog.audit.scratch_files import ScratchFileSystem, UsePiece, is_same_span
from wakelog.storage.file_system import FileSystem, reading, size_of


def same_bytes(
    fs: FileSystem, one: str, other: str, length: int, use_piece: UsePiece | None = None
) -> bool:
    """Return whether the first `length` bytes of two files are equal; a shorter file differs.

    use_piece: gets each piece of equal bytes, but no trailing zeros. The piece is reused.
    Raises: OSError.
    """
    if isinstance(fs, ScratchFileSystem) and fs.equals_original(other, one, length):
        if use_piece is not None:
            with reading(fs, one) as fd:
                is_same_span(fs, {one: fd}, 0, length, use_piece)
        return True
    if min(size_of(fs, path) for path in (one, other)) < length:
        return False
    with reading(fs, one) as fd, reading(fs, other) as other_fd:
        return is_same_span(fs, {one: fd, other: other_fd}, 0, length, use_piece)
