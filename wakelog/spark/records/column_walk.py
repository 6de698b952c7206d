"""Walks a range of one segment: sound records into compiled columns, everything else as damage.

The rules are those of Reput (`dispatchers/log_cursor.py`), so that a table shows what consumers
see. A sound record is a row. A record whose lengths do not add up is passed over, if another
follows it. For anything else the next sound record is searched. A blank ends the segment. What is
passed over is returned as `Damage`.

The columns are the arrays of `compiled/layout.py`. Each step fills them and the buffer
again.

Invariants:
- Steps cover the range up to a blank without gap or overlap: each byte belongs to a sound record or
  to a damage.
- The buffer grows only for a record whose lengths add up, so that a wrong size costs no memory.

Source: org.apache.rocketmq.store.DefaultMessageStore.ReputMessageService#doReput (4.9.3). After a
bad record 4.9.3 gives up the rest of the segment.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from wakelog.compiled.layout import (
    NUMBER_FIELDS,
    PHYSICAL_OFFSET,
    QUEUE_ID,
    SIZE,
    TOPIC_BEGIN,
    TOPIC_BYTES,
)
from wakelog.protocol.record import HEAD_BYTES_MAX
from wakelog.spark.records.functions import FUNCTIONS
from wakelog.storage.log.record_check import CheckKind, RecordCheck, check_record
from wakelog.storage.log.record_walk import check_at, next_sound

Array = np.ndarray[Any, Any]

BUFFER_BYTES: Final = 8 << 20
"""Read at once: large reads are fast, and a batch needs this much memory anyway."""
RECORDS_MAX: Final = 1 << 15
"""In one step: enough for that buffer with records of 256 bytes; smaller ones take two steps."""
BATCH_ROWS: Final = 8192
BATCH_BYTES: Final = 16 << 20
"""In one record batch: a task holds one, and the bytes that it is made from."""

_GOES_ON: Final = (CheckKind.SOUND, CheckKind.END_OF_FILE)


class RowOptions(NamedTuple):
    """How records become rows."""

    broker: str = ""
    decompress: bool = True
    verify_crc: bool = False
    batch_rows: int = BATCH_ROWS
    batch_bytes: int = BATCH_BYTES


FILE_ENDS: Final = "the file ends here"
"""The reason of a `Damage` that means a file that became shorter."""


class SegmentFile(Protocol):
    """An open segment, addressed by physical offset."""

    @property
    def end(self) -> int:
        """The physical offset at which the segment ends."""
        ...

    def read_into(self, buffer: memoryview, physical_offset: int) -> int:
        """Fill `buffer`; return the count, short at the file's end."""
        ...

    def read(self, physical_offset: int, length_max: int) -> bytes:
        """Return up to `length_max` bytes, fewer at the file's end."""
        ...


class Scanned:
    """Sound records in compiled columns, and the bytes that they lie in.

    has_bodies: False if the topic follows the head at once.
    numbers: int64[records, NUMBER_FIELDS]; `count` rows are valid; see `compiled/layout.py`.
    group_firsts: int32, the first record of each queue; the last element counts the queues.
    """

    has_bodies = True

    def __init__(self, buffer_bytes: int, records_max: int) -> None:
        """Allocate everything once."""
        self.buffer = bytearray(buffer_bytes)
        self.numbers: Array = np.zeros((records_max, NUMBER_FIELDS), dtype=np.int64)
        self.group_firsts: Array = np.zeros(records_max + 1, dtype=np.int32)
        self.table: Array = np.zeros((2, 2 << records_max.bit_length()), dtype=np.int32)
        self.count = 0

    def clear(self) -> None:
        """Forget all records and queues."""
        self.count = 0
        self.table[0].fill(0)
        self.group_firsts[-1] = 0

    def queues(self) -> list[tuple[bytes, int]]:
        """Return topic and queue id of each group of records."""
        firsts = self.numbers[self.group_firsts[: self.group_firsts[-1]]]
        return [
            (bytes(self.buffer[begin : begin + length]), queue_id)
            for begin, length, queue_id in firsts[:, (TOPIC_BEGIN, TOPIC_BYTES, QUEUE_ID)].tolist()
        ]


class Sound(NamedTuple):
    """Records that fill [begin, end); the walk's columns hold them until its next step."""

    begin: int
    end: int


class Damage(NamedTuple):
    """Bytes [begin, end) of the log without a record that can be returned, and the reason."""

    begin: int
    end: int
    reason: str


