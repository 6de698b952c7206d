"""Decide what of the log is deleted, and when the disk is too full for more messages.

The core of the Retention service. Its input is a list of segments, the usage of the disks, the hour
and `now_ms`; its output says what to remove. `retention_files.py` reads and removes.

    disk used     effect
    > 90 %        no more messages are accepted; expired or not, the oldest segments go
    > 85 %        expired or not, the oldest segments go (cleanFileForciblyEnable), leased or not
    > 75 %        expired segments go at any hour (diskMaxUsedSpaceRatio)
    otherwise     expired segments go at the hours of deleteWhen

A segment is expired fileReservedTime hours after its last write. At any hour it goes once the log
after it has fileReservedBytes; 0 means no such limit, and 4.9.3 has none. Segments go oldest first,
at most 10 in a run, and a run ends at the first one that has to stay. A reader's lease
(`leases.py`) keeps a segment while the disk has room.

`AgeClock` is the time by which segments age. A clock that jumps a year ahead makes every segment
look a year old, and the next run would remove them all. So a jump does not count until the segments
of that moment have reached their age without it. A clock that is set back counts at once: segments
are then kept longer.

Invariants:
- Nothing is removed that a dispatcher has not consumed, however full the disk is.
- Nothing leased is removed, unless a disk is used above CLEAN_FORCIBLY_PERCENT.
- The segment being written, and any made ahead of need, is never removed.
- `AgeClock` never makes a segment older than it is by the steady clock, since it was made. It
  follows the wall clock again `reserved_ms` after the last jump, at the latest.

Source: org.apache.rocketmq.store.DefaultMessageStore.CleanCommitLogService,
CleanConsumeQueueService, MappedFileQueue.deleteExpiredFileByTime,
org.apache.rocketmq.common.UtilAll.getDiskPartitionSpaceUsedPercent, isItTimeToDo (4.9.3). There a
segment above the slowest dispatcher can be deleted, and ages go by the wall clock alone.
"""

from collections.abc import Sequence
from copy import copy
from typing import Final, NamedTuple

import msgspec

from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import DiskUsage
from wakelog.storage.log.mapped_file_queue import DIRECTORY_FULL_PERCENT

# System properties of 4.9.3 that are no keys of its configuration.
DISK_FULL_PERCENT: Final = 90
CLEAN_FORCIBLY_PERCENT: Final = DIRECTORY_FULL_PERCENT
# 4.9.3's DELETE_FILES_BATCH_MAX: unlinking a segment of 1 GiB keeps a disk busy for a while.
REMOVED_COUNT_MAX: Final = 10
# 4.9.3 leaves files alone for the first minute after a start.
FIRST_RUN_DELAY_MS: Final = 60_000
UNKNOWN_PERCENT: Final = -1
TOO_LONG: Final = "toolong"
NEVER_MS: Final = -1  # before any time at which a segment was written

HOUR_MS = 3_600_000


class Segment(NamedTuple):
    """One segment as listed: [start_offset, end_offset), last written at `modified_ms`."""

    start_offset: int
    end_offset: int
    modified_ms: int


class RetentionInput(NamedTuple):
    """What the decision is made on.

    hour: of the local day, 0 to 23.
    log_usages: of each directory of the log; None where the system did not say.
    queue_usage: of the directory of consume queues.
    appended: the log's end.
    dispatched: how far the slowest dispatcher has come.
    leased_from: the first physical offset that is leased, None if nothing is.
    """

    segments: Sequence[Segment]
    hour: int
    log_usages: Sequence[DiskUsage | None]
    queue_usage: DiskUsage | None
    appended: int
    dispatched: int
    leased_from: int | None = None


class RetentionDecision(NamedTuple):
    """What to do now.

    remove: start offsets of segments to remove, oldest first, `pause_ms` apart.
    derived_before: queue files and index files that end below this are to be removed by the
        process that writes them; None if it did not change.
    disk_full: whether messages are to be refused.
    reasons: why segments are removed, in 4.9.3's words except `TOO_LONG`; empty if this is no run.
    held_back_at: the segment that had to stay because dispatch has not passed it, None if none.
    leased_at: the segment that had to stay because a reader leases it, None if none.
    """

    remove: tuple[int, ...]
    pause_ms: int
    derived_before: int | None
    disk_full: bool
    reasons: tuple[str, ...]
    held_back_at: int | None
    leased_at: int | None
    next_step_ms: int


class RetentionStatistics(msgspec.Struct):
    """What the service measured and did since it was made."""

    log_used_percent: int = UNKNOWN_PERCENT
    queue_used_percent: int = UNKNOWN_PERCENT
    disk_full: bool = False
    runs_count: int = 0
    removed_count: int = 0
    held_back_count: int = 0
    leased_count: int = 0


