"""StoreStats: puts and gets a second over 10 s, 1 min and 10 min, and the totals of two midnights.

A sample of the store's counters is taken every second. Each rate is that of the newest sample and
the one so many samples before it. Before there is one, 4.9.3 shows nothing for it. The samples lie
in one block, in a ring. As objects, those of a busy second would keep its memory for ten minutes.

``putMessageDistributeTime`` is of the last full minute. Midnight is that of the local time.

RuntimeMeasures is what only the shell of a broker can measure, for code 28.

Source: org.apache.rocketmq.store.StoreStatsService, org.apache.rocketmq.store.stats.BrokerStats,
org.apache.rocketmq.broker.BrokerController.headSlowTimeMills (4.9.3).
"""

from array import array
from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import NamedTuple

import msgspec

from wakelog.broker.health_values import ActorHealth, StoreHealth
from wakelog.broker.trouble import Trouble
from wakelog.protocol.java import double_text

SAMPLE_MS = 1_000
RATE_SAMPLES = (10, 60, 600)
KEPT_SAMPLES = max(RATE_SAMPLES) + 1
DISTRIBUTION_MS = 60_000

PUT_TIME_BOUNDS_MS = (1, 10, 50, 100, 200, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000)
"""A put that took so long, or longer, counts in the next bucket; see ``_PUT_TIME_NAMES``."""

_PUT_TIME_NAMES = (
    *("<=0ms", "0~10ms", "10~50ms", "50~100ms", "100~200ms", "200~500ms", "500ms~1s"),
    *("1~2s", "2~3s", "3~4s", "4~5s", "5~10s", "10s~"),
)
PUT_TIMES_COUNT = len(_PUT_TIME_NAMES)


class StoreTotals(NamedTuple):
    """Counters of the store since its start."""

    put_count: int = 0
    found_count: int = 0
    missed_count: int = 0
    transferred_count: int = 0


class RuntimeMeasures(msgspec.Struct, frozen=True):
    """One measurement; a broker without a shell has never waited.

    put_times: how many puts took how long since the start, by bucket.
    flushed: the physical offset up to which the log is durable.
    lanes: requests that wait, and for how long the first one has waited in ms, by lane.
    troubles: why services do not do their work, by service.
    notices: what was lost when the broker started, by file.
    actors: by service. store: None without a store that was recovered.
    disk_full: no message is taken for want of space. log_failure: why the log takes none, or "".
    late_sync_ms: for how long a sync has been overdue.
    """

    put_ms_max: int = 0
    get_ms_max: int = 0
    put_times: Sequence[int] = (0,) * PUT_TIMES_COUNT
    flushed: int = 0
    lanes: dict[str, tuple[int, int]] = {}
    troubles: dict[str, Trouble] = {}
    notices: dict[str, Trouble] = {}
    actors: dict[str, ActorHealth] = {}
    store: StoreHealth | None = None
    disk_full: bool = False
    log_failure: str = ""
    late_sync_ms: int = 0

    def waiting(self, lane: str) -> int:
        """Return how many requests wait in a lane."""
        return self.lanes.get(lane, (0, 0))[0]

    def head_wait_ms(self, lane: str) -> int:
        """Return for how long the first request of a lane has waited."""
        return self.lanes.get(lane, (0, 0))[1]


class StoreStats:
    """Samples of one store's counters."""

    def __init__(self, now_ms: int) -> None:
        self.boot_ms = now_ms
        self.yesterday_morning = self.today_morning = StoreTotals()
        self._day = _local_date(now_ms)
        self._taken_ms = array("q", [0]) * KEPT_SAMPLES
        self._totals = [array("q", [0]) * KEPT_SAMPLES for _ in StoreTotals._fields]
        self._samples_count = 0
        self._distributed_ms = now_ms
        self._put_times: Sequence[int] = [0] * PUT_TIMES_COUNT
        self._distribution = [0] * PUT_TIMES_COUNT

    def sample(
        self, now_ms: int, totals: StoreTotals, put_times: Callable[[], Sequence[int]]
    ) -> None:
        """Take the sample of a second.

        put_times: returns how many puts took how long since the start, by bucket.
        """
        place = self._samples_count % KEPT_SAMPLES
        self._taken_ms[place] = now_ms
        for column, total in zip(self._totals, totals, strict=True):
            column[place] = total
        self._samples_count += 1
        if not 0 <= now_ms - self._distributed_ms < DISTRIBUTION_MS:
            counts = list(put_times())
            before = zip(counts, self._put_times, strict=True)
            self._distribution = [count - earlier for count, earlier in before]
            self._put_times, self._distributed_ms = counts, now_ms
        day = _local_date(now_ms)
        if day != self._day:
            self._day = day
            self.yesterday_morning, self.today_morning = self.today_morning, totals

    def rates(self) -> dict[str, str]:
        """Return the rates by 4.9.3's name, three numbers each; one that is not known is empty."""
        names = {"putTps": 0, "getFoundTps": 1, "getMissTps": 2, "getTransferedTps": 3}
        found = {
            name: " ".join([_text(self._rate(field, count)) for count in RATE_SAMPLES])
            for name, field in names.items()
        }
        gets = [(self._rate(1, count) or 0.0) + (self._rate(2, count) or 0.0)
                for count in RATE_SAMPLES]  # fmt: skip
        return {**found, "getTotalTps": " ".join(map(double_text, gets))}

    def put_times_text(self) -> str:
        """Return how many puts of the last full minute took how long."""
        named = zip(_PUT_TIME_NAMES, self._distribution, strict=True)
        return "".join([f"[{name}]:{count} " for name, count in named])

    def _rate(self, field: int, samples_count: int) -> float | None:
        """Return a rate over so many samples, None if there are not enough yet."""
        if self._samples_count <= samples_count:
            return None
        last = (self._samples_count - 1) % KEPT_SAMPLES
        first = last - samples_count  # below 0 it counts from the end of the ring
        elapsed_ms = self._taken_ms[last] - self._taken_ms[first]
        if elapsed_ms <= 0:  # the clock was set back
            return 0.0
        column = self._totals[field]
        return (column[last] - column[first]) / elapsed_ms * 1000


def _text(rate: float | None) -> str:
    return "" if rate is None else double_text(rate)


def _local_date(now_ms: int) -> date:
    return datetime.fromtimestamp(now_ms // 1000).date()
