"""Ends of queues and lags of groups, measured on demand and bounded."""

import math
from collections.abc import Callable
from typing import cast

import pytest

from tests.broker.harness import NOW_MS, Harness
from wakelog.broker.broker_stats import MINUTE, BrokerStats
from wakelog.broker.consumer_offsets import ConsumerOffsets
from wakelog.broker.queue_progress import QueueProgress, measure, select
from wakelog.broker.seen_queues import SeenQueues
from wakelog.storage.message_store import MessageStore

COUNT = 4


def always() -> bool:
    return True


@pytest.fixture
def stored(harness: Harness) -> Harness:
    """Four messages in queue 0 of T, two in queue 1, one in queue 0 of U; a second apart."""
    for topic, queue_id, count in (("T", 0, COUNT), ("T", 1, 2), ("U", 0, 1)):
        for _ in range(count):
            harness.now_ms += 1_000
            harness.send(topic, e=str(queue_id))
    harness.store.dispatch()
    return harness


def measured(
    harness: Harness,
    *commits: tuple[str, str, int, int],
    queues_max: int = 100,
    has_time: Callable[[], bool] = always,
    traffic: BrokerStats | None = None,
) -> QueueProgress:
    offsets = ConsumerOffsets()
    for group, topic, queue_id, queue_offset in commits:
        offsets.commit(group, topic, queue_id, queue_offset)
    selection = select(offsets, queues_max)
    store = cast(MessageStore, harness.store)
    minute = (traffic or BrokerStats()).minute()
    seen = SeenQueues(store, None)
    return measure(selection, seen, harness.now_ms, has_time, minute, queues_max)


def test_every_queue_has_an_end(stored: Harness) -> None:
    assert measured(stored).max_offset == {"T": {0: COUNT, 1: 2}, "U": {0: 1}}


def test_a_lag_is_what_was_not_consumed(stored: Harness) -> None:
    found = measured(stored, ("g", "T", 0, 1), ("g", "T", 1, 2), ("h", "T", 0, COUNT))
    assert found.lag == {"g": {"T": {0: COUNT - 1, 1: 0}}, "h": {"T": {0: 0, 1: 2}}}


@pytest.mark.parametrize(
    ("commits", "seconds"),
    [
        ([("g", "T", 0, 1), ("g", "T", 1, 2)], 5.0),
        ([("g", "T", 0, COUNT), ("g", "T", 1, 1)], 1.0),
        ([("g", "T", 0, COUNT), ("g", "T", 1, 2)], 0.0),
        ([("g", "T", 0, COUNT), ("g", "T", 1, -1)], 2.0),
    ],
)
def test_the_age_is_that_of_the_first_message_not_consumed(
    stored: Harness, commits: list[tuple[str, str, int, int]], seconds: float
) -> None:
    assert stored.now_ms == NOW_MS + 7_000
    assert measured(stored, *commits).oldest_seconds == {"g": {"T": seconds}}


def test_committed_offsets_are_added_together(stored: Harness) -> None:
    found = measured(stored, ("g", "T", 0, 3), ("g", "T", 1, -1), ("h", "U", 0, 1))
    assert found.consumed == {"g": {"T": 3}, "h": {"U": 1}}


@pytest.mark.parametrize(
    ("got_count", "offset", "seconds"),
    [
        (1_800, 1, 3 / 20),  # 10 stored and 30 handed out in a second
        (600, 1, math.inf),
        (0, 1, math.inf),
        (0, COUNT, 0.0),
    ],
)
def test_a_group_catches_up_by_the_rates_of_the_last_minute(
    stored: Harness, got_count: int, offset: int, seconds: float
) -> None:
    traffic = BrokerStats()
    traffic.count_put("T", 1, 100)
    traffic.count_get("T", "g", 1, 100)
    for sample in range(7):
        traffic.sample(MINUTE, stored.now_ms + sample * 10_000)
        traffic.count_put("T", 100, 100)
        traffic.count_get("T", "g", got_count // 6, 100)
    found = measured(stored, ("g", "T", 0, offset), ("g", "T", 1, 2), traffic=traffic)
    assert found.catch_up_seconds == {"g": {"T": pytest.approx(seconds)}}


def test_a_group_of_a_topic_that_is_gone_is_left_out(stored: Harness) -> None:
    found = measured(stored, ("g", "gone", 0, 1))
    assert found.lag == {}
    assert found.left_out == {"queue": 0, "group": 0}


def test_what_there_is_no_room_for_is_counted(stored: Harness) -> None:
    commits = [("g", "T", 0, 1), ("g", "T", 1, 1), ("h", "T", 0, 1)]
    found = measured(stored, *commits, queues_max=2)
    assert found.max_offset == {"T": {0: COUNT, 1: 2}}
    assert list(found.lag) == ["g"]
    assert found.left_out == {"queue": 1, "group": 1}


def test_queues_of_the_groups_come_before_others(stored: Harness) -> None:
    found = measured(stored, ("g", "U", 0, 0), queues_max=1)
    assert (found.max_offset, found.lag) == ({"U": {0: 1}}, {"g": {"U": {0: 1}}})
    assert found.left_out == {"queue": 2, "group": 0}


def test_what_there_is_no_time_for_is_counted(stored: Harness) -> None:
    found = measured(stored, ("g", "T", 0, 1), has_time=lambda: False)
    assert (found.max_offset, found.lag) == ({}, {})
    assert found.left_out == {"queue": 3, "group": 1}