class Retention:
    """The decisions of the retention service. No clock, no file."""

    def __init__(self, config: StoreConfig, now_ms: int) -> None:
        """Start waiting for the first run."""
        self.change_settings(config)
        self._first_run_ms = now_ms + FIRST_RUN_DELAY_MS
        self._derived_before = 0
        self._numbers = RetentionStatistics()

    def change_settings(self, config: StoreConfig) -> None:
        """Decide by these settings from now on."""
        self._config = config

    def step(self, store: RetentionInput, now_ms: int) -> RetentionDecision:
        """Decide by what was just read from the store; call again at `next_step_ms`."""
        numbers = self._numbers
        log_percents = map(used_percent, store.log_usages)
        numbers.log_used_percent = min(log_percents, default=UNKNOWN_PERCENT)
        numbers.queue_used_percent = used_percent(store.queue_usage)
        fullest = max(numbers.log_used_percent, numbers.queue_used_percent)
        numbers.disk_full = fullest > DISK_FULL_PERCENT
        reasons = self._reasons(store) if now_ms >= self._first_run_ms else ()
        choice = _Choice(())
        if reasons:
            is_pressed = fullest > CLEAN_FORCIBLY_PERCENT
            expired_ms, kept_from = NEVER_MS, self._kept_from(store.appended)
            if reasons != (TOO_LONG,):
                expired_ms = now_ms - self._config.file_reserved_hours * HOUR_MS
                if is_pressed and self._config.clean_file_forcibly_enable:
                    kept_from = store.appended
            leased_from = None if is_pressed else store.leased_from
            choice = _choose(store, expired_ms, kept_from, leased_from)
            numbers.runs_count += 1
            numbers.removed_count += len(choice.remove)
            numbers.held_back_count += choice.held_back_at is not None
            numbers.leased_count += choice.leased_at is not None
        return RetentionDecision(
            remove=choice.remove,
            pause_ms=self._config.delete_commit_log_files_interval_ms,
            derived_before=self._derived(store.segments) if now_ms >= self._first_run_ms else None,
            disk_full=numbers.disk_full,
            reasons=reasons,
            held_back_at=choice.held_back_at,
            leased_at=choice.leased_at,
            next_step_ms=now_ms + self._config.clean_resource_interval_ms,
        )

    def statistics(self) -> RetentionStatistics:
        """Return what was measured and done."""
        return copy(self._numbers)

    def _reasons(self, store: RetentionInput) -> tuple[str, ...]:
        """Return the reasons for which segments may go now; none if they may not."""
        reasons = []
        if store.hour in self._config.deletion_hours:
            reasons.append("timeup")
        percent_max = self._config.disk_used_space_percent_max
        # An unknown usage counts as too much, as in 4.9.3: it removes only expired segments.
        percents = (self._numbers.log_used_percent, self._numbers.queue_used_percent)
        if not all(0 <= percent <= percent_max for percent in percents):
            reasons.append("spacefull")
        if store.segments and store.segments[0].end_offset <= self._kept_from(store.appended):
            reasons.append(TOO_LONG)
        return tuple(reasons)

    def _kept_from(self, appended: int) -> int:
        """Return the offset below which the log exceeds fileReservedBytes."""
        reserved_bytes = self._config.file_reserved_bytes
        return appended - reserved_bytes if reserved_bytes else 0

    def _derived(self, segments: Sequence[Segment]) -> int | None:
        """Return the log's begin if it has moved since the last time."""
        begin = segments[0].start_offset if segments else 0
        if begin <= self._derived_before:
            return None
        self._derived_before = begin
        return begin


class _Choice(NamedTuple):
    """Segments to remove, and the one that ended the run, unless its age did."""

    remove: tuple[int, ...]
    held_back_at: int | None = None
    leased_at: int | None = None


def _choose(
    store: RetentionInput, expired_ms: int, kept_from: int, leased_from: int | None
) -> _Choice:
    """Choose the oldest segments that may go.

    expired_ms: a segment last written at or before this goes.
    kept_from: a segment that ends at or before this goes.
    leased_from: the log from here on stays; None keeps nothing.
    """
    chosen: list[int] = []
    for segment, following in zip(store.segments, store.segments[1:], strict=False):
        # The last written segment stays; later ones were made ahead of need.
        if len(chosen) >= REMOVED_COUNT_MAX or following.start_offset >= store.appended:
            break
        if segment.modified_ms > expired_ms and segment.end_offset > kept_from:
            break
        if segment.end_offset > store.dispatched:
            return _Choice(tuple(chosen), held_back_at=segment.start_offset)
        if leased_from is not None and segment.end_offset > leased_from:
            return _Choice(tuple(chosen), leased_at=segment.start_offset)
        chosen.append(segment.start_offset)
    return _Choice(tuple(chosen))


def used_percent(usage: DiskUsage | None) -> int:
    """Return how full a disk is in whole percent; -1 if unknown."""
    percent = None if usage is None else usage.used_percent
    return UNKNOWN_PERCENT if percent is None else percent


JUMP_MS_MIN = 60_000
"""A smaller difference between two calls is a clock being adjusted slowly, not set."""


class AgeClock:
    """The wall clock minus recent jumps ahead. No clock of its own."""

    __slots__ = ("_ahead_ms", "_jumped_ms", "_lag_ms", "reserved_ms")

    def __init__(self, reserved_ms: int, wall_ms: int, steady_ms: int) -> None:
        """Start with the wall clock as it is.

        reserved_ms: the age at which segments go. steady_ms: of a clock that is never set.
        """
        self.reserved_ms = reserved_ms
        self._ahead_ms = wall_ms - steady_ms
        self._lag_ms = 0
        self._jumped_ms = steady_ms

    def aging_ms(self, wall_ms: int, steady_ms: int) -> int:
        """Return the time by which segments age now."""
        moved_ms, self._ahead_ms = wall_ms - steady_ms - self._ahead_ms, wall_ms - steady_ms
        if moved_ms >= JUMP_MS_MIN:
            self._lag_ms += moved_ms
            self._jumped_ms = steady_ms
        elif moved_ms <= -JUMP_MS_MIN:
            self._lag_ms = max(0, self._lag_ms + moved_ms)
        if steady_ms - self._jumped_ms >= self.reserved_ms:
            self._lag_ms = 0
        return wall_ms - self._lag_ms
