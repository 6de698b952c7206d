"""What is deleted when: the rules as tables."""

from typing import Any

import msgspec
import pytest

from tests.fakes.stores import NOW_MS, store_config
from wakelog.storage.file_system import DiskUsage
from wakelog.storage.retention.retention import (
    FIRST_RUN_DELAY_MS,
    Retention,
    RetentionDecision,
    RetentionInput,
    Segment,
    used_percent,
)

BYTES = 1000
HOUR_MS = 3_600_000
CONFIG = store_config(delete_when="04;16", file_reserved_hours=72)


def usage(percent: float) -> DiskUsage:
    used = int(percent * 1000)
    return DiskUsage(100_000, used, 100_000 - used)


def retention_input(
    ages_h: list[float],
    *,
    percent: float = 10,
    queue_percent: float = 10,
    hour: int = 4,
    **values: Any,
) -> RetentionInput:
    """Segments 0, 1000, 2000, ... last written so many hours ago; the last one is being written."""
    segments = [
        Segment(i * BYTES, (i + 1) * BYTES, NOW_MS - int(age * HOUR_MS))
        for i, age in enumerate(ages_h)
    ]
    end = len(ages_h) * BYTES - 1
    values = {"appended": end, "dispatched": end} | values
    return RetentionInput(segments, hour, [usage(percent)], usage(queue_percent), **values)


def step(taken: RetentionInput, **values: Any) -> RetentionDecision:
    retention = Retention(msgspec.structs.replace(CONFIG, **values), NOW_MS - FIRST_RUN_DELAY_MS)
    return retention.step(taken, NOW_MS)


OLD = [100.0] * 5


@pytest.mark.parametrize(
    ("hour", "percent", "queue_percent", "reasons"),
    [
        (4, 10, 10, ("timeup",)),
        (16, 10, 10, ("timeup",)),
        (5, 10, 10, ()),
        (5, 75, 10, ()),
        (5, 75.001, 10, ("spacefull",)),
        (5, 10, 76, ("spacefull",)),
        (4, 80, 80, ("timeup", "spacefull")),
    ],
)
def test_when_segments_may_go(
    hour: int, percent: float, queue_percent: float, reasons: tuple[str, ...]
) -> None:
    decision = step(retention_input(OLD, hour=hour, percent=percent, queue_percent=queue_percent))
    assert decision.reasons == reasons
    assert decision.remove == ((0, 1000, 2000, 3000) if reasons else ())


@pytest.mark.parametrize(
    ("ages_h", "percent", "remove"),
    [
        ([100, 80, 72, 71.9, 0], 10, (0, 1000, 2000)),
        ([71, 100, 100, 100, 0], 10, ()),  # nothing in the middle goes
        ([100], 10, ()),  # the last one never goes
        ([], 10, ()),
        ([1, 1, 1, 1, 1], 85, ()),
        ([1, 1, 1, 1, 1], 85.5, (0, 1000, 2000, 3000)),
        ([1, 1, 1, 1, 1], 95, (0, 1000, 2000, 3000)),
        ([100] * 30, 10, tuple(range(0, 10_000, 1000))),  # ten in a run
    ],
)
def test_which_segments_go(ages_h: list[float], percent: float, remove: tuple[int, ...]) -> None:
    assert step(retention_input(ages_h, percent=percent)).remove == remove


@pytest.mark.parametrize(
    ("reserved_bytes", "remove"),
    [
        (0, ()),  # no such limit
        (5000, ()),
        (4000, ()),  # the log has 4,999 bytes: without its first segment 3,999
        (3999, (0,)),
        (2999, (0, 1000)),
        (1, (0, 1000, 2000, 3000)),  # what is being written stays
    ],
)
def test_a_log_that_is_too_long_loses_young_segments_at_any_hour(
    reserved_bytes: int, remove: tuple[int, ...]
) -> None:
    decision = step(retention_input([1, 1, 1, 1, 1], hour=5), file_reserved_bytes=reserved_bytes)
    assert decision.remove == remove
    assert decision.reasons == (("toolong",) if remove else ())


def test_the_length_holds_beside_the_other_reasons_and_dispatch_before_it() -> None:
    taken = retention_input([100, 100, 1, 1, 1], hour=4)
    assert step(taken).remove == (0, 1000)
    both = step(taken, file_reserved_bytes=1999)
    assert (both.reasons, both.remove) == (("timeup", "toolong"), (0, 1000, 2000))
    # By its length alone the log loses nothing for its age.
    alone = step(taken._replace(hour=5), file_reserved_bytes=3999)
    assert (alone.reasons, alone.remove) == (("toolong",), (0,))
    behind = step(taken._replace(hour=5, dispatched=1500), file_reserved_bytes=1999)
    assert (behind.remove, behind.held_back_at) == ((0,), 1000)


def test_a_young_segment_stays_on_a_full_disk_if_the_operator_says_so() -> None:
    taken = retention_input([1, 1, 1], percent=95)
    assert step(taken, clean_file_forcibly_enable=False).remove == ()
    assert step(taken, clean_file_forcibly_enable=True).remove == (0, 1000)


@pytest.mark.parametrize(
    ("percent", "queue_percent", "full"),
    [(90, 10, False), (90.1, 10, True), (10, 91, True), (10, 10, False)],
)
def test_when_no_more_messages_are_taken(percent: float, queue_percent: float, full: bool) -> None:
    assert (
        step(retention_input(OLD, percent=percent, queue_percent=queue_percent)).disk_full == full
    )


