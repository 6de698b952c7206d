"""A walk that keeps records without their bodies, for queries that need no body.

Bodies are most of a log. A range is walked in windows that fit a core's own cache. Head, topic and
properties of each record are copied out of the window, so that all input of a batch is small and
lies together. A buffer of whole records would send each byte of the log to memory and back.

    window   | head | body ............ | topic, properties | head | body ......
    kept     | head | topic, properties | head | topic, properties | ...

Invariants:
- Steps are those of `record_walk.py` for the same range, but sound ones are cut at other places.
  Columns are equal, but begins are positions among the kept bytes.
- There is always room for one record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from wakelog.protocol.record import HEAD_BYTES_MAX, TAIL_BYTES_MAX
from wakelog.spark.records.record_walk import (
    BATCH_ROWS,
    Array,
    Damage,
    RecordWalk,
    SegmentFile,
    Sound,
    WalkRecords,
)
from wakelog.storage.kernels.layout import NUMBER_FIELDS, PHYSICAL_OFFSET

KeepRecords = Callable[..., tuple[int, int, int]]

WINDOW_BYTES: Final = 1 << 20
"""The size of a usual second-level cache."""
WINDOW_RECORDS_MAX: Final = 1 << 12
"""In one step through a window; records below 256 bytes need several steps."""
KEPT_BYTES: Final = 4 << 20
"""Some 500 bytes for each record of a batch; longer records make smaller batches."""


class BodilessWalk:
    """See the module; a `Scanned`, like `RecordWalk`. One owner, one thread."""

    has_bodies = False

    def __init__(
        self,
        walk_records: WalkRecords,
        keep_records: KeepRecords,
        *,
        window_bytes: int = WINDOW_BYTES,
        window_records_max: int = WINDOW_RECORDS_MAX,
        kept_bytes: int = KEPT_BYTES,
        records_max: int = BATCH_ROWS,
    ) -> None:
        """Allocate everything once; both functions come from `walk_kernel`."""
        self._window = RecordWalk(
            walk_records,
            buffer_bytes=window_bytes,
            records_max=window_records_max,
            takes_groups=False,
        )
        self._keep_records = keep_records
        self.buffer = bytearray(max(kept_bytes, HEAD_BYTES_MAX + TAIL_BYTES_MAX))
        self.bytes: Array = np.frombuffer(self.buffer, dtype=np.uint8)
        self.numbers: Array = np.zeros((records_max, NUMBER_FIELDS), dtype=np.int64)
        self.group_firsts: Array = np.zeros(records_max + 1, dtype=np.int32)
        self._table: Array = np.zeros((2, 2 << records_max.bit_length()), dtype=np.int32)
        self._kept_end = 0
        self.count = 0

    @property
    def group_count(self) -> int:
        """The number of the records' queues."""
        return int(self.group_firsts[-1])

    def steps(self, file: SegmentFile, begin: int, end: int) -> Iterator[Sound | Damage]:
        """Walk [begin, end); a record or the segment begins at `begin`."""
        self._clear()
        sound_begin = sound_end = begin
        for step in self._window.steps(file, begin, end):
            if isinstance(step, Damage):
                if self.count:
                    yield Sound(sound_begin, sound_end)
                    self._clear()
                yield step
                sound_begin = sound_end = step.end
                continue
            taken = 0
            while (taken := self._keep(taken)) < self._window.count:
                full_end = int(self._window.numbers[taken, PHYSICAL_OFFSET])
                yield Sound(sound_begin, full_end)
                self._clear()
                sound_begin = full_end
            sound_end = step.end
        if self.count:
            yield Sound(sound_begin, sound_end)

    def _clear(self) -> None:
        self.count = self._kept_end = 0
        self._table[0].fill(0)
        self.group_firsts[-1] = 0

    def _keep(self, begin: int) -> int:
        """Keep records of the window from `begin` on; return the first one without room."""
        taken, self._kept_end, self.count = self._keep_records(
            self._window.bytes,
            self._window.numbers,
            begin,
            self._window.count,
            self.bytes,
            self._kept_end,
            self.numbers,
            self.count,
            self._table,
            self.group_firsts,
        )
        return taken
