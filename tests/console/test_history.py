"""What a history keeps of snapshots that are given."""

import pytest

from wakelog.client.errors import ClientError
from wakelog.console.changes import HOUR_MS
from wakelog.console.cluster_reading import (
    BrokerReading,
    ClusterReading,
    GroupReading,
    NameServerReading,
)
from wakelog.console.history import (
    CONSUMED,
    DEAD_LETTERS,
    DISK,
    LAG,
    RETRIED,
    SAMPLE_MS_MIN,
    SAMPLES_MAX,
    Change,
    History,
    Unmoved,
)
from wakelog.protocol.bodies import BrokerData, ClusterInfo, ConsumeStats, OffsetWrapper
from wakelog.protocol.body_codec import MessageQueue

QUEUE = MessageQueue("T", "a", 0)


def seen(
    now_ms: int, *, ends: tuple[int, int] = (0, 0), disk: str = "0.5", fails: bool = False
) -> ClusterReading:
    """Return a snapshot of one broker and one group. ends: of the queue, and of the group."""
    broker = BrokerReading("c", "a", 0, "a:1", values={"commitLogDiskRatio": disk})
    broker.failure = ClientError("no answer", "Wait") if fails else None
    group = GroupReading(progress=ConsumeStats({QUEUE: OffsetWrapper(*ends)}))
    return ClusterReading(
        now_ms, brokers=[broker], groups={"g": group}, dead_letters={"g": ends[0]}
    )


def history_of(*snapshots: ClusterReading) -> History:
    history = History()
    for each in snapshots:
        history.add(each)
    return history


def test_a_change_is_of_the_first_and_the_last_number() -> None:
    history = history_of(
        seen(0, ends=(5, 5), disk="none"),
        seen(10_000, ends=(9, 5), disk="0.5"),
        seen(20_000, ends=(7, 6), disk="0.6"),
    )
    assert history.change(LAG, "g") == Change(0, 1, 20_000)
    assert history.change(DEAD_LETTERS, "g") == Change(5, 7, 20_000)
    assert history.change(DISK, "a:1") == Change(0.5, 0.6, 10_000)
    assert history.change(DISK, "b:1") is None
    assert history_of(seen(0)).change(DISK, "a:1") is None


def test_an_hour_is_bounded_however_often_a_cluster_is_read() -> None:
    history = History()
    for now_ms in range(0, 3 * HOUR_MS, SAMPLE_MS_MIN // 3):
        history.add(seen(now_ms))
    assert len(history._times_ms) <= SAMPLES_MAX
    assert all(len(x) == len(history._times_ms) for x in history._series.values())
    change = history.change(DISK, "a:1")
    assert change is not None
    assert HOUR_MS - 2 * SAMPLE_MS_MIN <= change.elapsed_ms <= HOUR_MS
    history.add(ClusterReading(5 * HOUR_MS))
    assert not history._series


def test_more_numbers_than_there_is_room_for_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wakelog.console.history.SERIES_MAX", 2)
    assert len(history_of(seen(0), seen(10_000))._series) == 2


def test_a_sum_without_a_brokers_part_is_no_number() -> None:
    history = history_of(seen(0, ends=(9, 5)), seen(10_000, ends=(3, 3), fails=True))
    assert history.change(LAG, "g") is None
    assert history.change(DISK, "a:1") is not None


def test_a_clock_that_is_set_back_begins_a_new_hour() -> None:
    history = history_of(seen(HOUR_MS), seen(HOUR_MS + 10_000), seen(0))
    assert history.change(DISK, "a:1") is None
    assert history.unmoved == {("g", QUEUE): Unmoved(0, 0, 0)}


def test_an_offset_that_stays_is_known_with_its_time_and_queue() -> None:
    history = history_of(seen(0, ends=(5, 1)), seen(9_000, ends=(8, 2)), seen(18_000, ends=(9, 2)))
    assert history.unmoved == {("g", QUEUE): Unmoved(9_000, 2, 8)}
    history.add(ClusterReading(20_000))
    assert not history.unmoved


def test_a_group_that_has_all_of_a_queue_stays_for_no_time() -> None:
    history = history_of(seen(0, ends=(5, 5)), seen(9_000, ends=(5, 5)), seen(18_000, ends=(6, 5)))
    assert history.unmoved == {("g", QUEUE): Unmoved(18_000, 5, 6, clear_ms=18_000)}


def test_what_a_broker_away_had_is_known_on() -> None:
    broker_away = ClusterReading(9_000, brokers=[BrokerReading("c", "a", 0, "a:1")])
    broker_away.brokers[0].failure = ClientError("no answer", "Wait")
    history = history_of(seen(0, ends=(5, 5)), broker_away)
    assert history.unmoved[("g", QUEUE)].clear_ms == 0 and len(history.unmoved) == 1
    history.add(ClusterReading(18_000, brokers=[BrokerReading("c", "b", 0, "b:1")]))
    assert not history.unmoved


def test_a_reading_without_an_answer_changes_nothing() -> None:
    history = history_of(
        seen(0, ends=(5, 1)), ClusterReading(9_000, failure=ClientError("x", "Wait"))
    )
    assert history.unmoved == {("g", QUEUE): Unmoved(0, 1, 5)}
    history.add(seen(18_000, ends=(9, 1)))
    lag = history.lag("g", history.latest.groups["g"])
    assert (lag.messages, lag.grown, lag.is_growing) == (8, 4, True)


def test_the_first_dead_letter_comes_after_none() -> None:
    before = seen(0)
    before.dead_letters.clear()
    history = history_of(before, seen(10_000, ends=(3, 3)))
    assert history.change(DEAD_LETTERS, "g") == Change(0, 3, 10_000)
    away = seen(0, fails=True)
    assert history_of(away, seen(10_000, ends=(3, 3))).change(DEAD_LETTERS, "g") is None


def test_name_servers_that_differ_are_known_with_the_time() -> None:
    def servers(now_ms: int, *addresses: str) -> ClusterReading:
        found = ClusterReading(now_ms)
        for number, address in enumerate(addresses):
            table = {"a": BrokerData("c", "a", {0: address})} if address else {}
            found.name_servers.append(NameServerReading(f"n:{number}", ClusterInfo(table)))
        found.info = found.name_servers[0].info
        return found

    history = history_of(servers(0, "a:1", "a:1"), servers(9_000, "a:1", ""))
    history.add(servers(18_000, "a:1", ""))
    assert history.unlike == {("a", "n:1"): 9_000}
    history.add(servers(27_000, "a:1", "a:1"))
    assert not history.unlike


def test_retries_and_what_is_consumed_otherwise_are_counted_apart() -> None:
    snapshots = [seen(0, ends=(9, 4)), seen(10_000, ends=(9, 6))]
    for snapshot, ends in zip(snapshots, ((5, 5), (8, 6)), strict=True):
        places = snapshot.groups["g"].progress.offset_table
        places[MessageQueue("%RETRY%g", "a", 0)] = OffsetWrapper(*ends)
    history = history_of(*snapshots)
    assert history.change(RETRIED, "g") == Change(5, 8, 10_000)
    assert history.change(CONSUMED, "g") == Change(4, 6, 10_000)
