"""A look at the last records in front of a position: does the log still hold what it held?

Recovery that begins by positions does not read again what was durable below. It would go on behind
a tail that is gone: on a disk that lost what it had called durable, in a copy that was taken of a
running store, or where a broker that left no other trace ended the log in another place. All of
them show just below the position. So the records of the last 64 KiB are checked from the first
sound one on, bodies included; each has to follow the one before, and the last one to end at the
position. If not, recovery begins where the checkpoint's times lead to, as if nothing were known.

Invariants: reads at most 17 MiB, and mostly 64 KiB, whatever the log's length.

Source: none upstream.
"""

from __future__ import annotations

from typing import Final

from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.mapped_file import MappedFile
from wakelog.storage.log.mapped_file_queue import MappedFileQueue
from wakelog.storage.log.record_check import CheckKind
from wakelog.storage.recovery.segments import check_at, next_sound_in

LOOK_BYTES: Final = 64 << 10
"""Some dozens of records: more than a disk has in one page, less than a millisecond of reading."""
LOOK_SHARE: Final = 8
"""Of a small segment no more than its eighth is looked at, unless that holds no whole record."""
LOOK_BYTES_MAX: Final = 16 << 20
"""Four times the default's longest message. One that is longer costs a start by times."""
_WIDER: Final = 16


def store_time_below(fs: FileSystem, files: MappedFileQueue, physical_offset: int) -> int | None:
    """Return the store time of the record that ends at `physical_offset`.

    A blank may lie between them. Returns: 0 where the log begins; None if what stands below is not
    sound, or ends elsewhere. Raises: StoreFailed.
    """
    if physical_offset <= files.min_offset:
        return 0
    file = files.find(physical_offset - 1)
    assert file is not None, physical_offset
    end = physical_offset - file.start_offset
    length = min(LOOK_BYTES, file.size_bytes // LOOK_SHARE)
    while True:
        begin = max(end - length, 0)
        found = next_sound_in(fs, file, begin, end)
        if found is not None:
            return _last_time(file, found[0] - file.start_offset, end)
        if begin == 0 or length >= LOOK_BYTES_MAX:
            return None
        length *= _WIDER


def _last_time(file: MappedFile, begin: int, end: int) -> int | None:
    """Check the records of a segment from `begin` on; return the time of the one before `end`."""
    position, store_timestamp_ms = begin, 0
    while position < end:
        check = check_at(file, position)
        if check.kind is CheckKind.END_OF_FILE and end == file.size_bytes:
            return store_timestamp_ms
        if check.kind is not CheckKind.SOUND:
            return None
        store_timestamp_ms = check.store_timestamp_ms
        position += check.size_bytes
    return store_timestamp_ms if position == end else None
