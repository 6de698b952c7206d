"""The last hour of a cluster: of each group its lag and dead letters, of each broker disk and log.

Snapshots and their times go in. What they say is kept as numbers, one for each `SAMPLE_MS_MIN` at
most, so an hour has a bounded size however often a cluster is read.

Invariants: no clock. A number that a snapshot lacks is NaN. A name without a number in the last
hour is forgotten. A clock that was set back begins a new hour.
"""

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from wakelog.console.snapshot import Snapshot, runtime_number
from wakelog.protocol.body_codec import MessageQueue

HOUR_MS: Final = 3_600_000
SAMPLE_MS_MIN: Final = 10_000
SAMPLES_MAX: Final = HOUR_MS // SAMPLE_MS_MIN + 1
SERIES_MAX: Final = 4_096
"""Numbers of one sample; what comes after is not kept."""

LAG: Final = "lag"
DEAD_LETTERS: Final = "dead letters"
DISK: Final = "disk"
STORED: Final = "stored bytes"
SENT: Final = "sent messages"
KINDS: Final = (LAG, DEAD_LETTERS, DISK, STORED, SENT)

Series = tuple[str, str]
"""One of KINDS, and the name of a group or the address of a broker."""


class Change(NamedTuple):
    """The first and the last number of a series that are known, and the last but one."""

    before: float
    after: float
    elapsed_ms: int
    previous: float

    @property
    def grown(self) -> float:
        """By how much it grew."""
        return self.after - self.before


class Unmoved(NamedTuple):
    """Since when a group has stayed at an offset of a queue, and where the queue ended then.

    While the group has all of the queue, that time is now.
    """

    since_ms: int
    consumer_offset: int
    broker_offset: int


class History:
    """See the module."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self.latest = Snapshot(0)
        self.unmoved: dict[tuple[str, MessageQueue], Unmoved] = {}
        self._times_ms = array("q")
        self._series: dict[Series, array[float]] = {}

    def add(self, snapshot: Snapshot) -> None:
        """Take the newest snapshot."""
        times = self._times_ms
        if times and snapshot.taken_ms < times[-1]:
            del times[:]
            self._series.clear()
            self.unmoved.clear()
        self.latest = snapshot
        self._note_offsets(snapshot)
        if len(times) > 1 and snapshot.taken_ms - times[-2] < SAMPLE_MS_MIN:
            self._drop(-1)
        numbers = dict(_numbers(snapshot))
        for name in numbers:
            if name not in self._series and len(self._series) < SERIES_MAX:
                self._series[name] = array("d", [math.nan]) * len(times)
        for name, values in self._series.items():
            values.append(numbers.get(name, math.nan))
        times.append(snapshot.taken_ms)
        while len(times) > SAMPLES_MAX or times[-1] - times[0] > HOUR_MS:
            self._drop(0)
        self._series = {x: y for x, y in self._series.items() if not all(map(math.isnan, y))}

    def change(self, kind: str, name: str) -> Change | None:
        """Return what became of a number in the hour, None if it was not known at two times."""
        values = self._series.get((kind, name), ())
        known = [at for at, value in enumerate(values) if not math.isnan(value)]
        if len(known) < 2:
            return None
        first, last = known[0], known[-1]
        elapsed_ms = self._times_ms[last] - self._times_ms[first]
        return Change(values[first], values[last], elapsed_ms, values[known[-2]])

    @property
    def times_ms(self) -> Sequence[int]:
        """When each point of a course was read."""
        return self._times_ms

    def course(self, kind: str, name: str) -> list[float]:
        """Return the hour of a number, NaN where it was not known; empty if it never was."""
        return list(self._series.get((kind, name), ()))

    def largest(self, kind: str) -> list[float]:
        """Return the hour of the largest number of a kind."""
        return self._over(kind, max)

    def rates(self, kind: str) -> list[float]:
        """Return by how much all numbers of a kind grew in a second, between each two readings."""
        sums, times = self._over(kind, sum), self._times_ms
        found = [math.nan] if sums else []
        for at in range(1, len(sums)):
            seconds = (times[at] - times[at - 1]) / 1000
            grown = sums[at] - sums[at - 1]
            found.append(max(0.0, grown) / seconds if seconds > 0 else math.nan)
        return found

    def _over(self, kind: str, of: Callable[[Iterable[float]], float]) -> list[float]:
        """Return a course over all numbers of a kind; NaN where one is not known."""
        all_values = [values for (each, _), values in self._series.items() if each == kind]
        return [
            math.nan if any(map(math.isnan, column)) else of(column)
            for column in zip(*all_values, strict=True)
        ]

    def _drop(self, sample: int) -> None:
        del self._times_ms[sample]
        for values in self._series.values():
            del values[sample]

    def _note_offsets(self, snapshot: Snapshot) -> None:
        found = {}
        for name, group in snapshot.groups.items():
            for queue, place in group.progress.offset_table.items():
                key = name, queue
                then = self.unmoved.get(key)
                if (
                    then is None
                    or then.consumer_offset != place.consumer_offset
                    or then.broker_offset <= then.consumer_offset
                ):
                    then = Unmoved(snapshot.taken_ms, place.consumer_offset, place.broker_offset)
                found[key] = then
        self.unmoved = found


def _numbers(snapshot: Snapshot) -> Iterator[tuple[Series, float]]:
    if all(each.failure is None for each in snapshot.brokers):  # a sum without a part misleads
        for name, group in snapshot.groups.items():
            if group.progress.offset_table:
                yield (LAG, name), group.progress.total_diff()
        for name, count in snapshot.dead_letters.items():
            yield (DEAD_LETTERS, name), count
    for broker in snapshot.brokers:
        for kind, value in (
            (DISK, "commitLogDiskRatio"),
            (STORED, "commitLogMaxOffset"),
            (SENT, "msgPutTotalTodayNow"),
        ):
            number = runtime_number(broker.values, value)
            if number is not None:
                yield (kind, broker.address), number
