"""Where recovery begins: by positions, by times, and when the log is not what they say."""

import msgspec
import pytest

from tests.fakes.stores import NOW_MS
from tests.storage.recovery.test_steps import BYTES, CONFIG, KEY, CrashedStore
from wakelog.storage.durability.checkpoint import CheckpointTimes
from wakelog.storage.recovery.queues import QueueRepair
from wakelog.storage.recovery.search import (
    CheckPlan,
    RecoveringStore,
    Searched,
    checked_from_after_crash,
    first_store_timestamp_ms,
    plan_after_clean_exit,
    plan_after_crash,
    search_log_end,
)
from wakelog.storage.recovery.segments import load_segments
from wakelog.storage.recovery.watermark_trust import DurablePositions


def searched_store(crashed: CrashedStore) -> RecoveringStore:
    queues = QueueRepair(crashed.fs, CONFIG)
    queues.cut_unwritten(after_crash=True)
    files = load_segments(crashed.fs, CONFIG)
    return RecoveringStore(
        crashed.fs, CONFIG, files, queues, CheckpointTimes(), cut_at_damage=False, deleted={}
    )


def search(crashed: CrashedStore, watermark: int, dispatched: int) -> Searched:
    return search_log_end(
        searched_store(crashed), DurablePositions(watermark, dispatched), clean_exit=False
    )


@pytest.mark.parametrize(("watermark", "dispatched"), [(25, 25), (25, 28), (28, 25), (30, 25)])
def test_positions_are_gone_by_where_the_log_is_sound(watermark: int, dispatched: int) -> None:
    crashed = CrashedStore()
    places = [*crashed.places, crashed.end]
    found = search(crashed, places[watermark], places[dispatched])
    assert (found.plan.checked_from, found.plan.by_position) == (places[25], True)
    assert (found.end.records_checked_count, found.doubt) == (5, None)


def test_queues_with_units_are_cut_where_dispatch_begins_again() -> None:
    """In front of that nothing would give them their entries again."""
    crashed = CrashedStore()
    config = msgspec.structs.replace(CONFIG, enable_consume_queue_extension=True)
    store = searched_store(crashed)._replace(config=config)
    durable = DurablePositions(crashed.places[25], crashed.places[28])
    found = search_log_end(store, durable, clean_exit=False)
    assert found.plan.dispatch_from == crashed.places[28]
    assert store.queues.next_offsets({}) == {KEY: 28}


@pytest.mark.parametrize(("watermark", "dispatched"), [(0, 25), (25, 0)])
def test_without_one_of_them_nothing_is_doubted(watermark: int, dispatched: int) -> None:
    crashed = CrashedStore()
    found = search(crashed, crashed.places[watermark], crashed.places[dispatched])
    assert (found.plan.checked_from, found.plan.by_position, found.doubt) == (0, False, None)


@pytest.mark.parametrize(
    ("victim", "doubt"), [(24, "the records in front of"), (26, "what was durable is damaged at")]
)
def test_damage_has_the_whole_segment_checked(victim: int, doubt: str) -> None:
    crashed = CrashedStore()
    crashed.overwrite(crashed.places[victim] + 150, b"\x55")
    found = search(crashed, crashed.end, crashed.places[25])
    assert (found.plan.checked_from, found.plan.by_position) == (0, False)
    assert [one.begin for one in found.end.damaged] == [crashed.places[victim]]
    assert found.doubt is not None and found.doubt.startswith(doubt)


def test_a_torn_tail_is_no_reason_for_doubt() -> None:
    crashed = CrashedStore()
    crashed.overwrite(crashed.places[27] + 150, b"\x55")
    found = search(crashed, crashed.places[25], crashed.end)
    assert (found.end.physical_offset, found.doubt) == (crashed.places[27], None)


def test_after_a_clean_stop_the_last_segments_are_checked() -> None:
    crashed = CrashedStore(clean=True)
    found = search_log_end(searched_store(crashed), DurablePositions(crashed.end), clean_exit=True)
    assert (found.plan.checked_from, found.end.physical_offset) == (BYTES, crashed.end)
    assert found.doubt is None


TIMES = CheckpointTimes(NOW_MS + 12_000, NOW_MS + 12_000, 0)


@pytest.mark.parametrize(
    ("watermark", "dispatched", "queues_end", "expected"),
    [
        (9_000, 8_000, 8_500, CheckPlan(8_000, 8_000, 8_000, by_position=True)),
        (9_000, 9_500, 9_500, CheckPlan(9_000, 9_500, 9_000, by_position=True)),
        (9_000, 8_000, 7_000, CheckPlan(7_000, 7_000, 7_000, by_position=True)),
        (9_000, 8_000, -1, CheckPlan(0, 0, 0, by_position=True)),  # the queues were removed
        (9_000, 0, 8_500, CheckPlan(BYTES, BYTES, BYTES)),
        (0, 8_000, 8_500, CheckPlan(BYTES, BYTES, BYTES)),
    ],
)
def test_after_a_crash(
    watermark: int, dispatched: int, queues_end: int, expected: CheckPlan
) -> None:
    crashed = CrashedStore()
    files = load_segments(crashed.fs, CONFIG)
    positions = DurablePositions(watermark, dispatched)
    assert plan_after_crash(CONFIG, files, TIMES, queues_end, positions) == expected


def test_after_a_clean_stop_three_segments() -> None:
    crashed = CrashedStore(clean=True)
    files = load_segments(crashed.fs, CONFIG)
    assert plan_after_clean_exit(files, crashed.end) == CheckPlan(BYTES, crashed.end, BYTES)
    assert plan_after_clean_exit(files, 100) == CheckPlan(BYTES, 100, 0)


def test_a_clock_that_was_set_back_makes_recovery_begin_earlier() -> None:
    """4.9.3 would begin at the last segment, whose first message is old."""
    crashed = CrashedStore()
    crashed.overwrite(crashed.places[24] + 56, (NOW_MS - 10**6).to_bytes(8, "big"))
    files = load_segments(crashed.fs, CONFIG)
    assert checked_from_after_crash(files, NOW_MS + 12_000) == BYTES
    assert checked_from_after_crash(files, NOW_MS - 1) == 0
    assert checked_from_after_crash(files, NOW_MS + 10**6) == 3 * BYTES


def test_the_first_time_of_a_segment() -> None:
    crashed = CrashedStore()
    crashed.overwrite(2 * BYTES, bytes(8))
    files = load_segments(crashed.fs, CONFIG).files
    times = [first_store_timestamp_ms(file) for file in files]
    assert times == [NOW_MS, NOW_MS + 8000, None, NOW_MS + 24_000]