@pytest.mark.parametrize(
    ("dispatched", "remove", "held_back_at"),
    [
        (0, (), 0),
        (999, (), 0),
        (1000, (0,), 1000),
        (3500, (0, 1000, 2000), 3000),
        (4999, (0, 1000, 2000, 3000), None),
    ],
)
def test_nothing_goes_that_a_dispatcher_still_needs(
    dispatched: int, remove: tuple[int, ...], held_back_at: int | None
) -> None:
    decision = step(retention_input(OLD, percent=99, dispatched=dispatched))
    assert (decision.remove, decision.held_back_at) == (remove, held_back_at)


@pytest.mark.parametrize(
    ("leased_from", "percent", "remove", "leased_at"),
    [
        (None, 10, (0, 1000, 2000, 3000), None),
        (0, 10, (), 0),
        (999, 80, (), 0),
        (1000, 10, (0,), 1000),
        (2500, 85, (0, 1000), 2000),
        (9000, 10, (0, 1000, 2000, 3000), None),
        (0, 85.5, (0, 1000, 2000, 3000), None),  # disk pressure beats a lease
        (0, 95, (0, 1000, 2000, 3000), None),
    ],
)
def test_what_is_leased_stays_while_the_disk_has_room(
    leased_from: int | None, percent: float, remove: tuple[int, ...], leased_at: int | None
) -> None:
    decision = step(retention_input(OLD, percent=percent, leased_from=leased_from))
    assert (decision.remove, decision.leased_at) == (remove, leased_at)


def test_a_full_disk_takes_expired_segments_from_their_readers_whatever_the_operator_says() -> None:
    taken = retention_input([100, 100, 1, 1], percent=95, leased_from=0)
    assert step(taken, clean_file_forcibly_enable=False).remove == (0, 1000)


def test_runs_that_a_lease_has_ended_are_counted() -> None:
    retention = Retention(CONFIG, NOW_MS - FIRST_RUN_DELAY_MS)
    retention.step(retention_input(OLD, leased_from=1500), NOW_MS)
    retention.step(retention_input(OLD, leased_from=None), NOW_MS)
    assert retention.statistics().leased_count == 1


def test_segments_made_ahead_of_need_are_not_written_yet() -> None:
    """The log ends in segment 2; 3 and 4 are empty. What is being written is never removed."""
    for appended in (2000, 2500, 3000):
        taken = retention_input(OLD, percent=99, appended=appended, dispatched=appended)
        assert step(taken).remove == (0, 1000)[: (appended - 1) // BYTES]


def test_the_fullest_directory_does_not_count_but_the_emptiest() -> None:
    taken = retention_input(OLD, hour=5)._replace(log_usages=[usage(99), usage(50)])
    assert (step(taken).reasons, step(taken).disk_full) == ((), False)


def test_an_unknown_usage_frees_only_what_is_expired() -> None:
    taken = retention_input([100, 1, 1], hour=5)._replace(log_usages=[None])
    decision = step(taken)
    assert (decision.reasons, decision.remove, decision.disk_full) == (("spacefull",), (0,), False)


def test_the_first_minute_is_quiet_but_for_the_full_disk() -> None:
    retention = Retention(CONFIG, NOW_MS)
    early = retention.step(retention_input(OLD, percent=99), NOW_MS + FIRST_RUN_DELAY_MS - 1)
    assert (early.remove, early.disk_full, early.derived_before) == ((), True, None)
    assert early.next_step_ms == NOW_MS + FIRST_RUN_DELAY_MS - 1 + CONFIG.clean_resource_interval_ms
    assert retention.step(retention_input(OLD, percent=99), NOW_MS + FIRST_RUN_DELAY_MS).remove


def test_settings_may_change_between_two_steps() -> None:
    retention = Retention(CONFIG, NOW_MS - FIRST_RUN_DELAY_MS)
    found = retention_input(OLD, hour=7)
    assert not retention.step(found, NOW_MS).reasons
    replace = msgspec.structs.replace
    retention.change_settings(replace(CONFIG, delete_when="7", file_reserved_hours=101))
    assert retention.step(found, NOW_MS).reasons == ("timeup",)
    assert not retention.step(found, NOW_MS).remove
    retention.change_settings(replace(CONFIG, delete_when="7", file_reserved_hours=99))
    assert retention.step(found, NOW_MS).remove == (0, 1000, 2000, 3000)


def test_derived_files_follow_once_the_begin_has_moved() -> None:
    retention = Retention(CONFIG, NOW_MS - FIRST_RUN_DELAY_MS)
    assert retention.step(retention_input(OLD), NOW_MS).derived_before is None
    moved = retention_input(OLD)._replace(segments=retention_input(OLD).segments[2:])
    assert retention.step(moved, NOW_MS).derived_before == 2000
    assert retention.step(moved, NOW_MS).derived_before is None


def test_it_counts() -> None:
    retention = Retention(CONFIG, NOW_MS - FIRST_RUN_DELAY_MS)
    retention.step(retention_input(OLD, percent=91, queue_percent=20, dispatched=1000), NOW_MS)
    counted = retention.statistics()
    assert (counted.log_used_percent, counted.queue_used_percent) == (91, 20)
    assert (counted.runs_count, counted.removed_count, counted.held_back_count) == (1, 1, 1)
    assert counted.disk_full


def test_percents_are_rounded_up_and_leave_out_what_is_reserved() -> None:
    assert used_percent(DiskUsage(1000, 500, 500)) == 50
    assert used_percent(DiskUsage(1000, 501, 499)) == 51
    assert used_percent(DiskUsage(1000, 500, 300)) == 63
    assert used_percent(DiskUsage(0, 0, 0)) == used_percent(None) == -1
