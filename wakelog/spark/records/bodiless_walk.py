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

from collections.abc import Iterator
from typing import Final

from wakelog.compiled.layout import PHYSICAL_OFFSET
from wakelog.protocol.record import HEAD_BYTES_MAX, TAIL_BYTES_MAX
from wakelog.spark.records.column_walk import (
    BATCH_ROWS,
    Damage,
    RecordWalk,
    Scanned,
    SegmentFile,
    Sound,
)
from wakelog.spark.records.functions import FUNCTIONS

WINDOW_BYTES: Final = 1 << 20
"""The size of a usual second-level cache."""
WINDOW_RECORDS_MAX: Final = 1 << 12
"""In one step through a window; records below 256 bytes need several steps."""
KEPT_BYTES: Final = 4 << 20
"""Some 500 bytes for each record of a batch; longer records make smaller batches."""


class BodilessWalk(Scanned):
    """See the module. One owner, one thread."""

    has_bodies = False

    def __init__(
        self,
        *,
        window_bytes: int = WINDOW_BYTES,
        window_records_max: int = WINDOW_RECORDS_MAX,
        kept_bytes: int = KEPT_BYTES,
        records_max: int = BATCH_ROWS,
    ) -> None:
        """Allocate everything once."""
        super().__init__(max(kept_bytes, HEAD_BYTES_MAX + TAIL_BYTES_MAX), records_max)
        self._window = RecordWalk(
            buffer_bytes=window_bytes, records_max=window_records_max, takes_groups=False
        )
        self._kept_end = 0

    def steps(self, file: SegmentFile, begin: int, end: int) -> Iterator[Sound | Damage]:
        """Walk [begin, end); a record or the segment begins at `begin`."""
        self.clear()
        sound_begin = sound_end = begin
        for step in self._window.steps(file, begin, end):
            if isinstance(step, Damage):
                if self.count:
                    yield Sound(sound_begin, sound_end)
                    self.clear()
                yield step
                sound_begin = sound_end = step.end
                continue
            taken = 0
            while (taken := self._keep(taken)) < self._window.count:
                full_end = int(self._window.numbers[taken, PHYSICAL_OFFSET])
                yield Sound(sound_begin, full_end)
                self.clear()
                sound_begin = full_end
            sound_end = step.end
        if self.count:
            yield Sound(sound_begin, sound_end)

    def clear(self) -> None:
        """Forget all records, queues and kept bytes."""
        super().clear()
        self._kept_end = 0

    def _keep(self, begin: int) -> int:
        """Keep records of the window from `begin` on; return the first one without room."""
        taken, self._kept_end, self.count = FUNCTIONS.keep_records(
            self._window.buffer,
            self._window.numbers,
            begin,
            self._window.count,
            self.buffer,
            self._kept_end,
            self.numbers,
            self.count,
            self.table,
            self.group_firsts,
        )
        return taken