class RecordWalk(Scanned):
    """See the module. One owner, one thread.

    buffer: the bytes that were read last; the first one lies at physical offset `shift`.
    """

    def __init__(
        self,
        *,
        buffer_bytes: int = BUFFER_BYTES,
        records_max: int = RECORDS_MAX,
        takes_groups: bool = True,
    ) -> None:
        """Allocate everything once. takes_groups: fill in the records' queues."""
        super().__init__(max(buffer_bytes, HEAD_BYTES_MAX), records_max)
        self._takes_groups = takes_groups
        self.shift = 0

    def steps(self, file: SegmentFile, begin: int, end: int) -> Iterator[Sound | Damage]:
        """Walk [begin, end); a record or the segment begins at `begin`."""
        position = begin
        while position < end:
            window = memoryview(self.buffer)[: end - position]
            length = file.read_into(window, position)
            self.shift = position
            at, stopped_by = 0, None
            while at < length and stopped_by is None:
                stop = self._scan(at, length)
                if self.count:
                    yield Sound(position + at, position + stop)
                at = stop
                if at < length:
                    stopped_by = self._stopped_by(at, length, file.end)
            full = length == len(window)
            position += at
            incomplete = stopped_by is not None and stopped_by.kind is CheckKind.INCOMPLETE
            if length == 0 or (incomplete and not full):
                yield Damage(position, end, FILE_ENDS)
                return
            if stopped_by is None:
                continue
            if stopped_by.kind is CheckKind.END_OF_FILE:
                return
            if incomplete and self._goes_on(file, position, end, stopped_by, moved=at > 0):
                continue
            damage = self._pass_over(file, position, end, stopped_by)
            yield damage
            position = damage.end

    def _scan(self, begin: int, end: int) -> int:
        self.clear()
        self.count, stop = FUNCTIONS.walk_records(
            self.buffer,
            begin,
            end,
            self.shift + begin,
            self.numbers,
            self.table,
            self.group_firsts,
            self._takes_groups,
        )
        return stop

    def _stopped_by(self, at: int, length: int, segment_end: int) -> RecordCheck | None:
        """Return why a scan stopped, None if its columns were full."""
        physical_offset = self.shift + at
        check = check_record(self.buffer, at, physical_offset, length, segment_end=segment_end)
        return None if check.kind is CheckKind.SOUND else check

    def _goes_on(
        self, file: SegmentFile, position: int, end: int, check: RecordCheck, *, moved: bool
    ) -> bool:
        """Return whether the record that the buffer cuts off can be read whole."""
        if moved:
            return True
        if position + len(self.buffer) >= end or not adds_up(file, position, end):
            return False
        self.buffer = bytearray(check.size_bytes)
        return True

    def _pass_over(self, file: SegmentFile, position: int, end: int, check: RecordCheck) -> Damage:
        reason = check.reason
        if check.kind is CheckKind.INCOMPLETE:
            reason = f"size {check.size_bytes} with {end - position} bytes readable"
        if check.kind is CheckKind.SIZE_MISMATCH:
            follows = position + check.size_bytes
            if follows == end or (follows < end and _kind_at(file, follows, end) in _GOES_ON):
                return Damage(position, follows, reason)
        return Damage(position, next_sound_begin(file, position + 1, end), reason)


def adds_up(file: SegmentFile, physical_offset: int, end: int) -> bool:
    """Return whether a sound record begins at an offset and ends at or below `end`.

    Its body is not read.
    """
    return _kind_at(file, physical_offset, end) is CheckKind.SOUND


def next_sound_begin(file: SegmentFile, begin: int, end: int) -> int:
    """Return where in [begin, end) the next sound record begins, `end` if nowhere."""
    found = next_sound(file.read, begin, end, readable_end=end, segment_end=file.end)
    return end if found is None else found[0]


def _kind_at(file: SegmentFile, physical_offset: int, end: int) -> CheckKind:
    return check_at(file.read, physical_offset, end, segment_end=file.end).kind


def last_sound_end(file: SegmentFile, begin: int, end: int) -> int | None:
    """Return the end of the last sound record of [begin, end) with a correct CRC."""
    walk = RecordWalk(takes_groups=False)
    found = None
    damaged = np.empty(1, dtype=np.int32)
    for step in walk.steps(file, begin, end):
        # From the last record backwards: mostly one body is enough.
        for row in range(walk.count - 1 if isinstance(step, Sound) else -1, -1, -1):
            if not FUNCTIONS.check_bodies(walk.buffer, walk.numbers, row, row + 1, damaged):
                found = int(walk.numbers[row, PHYSICAL_OFFSET] + walk.numbers[row, SIZE])
                break
    return found
