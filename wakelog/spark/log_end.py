"""The end of a log: of a store that is stopped, has crashed, or is written at this moment.

The log ends after the last record whose size, magic, position and CRC are right. Segments have
their full length from the start, so their length does not show the end. The search runs in the last
segment with a sound record. It begins where the consume queues end, or else where the segment does.

A broker that runs may have written only a part of its last record. That record is not sound yet,
and belongs to the next query. The CRC covers the body alone. So if a broker is known to run, a last
record whose properties end in zeros counts as unfinished too.

The length of a segment does not show that a log has lost its end. A stream that has read further
notices it by the bytes before its place: `tail_of`.

Invariants: the end is the begin of a segment or the end of a sound record; it never falls while the
log only grows.

Source: org.apache.rocketmq.store.CommitLog#recoverAbnormally (4.9.3), which checks the same four.
"""

import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Final

from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.record import BODY_CRC_OFFSET, INT, body_crc, decode_properties_text
from wakelog.spark.records.column_walk import Damage, last_sound_end
from wakelog.spark.stores import OpenSegment, StoreLog, is_being_written, open_segment
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.record_check import CheckKind
from wakelog.storage.log.record_walk import check_at, next_sound, walk_records

PIECE_BYTES: Final = 1 << 20
"""One read of the plain search; a larger record is read alone."""
PLAIN_BYTES_MAX: Final = 16 << 20
"""The plain search covers this much: some tens of milliseconds with records of 1 KiB."""

ZEROS_BYTES: Final = 64 << 10
"""A repeated search ends if so many zeros follow the known end."""

TAIL_BYTES: Final = 128
"""The end of a record: its properties, and if they are short, topic and body."""


def find_log_end(fs: FileSystem, store: StoreLog, *, known: int = 0, repeated: bool = False) -> int:
    """Return the physical offset after the last sound record, the log's begin if there is none.

    known: a place after a sound record: the search begins there.
    repeated: `known` is the result of an earlier search; many zeros after it end this one.
    Raises: OSError.
    """
    live = is_being_written(store)
    known = max(known, store.begin)
    for segment in reversed(store.segments):
        if segment.end <= known:
            break
        file = open_segment(fs, segment)
        if file is None:
            continue  # allocated ahead, and removed by a broker that stopped
        with closing(file):
            found = _end_in(file, max(known, segment.begin), repeated=repeated, live=live)
        if found is not None:
            return found
    return known


def _end_in(file: OpenSegment, begin: int, *, repeated: bool, live: bool) -> int | None:
    """Return the end of the segment's last sound record at or after `begin`, None without one."""
    before = found = None
    last, position, end = begin, begin, file.end
    while position < end:
        if found is not None and position - begin > PLAIN_BYTES_MAX:
            return last_sound_end(file, position, end) or found
        piece = file.read(position, PIECE_BYTES)
        for record_begin, record_end in _sound_records(piece, position):
            last, position = record_begin, record_end
            before, found = found, position
        check = check_at(file.read, position, end, segment_end=end, check_body=True)
        if check.kind is CheckKind.SOUND:  # the piece ended within it
            last, position = position, position + check.size_bytes
            before, found = found, position
        elif check.kind is CheckKind.END_OF_FILE or (
            repeated and not any(file.read(position, ZEROS_BYTES))
        ):
            break
        else:
            # Files have holes where nothing was written, and copies have holes for zeros.
            resume = next_sound(
                file.read,
                position + 1,
                end,
                readable_end=end,
                segment_end=end,
                skip_unwritten=file.next_data,
            )
            position = end if resume is None else resume[0]
    is_whole = not live or found is None or not _is_unfinished(file.read(last, found - last))
    return found if is_whole else before


def _sound_records(data: bytes, physical_offset: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of the records at the front of `data` whose bodies have their CRC."""
    for at, record_end, body_begin, body_end, *_ in walk_records(
        data, 0, len(data), physical_offset
    ):
        if body_begin < body_end:
            (crc,) = INT.unpack_from(data, at + BODY_CRC_OFFSET)
            if crc != body_crc(data[body_begin:body_end]):
                return
        yield physical_offset + at, physical_offset + record_end


def _is_unfinished(record: bytes) -> bool:
    """Return whether its properties, which no CRC covers, end in zeros."""
    try:
        return decode_properties_text(record).endswith("\0")
    except RemoteProtocolError:  # a negative length, which counts as zero elsewhere
        return False


def tail_of(fs: FileSystem, store: StoreLog, physical_offset: int) -> int | None:
    """Return a checksum of the bytes before a place, None if no file has them.

    It covers the properties of the message before, and with them mostly its id. While the log only
    grows, the result stays the same until retention removes the bytes.
    """
    for segment, begin, end in store.parts(physical_offset - TAIL_BYTES, physical_offset):
        file = open_segment(fs, segment) if end == physical_offset else None
        if file is not None:
            with closing(file):
                return zlib.crc32(file.read(begin, end - begin))
    return None


def has_tail(
    fs: FileSystem, store: StoreLog, physical_offset: int, tails: Mapping[str, int]
) -> bool:
    """Return whether the bytes before a place are those of `tails`; True if it is unknown."""
    known = tails.get(store.broker)
    found = None if known is None else tail_of(fs, store, physical_offset)
    return found is None or found == known


def tail_damage(fs: FileSystem, store: StoreLog, log_end: int) -> Damage | None:
    """Return the bytes after the log's end up to the last one that is not zero, None for none.

    They can be damaged messages, which have no row. `wakelog log verify` lists the same bytes. A
    broker that runs is just writing there, so that its tail is no damage. Raises: OSError.
    """
    if is_being_written(store):
        return None
    begin, written_end = log_end, 0
    for segment, at, end in store.parts(log_end, store.files_end):
        file = open_segment(fs, segment)
        if file is None:
            continue
        with closing(file):
            check = check_at(file.read, at, end, segment_end=end)
            if at == begin and check.kind is CheckKind.SOUND:
                return None  # the log has grown: a broker runs, on another machine perhaps
            if at == begin and check.kind is CheckKind.END_OF_FILE:
                begin = end
                continue
            at = file.next_data(at)
            while data := file.read(at, PIECE_BYTES):
                if kept := data.rstrip(b"\0"):
                    written_end = at + len(kept)
                at = file.next_data(at + len(data))
    if written_end <= begin:
        return None
    count = written_end - begin
    return Damage(begin, written_end, f"{count} bytes are written after the last sound record")
