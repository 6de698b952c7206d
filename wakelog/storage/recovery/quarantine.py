"""Copy what recovery cuts from the log to a folder, so that a wrong cut can be undone by hand.

    <root>/wakelog.quarantine/<20 digits>.<milliseconds>        one file for each segment cut
    <root>/wakelog.quarantine/<20 digits>.<milliseconds>.pool   from a dead broker's transient pool

The digits are the physical offset of the file's first byte, the milliseconds the time of the
recovery. A file ends with the last byte that is not zero. Blocks of zeros become holes, so the copy
takes only the disk space of what was written. The broker never reads these files; an operator may
delete the folder.

Source: none upstream.
"""

from collections.abc import Sequence
from contextlib import suppress
from posixpath import join
from typing import Final, NamedTuple

from wakelog.storage.errors import store_errors, store_failure
from wakelog.storage.file_system import FileSystem, names_in, size_of
from wakelog.storage.log.mapped_file import MappedFile
from wakelog.storage.paths import QUARANTINE_NAME, offset_name

# Zeros are found and left out in blocks of this size.
BLOCK_BYTES: Final = 64 * 1024
MEASURED_NAMES_MAX: Final = 1_000
_ZEROS: Final = bytes(BLOCK_BYTES)


class QuarantinedPiece(NamedTuple):
    """Bytes that recovery cut from the log, and the file that has them."""

    physical_offset: int
    size_bytes: int
    path: str


class Quarantined(NamedTuple):
    """What a quarantine has, up to `MEASURED_NAMES_MAX` files and folders."""

    files: int
    size_bytes: int


def measure_quarantine(fs: FileSystem, root: str) -> Quarantined:
    """Return how much is kept aside of a store. Raises: StoreFailed, OSError."""
    paths, files, size_bytes = [join(root, QUARANTINE_NAME)], 0, 0
    for _ in range(MEASURED_NAMES_MAX):
        if not paths:
            break
        path = paths.pop()
        if fs.is_file(path):
            with suppress(FileNotFoundError):  # an operator may remove any of them
                size_bytes += size_of(fs, path)
                files += 1
        else:
            paths += [join(path, name) for name in names_in(fs, path)]
    return Quarantined(files, size_bytes)


def copy_to_quarantine(
    fs: FileSystem,
    root: str,
    files: Sequence[MappedFile],
    physical_offset: int,
    now_ms: int,
    *,
    suffix: str = "",
) -> tuple[QuarantinedPiece, ...]:
    """Copy the bytes of `files` from `physical_offset` on, durably; skip files of zeros.

    Raises: StoreFull when there is no room for the copy; then nothing may be cut. StoreFailed.
    """
    directory = join(root, QUARANTINE_NAME)
    pieces = []
    for file in files:
        if file.end_offset > physical_offset:
            begin = max(physical_offset - file.start_offset, 0)
            path = join(directory, f"{offset_name(file.start_offset + begin)}.{now_ms}{suffix}")
            size_bytes = _copy_written(fs, file, begin, path)
            if size_bytes:
                pieces.append(QuarantinedPiece(file.start_offset + begin, size_bytes, path))
    if pieces:
        with store_errors(directory, "sync"):
            fs.sync_directory(directory)
    return tuple(pieces)


def _copy_written(fs: FileSystem, file: MappedFile, begin: int, path: str) -> int:
    """Copy the blocks of `file` that are not zero; return the copy's length, 0 without a block."""
    target: int | None = None
    length = 0
    try:
        for position in _written(fs, file, begin):
            block = file.read(position, BLOCK_BYTES)
            # Comparing with zeros is some twenty times as fast as stripping them.
            if block != _ZEROS[: len(block)]:
                written = block.rstrip(b"\0")
                if target is None:
                    fs.make_directories(path.rpartition("/")[0])
                    target = fs.open(path, create=True)
                fs.pwrite(target, written, position - begin)
                length = position - begin + len(written)
        if target is not None:
            fs.sync(target)
    except OSError as error:
        raise store_failure(path, "write", error) from error
    finally:
        if target is not None:
            fs.close(target)
    return length


def _written(fs: FileSystem, file: MappedFile, begin: int) -> list[int]:
    """Return where blocks begin that may hold data.

    All are found before the first is read: a page that was read, or read ahead, counts as data from
    then on. Otherwise gigabytes of preallocated segments would be read.
    """
    positions = []
    position = fs.next_data(file.fd, begin)
    while position is not None and position < file.size_bytes:
        positions.append(position)
        position = fs.next_data(file.fd, position + BLOCK_BYTES)
    return positions
