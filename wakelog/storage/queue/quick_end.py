"""Where a queue ends, by a short look: most queues are as they were at the last start.

A start of a broker with thousands of queues has no time to open each of them as its writer does.
This look lists a queue's files, opens the last one and reads its last entry. Holes of the file are
not read. Whatever is not plain gets the closer look of `ConsumeQueueWriter.recover`.

Invariants:
- A queue has an end here only if every byte after its last entry reads as zero.
- After a crash its last entry was durable before, so that nothing of it can be torn.
- Nothing is written, and a link in a file's place is not followed.

Source: none upstream. 4.9.3 maps each file of each queue, and reads the last three to their end.
"""

from posixpath import join
from typing import Final, NamedTuple

from wakelog.compiled.layout import ENTRY_BYTES
from wakelog.storage.file_system import FileSystem, opened
from wakelog.storage.paths import parse_offset_name
from wakelog.storage.queue.entries import ENTRY, PAGE_BYTES, QueueEntry

NEAR_COUNT: Final = 52
"""So many places at the end are compared: two sectors of a disk, each of which a crash may tear."""

_ZEROS: Final = bytes(2 * ENTRY_BYTES)

_WIDER: Final = 16
"""So many times as much is read next if a piece has zeros only."""


class QuickEnd(NamedTuple):
    """The next free place of a queue, and its last entry."""

    queue_offset: int
    last: QueueEntry

    @property
    def max_physical_offset(self) -> int:
        """The end of the last entry's record."""
        return self.last.physical_offset + self.last.size_bytes


def quick_end(
    fs: FileSystem, directory: str, file_bytes: int, durable: int | None
) -> QuickEnd | None:
    """Return where a queue ends, None if only a closer look can tell.

    durable: entries of records that end at or below were durable before a crash; None after a clean
        stop, which leaves every entry durable.
    """
    try:
        names = fs.list_directory(directory)
        starts = [parse_offset_name(name) for name in names]
        first = starts[0] if starts else None
        if first is None or first % file_bytes:
            return None
        if starts != list(range(first, first + len(starts) * file_bytes, file_bytes)):
            return None
        for name in names[:-1]:
            with opened(fs, join(directory, name)) as fd:
                if fs.size(fd) != file_bytes:
                    return None
        fd = fs.open(join(directory, names[-1]))
        try:
            found = _last_entry(fs, fd, file_bytes) if fs.size(fd) == file_bytes else None
        finally:
            fs.close(fd)
    except OSError:
        return None  # the closer look says what it is
    if (
        found is None
        or found.last.is_padding
        or (durable is not None and _end_of(found.last) > durable)
    ):
        return None
    queue_offset = (first + (len(names) - 1) * file_bytes) // ENTRY_BYTES + found.queue_offset
    return found._replace(queue_offset=queue_offset)


def _last_entry(fs: FileSystem, fd: int, file_bytes: int) -> QuickEnd | None:
    """Return the last entry of a file, and the place in the file after it.

    None without entries, or where the last one does not follow the one before: it may be torn.
    """
    stretches = []
    begin = fs.next_data(fd, 0)
    while begin is not None:
        end = fs.data_end(fd, begin)
        stretches.append((begin, end))
        begin = fs.next_data(fd, end) if end < file_bytes else None
    for begin, end in reversed(stretches):
        piece = _last_written(fs, fd, begin, end)
        if piece is not None:
            return _checked(fs, fd, *piece)
    return None


def _last_written(fs: FileSystem, fd: int, begin: int, end: int) -> tuple[int, bytes] | None:
    """Return where a piece of [begin, end) begins that ends with its last byte that is not zero."""
    length = PAGE_BYTES
    while begin < end:
        piece_begin = max(begin, end - length)
        piece = _without_zeros(fs.pread(fd, end - piece_begin, piece_begin))
        if piece:
            return piece_begin, piece
        end, length = piece_begin, length * _WIDER
    return None


def _without_zeros(piece: bytes) -> bytes:
    """Return a piece without the zeros at its end."""
    # Nearly all of a page is zero, and `rstrip` takes a byte at a time.
    zeros = piece.find(_ZEROS)
    if zeros >= 0 and piece[zeros:] == bytes(len(piece) - zeros):
        piece = piece[:zeros]
    return piece.rstrip(b"\0")


def _checked(fs: FileSystem, fd: int, piece_begin: int, piece: bytes) -> QuickEnd | None:
    """Return the last entry of a written piece if those in front of it are plain as well."""
    place = (piece_begin + len(piece) - 1) // ENTRY_BYTES
    first = max(0, place + 1 - NEAR_COUNT)
    position, length = first * ENTRY_BYTES, (place + 1 - first) * ENTRY_BYTES
    if position >= piece_begin:
        data = piece[position - piece_begin :].ljust(length, b"\0")
    else:
        data = fs.pread(fd, length, position)
        if len(data) < length:
            return None
    entries = [QueueEntry._make(entry) for entry in ENTRY.iter_unpack(data)]
    is_plain = all(map(_is_sound, entries)) and all(map(_follows, entries, entries[1:]))
    return QuickEnd(place + 1, entries[-1]) if is_plain else None


def _is_sound(entry: QueueEntry) -> bool:
    return entry.size_bytes > 0 <= entry.physical_offset


def _follows(before: QueueEntry, entry: QueueEntry) -> bool:
    if before.is_padding or before[:2] == entry[:2]:
        return True  # a gap is filled with the record behind it
    return _end_of(before) <= entry.physical_offset


def _end_of(entry: QueueEntry) -> int:
    return entry.physical_offset + entry.size_bytes
