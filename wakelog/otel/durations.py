"""Durations that wait in columns until many of them can be recorded at once.

To record one takes the SDK 10 to 40 µs, more than the client takes for a message among many. So a
duration is put down here, and how many messages it was for. A full column, or a reader that
collects, has all of them added up.

Invariants: a reader of metrics gets all that was added before it collects. At most
`DURATIONS_WAITING_MAX` wait in a column.
"""

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from opentelemetry.context import Context
from opentelemetry.metrics import Histogram

from wakelog.otel.attributes import Attributes
from wakelog.otel.guarded import log_failure
from wakelog.otel.merged_histogram import record_together
from wakelog.otel.totals import LABELS_MAX, OVERFLOW, SENT, Labels

DURATIONS_WAITING_MAX: Final = 256
"""One more, and those of the column are recorded."""
_NOWHERE: Final = Context()


class Column:
    """The durations of one instrument with the same attributes. Any thread."""

    def __init__(self, histogram: Histogram, labels: Labels, attributes: Attributes) -> None:
        """Have none. attributes: of the labels; they are not copied."""
        self._histogram, self._labels, self._attributes = histogram, labels, attributes
        self._waiting: deque[tuple[float, Context, int]] = deque()
        self._waiting_max = DURATIONS_WAITING_MAX

    def add(self, seconds: float, context: Context | None = None, sent_count: int = 0) -> None:
        """Record later. context: of the span that lasted so long, for an exemplar.

        sent_count: messages that a producer has tried to send in that time.
        """
        self._waiting.append((seconds, context or _NOWHERE, sent_count))
        if len(self._waiting) > self._waiting_max:
            self.record_all()

    def record_all(self) -> None:
        """Record what waits."""
        taken: list[tuple[float, Context, int]] = []
        with suppress(IndexError):  # all of them, or another thread has the rest
            taken.extend(iter(self._waiting.popleft, None))
        if taken:
            seconds, contexts, sent_counts = zip(*taken, strict=True)
            if sent_count := sum(sent_counts):
                SENT.add(self._labels, sent_count)
            try:
                record_together(self._histogram, self._attributes, seconds, contexts)
            except Exception:
                log_failure("recording a duration")

    def wait_no_more(self) -> None:
        """Record what waits now, and what comes at once: no reader asks this column any more."""
        self._waiting_max = 0
        self.record_all()


class Durations:
    """The columns of all instruments. Any thread."""

    def __init__(self) -> None:
        """Have none."""
        self._columns: dict[tuple[Histogram, Labels], Column] = {}
        self.renew_lock()

    def renew_lock(self) -> None:
        """Have a free lock: in a forked process no other thread holds it."""
        # Garbage that is collected meanwhile may record a duration.
        self._lock = threading.RLock()

    def column(
        self, histogram: Histogram, labels: Labels, attributes_of: Callable[[Labels], Attributes]
    ) -> Column:
        """Return the column of an instrument for attributes; one for all above `LABELS_MAX`."""
        found = self._columns.get((histogram, labels))
        if found is not None:
            return found
        with self._lock:
            if len(self._columns) >= LABELS_MAX:
                labels = OVERFLOW
            column = Column(histogram, labels, attributes_of(labels))
            return self._columns.setdefault((histogram, labels), column)

    def record_all(self) -> None:
        """Record what waits in all columns."""
        with self._lock:
            columns = list(self._columns.values())
        for column in columns:
            column.record_all()

    def begin_again(self) -> None:
        """Have no columns any more: those there are wait no more."""
        with self._lock:
            columns = list(self._columns.values())
            self._columns.clear()
        for column in columns:
            column.wait_no_more()


DURATIONS: Final = Durations()
"""Of this process: an instrument of an earlier instrumentor may be the one that is read."""
os.register_at_fork(after_in_child=DURATIONS.renew_lock)
