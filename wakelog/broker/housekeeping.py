"""The periodic tasks of a broker, as a table: period and task.

The last task backs up PullHold. It runs a pull again if its deadline has passed, if the clock was
set back, or if its queue has grown without a notification. Each run checks a bounded number of
pulls.

Source: org.apache.rocketmq.broker.BrokerController.start and initialize (their scheduled tasks),
ClientHousekeepingService, PullRequestHoldService.checkHoldRequest (4.9.3).
"""

from collections.abc import Callable
from functools import partial

from wakelog.broker.broker_stats import PERIODS
from wakelog.broker.decision import Appender, CloseChannel, Persist, RegisterBroker, WriteLine
from wakelog.broker.state import BrokerState
from wakelog.broker.store_stats import SAMPLE_MS, StoreTotals

PERSIST_DELAYS_MS_MAX = 1_000  # messages delivered since are delivered again after a kill
EXPIRE_CLIENTS_MS = 10_000
EXPIRE_LOCKS_MS = 60_000
CHECK_HELD_MS = 1_000
PERSIST_FILTERS_MS = 10_000
PROTECT_MS = 180_000
REGISTER_MS_MIN = 10_000
REGISTER_MS_MAX = 60_000

HELD_CHECK_COUNT_MAX = 1_000  # about 1 ms: one read of a queue's end each
DEADLINE_GRACE_MS = 500  # PullHold's own wake is in flight at the deadline
ROUND_MS_MIN = 5_000  # how often 4.9.3 checks every held pull


class Housekeeping:
    """The periodic tasks of one broker and when each is due."""

    def __init__(self, state: BrokerState, wake: Callable[[int, int], None], now_ms: int) -> None:
        """Start every period now; ``wake(hold_id, now_ms)`` runs a held pull again."""
        self._state = state
        self._wake = wake
        self._round: list[int] = []
        self._round_began_ms = now_ms
        self._tasks: list[tuple[Callable[[], int], Callable[[int], None]]] = [
            (lambda: state.config.flush_consumer_offset_interval, self._persist_offsets),
            (self._delays_period_ms, self._persist_delays),
            (lambda: PERSIST_FILTERS_MS, self._persist_filters),
            (self._register_period_ms, self._register),
            (lambda: EXPIRE_CLIENTS_MS, self._expire_clients),
            (lambda: EXPIRE_LOCKS_MS, state.locks.expire),
            (lambda: CHECK_HELD_MS, self._check_held),
            (lambda: SAMPLE_MS, self._sample_store),
            (lambda: PROTECT_MS, self._bar_slow_readers),
        ]
        for period, (period_ms, _) in enumerate(PERIODS):
            self._tasks.append((partial(int, period_ms), partial(state.traffic.sample, period)))
        self._began_ms = [now_ms] * len(self._tasks)
        self._due_ms = [now_ms + period_ms() for period_ms, _ in self._tasks]
        # At the start a name server may have been away; 4.9.3 comes again after 10 s, too.
        registration = [task for _, task in self._tasks].index(self._register)
        self._due_ms[registration] = now_ms + REGISTER_MS_MIN

    def tick(self, now_ms: int) -> None:
        """Run the tasks that are due."""
        for index, (period_ms, task) in enumerate(self._tasks):
            # A time before the period began means that the clock was set back.
            if not self._began_ms[index] <= now_ms < self._due_ms[index]:
                self._began_ms[index] = now_ms
                self._due_ms[index] = now_ms + period_ms()
                task(now_ms)

    def next_tick_ms(self) -> int:
        """Return when the next task is due."""
        return min(self._due_ms)

    def _delays_period_ms(self) -> int:
        interval_ms = self._state.store_config.flush_delay_offset_interval_ms
        return min(interval_ms, PERSIST_DELAYS_MS_MAX)

    def _register_period_ms(self) -> int:
        period_ms = self._state.config.register_name_server_period
        return max(REGISTER_MS_MIN, min(period_ms, REGISTER_MS_MAX))

    def _persist_offsets(self, now_ms: int) -> None:
        if self._state.offsets.dirty:
            self._state.instructions.append(Persist(self._state.offsets.file_name))

    def _persist_delays(self, now_ms: int) -> None:
        if self._state.delayed.dirty:
            self._state.instructions.append(Persist("delayOffset"))

    def _persist_filters(self, now_ms: int) -> None:
        self._state.filters.clean(now_ms)
        if self._state.filters.dirty:
            self._state.instructions.append(Persist("consumerFilter"))

    def _register(self, now_ms: int) -> None:
        self._state.instructions.append(RegisterBroker())

    def _expire_clients(self, now_ms: int) -> None:
        expired = self._state.consumers.expired(now_ms) + self._state.producers.expired(now_ms)
        expired += self._state.filter_servers.expired(now_ms)
        for channel_id in sorted(set(expired)):
            self._state.instructions.append(CloseChannel(channel_id))

    def _bar_slow_readers(self, now_ms: int) -> None:
        state = self._state
        for group, behind_bytes in state.slow_readers.take().items():
            is_wanted = state.config.disable_consume_if_consumer_read_slowly
            if is_wanted and state.groups.disable_consumption(group, now_ms):
                values = {"group": group, "behind_bytes": behind_bytes}
                line = WriteLine(Appender.PROTECTION, "slow consumer group disabled", values)
                state.instructions.append(line)

    def _sample_store(self, now_ms: int) -> None:
        counts = self._state.store.statistics()
        names = ("put_count", "get_found_count", "get_missed_count", "get_message_count")
        totals = StoreTotals(*(counts[name] for name in names))
        self._state.store_stats.sample(now_ms, totals, lambda: self._state.measure().put_times)

    def _check_held(self, now_ms: int) -> None:
        held = self._state.held
        if not self._round and not 0 <= now_ms - self._round_began_ms < ROUND_MS_MIN:
            self._round = [note.hold_id for note in held.notes()]
            self._round_began_ms = now_ms
        checked = self._round[:HELD_CHECK_COUNT_MAX]
        del self._round[:HELD_CHECK_COUNT_MAX]
        for hold_id in checked:
            one = held.get(hold_id)
            if one is None:
                continue
            # None: only the disk has the end. The pull is run again, and reads it in the pool.
            end = self._state.store.max_queue_offset_nowait(one.note.topic, one.note.queue_id)
            has_grown = end is None or end > one.note.queue_offset
            if has_grown or one.is_over(now_ms, DEADLINE_GRACE_MS):
                self._wake(hold_id, now_ms)
