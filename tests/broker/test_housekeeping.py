"""What a broker does by time."""

import pytest

from tests.broker.harness import NOW_MS, Harness, sql_subscription, subscription
from wakelog.broker import housekeeping
from wakelog.broker.decision import (
    CloseChannel,
    Continue,
    Instruction,
    Persist,
    Push,
    RegisterBroker,
)
from wakelog.broker.membership import CLIENT_EXPIRED_MS
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand


def tick(harness: Harness, after_ms: int) -> list[Instruction]:
    """Tick at every due moment up to `after_ms` from the start."""
    end_ms = NOW_MS + after_ms
    while harness.broker.next_tick_ms() <= end_ms:
        harness.now_ms = harness.broker.next_tick_ms()
        harness.broker.tick(harness.now_ms)
    harness.now_ms = end_ms
    return harness.instructions()


def commit(harness: Harness) -> None:
    fields = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "5"}
    assert harness.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields).code == ResponseCode.SUCCESS


def test_offsets_are_written_each_interval_if_they_moved(harness: Harness) -> None:
    """flushConsumerOffsetInterval 5 s."""
    assert tick(harness, 5_000) == []
    commit(harness)
    assert tick(harness, 9_999) == []
    assert Persist("consumerOffset") in tick(harness, 10_000)


def test_a_clock_that_is_set_back_holds_up_nothing(harness: Harness) -> None:
    commit(harness)
    harness.broker.tick(NOW_MS - 3_600_000)
    assert Persist("consumerOffset") in harness.instructions()
    assert harness.broker.next_tick_ms() <= NOW_MS - 3_600_000 + 5_000


def test_offsets_that_were_written_are_not_written_again(harness: Harness) -> None:
    commit(harness)
    assert Persist("consumerOffset") in tick(harness, 5_000)
    harness.broker.tables["consumerOffset"].snapshot()()
    assert Persist("consumerOffset") not in tick(harness, 10_000)


def test_filters_are_written_every_10_s_if_they_changed(harness: Harness) -> None:
    harness.beat("g", sql_subscription("a > 1"))
    harness.instructions()
    assert Persist("consumerFilter") not in tick(harness, 9_999)
    assert Persist("consumerFilter") in tick(harness, 10_000)
    harness.broker.tables["consumerFilter"].snapshot()()
    assert Persist("consumerFilter") not in tick(harness, 20_000)


def test_filters_that_are_dead_for_a_day_go(harness: Harness) -> None:
    harness.beat("g", sql_subscription("a > 1"))
    harness.broker.channel_closed(harness.channel, harness.now_ms)
    harness.broker.tables["consumerFilter"].snapshot()()
    harness.instructions()  # a new filter is saved before its heartbeat is answered
    assert Persist("consumerFilter") not in tick(harness, 86_390_000)
    assert Persist("consumerFilter") in tick(harness, 86_400_000)
    assert len(harness.broker.state.filters) == 0


@pytest.mark.parametrize(
    ("interval_ms", "written_at_ms"), [("10000", 1_000), ("500", 500), ("1000", 1_000)]
)
def test_delay_offsets_are_written_soon_after_they_moved(
    interval_ms: str, written_at_ms: int
) -> None:
    """flushDelayOffsetInterval, but a kill repeats at most a second of deliveries."""
    harness = Harness(flushDelayOffsetInterval=interval_ms)
    harness.send("T", i="DELAY\x011")
    harness.instructions()
    harness.deliver_delayed()
    assert tick(harness, written_at_ms - 1) == []
    assert tick(harness, written_at_ms) == [Persist("delayOffset")]
    harness.broker.tables["delayOffset"].snapshot()()
    assert Persist("delayOffset") not in tick(harness, 4_000)


def test_light_offsets_have_their_own_file() -> None:
    harness = Harness(enableLmq="true")
    commit(harness)
    assert Persist("lmqConsumerOffset") in tick(harness, 5_000)


@pytest.mark.parametrize(
    ("period_ms", "registers_at_ms"), [("30000", 30_000), ("1", 10_000), ("600000", 60_000)]
)
def test_a_broker_registers_again_within_10_to_60_s(period_ms: str, registers_at_ms: int) -> None:
    """The first time after 10 s: at the start a name server may have been away."""
    harness = Harness(registerNameServerPeriod=period_ms)
    assert RegisterBroker() not in tick(harness, 9_999)
    assert RegisterBroker() in tick(harness, 10_000)
    assert RegisterBroker() not in tick(harness, 10_000 + registers_at_ms - 1)
    assert RegisterBroker() in tick(harness, 10_000 + registers_at_ms)


def test_a_period_can_be_changed_while_the_broker_runs(harness: Harness) -> None:
    body = b"registerNameServerPeriod=10000"
    assert harness.ask(RequestCode.UPDATE_BROKER_CONFIG, body=body).code == ResponseCode.SUCCESS
    tick(harness, 30_000)
    assert tick(harness, 39_999).count(RegisterBroker()) == 0
    assert tick(harness, 40_000).count(RegisterBroker()) == 1


def test_silent_clients_are_closed(harness: Harness) -> None:
    harness.beat("g", subscription())
    harness.beat_producer("pg")
    harness.instructions()
    closing = [i for i in tick(harness, CLIENT_EXPIRED_MS) if isinstance(i, CloseChannel)]
    assert closing == []
    assert CloseChannel(1) in tick(harness, CLIENT_EXPIRED_MS + 10_000)
    harness.broker.channel_closed(harness.channel, harness.now_ms)
    assert not any(isinstance(i, CloseChannel) for i in tick(harness, CLIENT_EXPIRED_MS + 60_000))


def test_expired_locks_are_dropped(harness: Harness) -> None:
    harness.broker.state.locks.lock("g", "c", {MessageQueue("T", "b", 0)}, NOW_MS - 1)
    tick(harness, 60_000)
    assert harness.broker.statistics()["locks"]["lock_count"] == 0


def test_a_held_pull_is_answered_after_its_deadline_without_a_wake(harness: Harness) -> None:
    harness.send("T")
    harness.hold(queueOffset=1, suspendTimeoutMillis=3_000)
    harness.instructions()
    assert not any(isinstance(i, Push) for i in tick(harness, 3_000))
    pushed = [i for i in tick(harness, 10_000) if isinstance(i, Push)]
    assert [push.command.code for push in pushed] == [ResponseCode.PULL_NOT_FOUND]


def test_a_held_pull_is_answered_though_the_clock_was_set_back(harness: Harness) -> None:
    harness.send("T")
    harness.hold(queueOffset=1, suspendTimeoutMillis=3_000)
    harness.instructions()
    harness.broker.tick(NOW_MS - 3_600_000)
    pushed = [i for i in harness.instructions() if isinstance(i, Push)]
    assert [push.command.code for push in pushed] == [ResponseCode.PULL_NOT_FOUND]


def test_a_held_pull_is_answered_after_its_queue_grew_without_a_wake(harness: Harness) -> None:
    """Section 4.2: the scan every 5 s."""
    harness.send("T")
    harness.hold(queueOffset=1)
    harness.send("T")
    harness.instructions()
    pushed = [i for i in tick(harness, 6_000) if isinstance(i, Push)]
    assert [push.command.code for push in pushed] == [ResponseCode.SUCCESS]


def test_one_run_checks_a_bounded_number_of_held_pulls(
    monkeypatch: pytest.MonkeyPatch, harness: Harness
) -> None:
    monkeypatch.setattr(housekeeping, "HELD_CHECK_COUNT_MAX", 2)
    harness.send("T")
    for _ in range(5):
        harness.hold(queueOffset=1)
    harness.send("T")
    harness.instructions()
    answered = [
        sum(isinstance(i, Push) for i in tick(harness, moment)) for moment in (5_000, 6_000, 7_000)
    ]
    assert answered == [2, 2, 1]


def test_a_held_pull_of_a_cold_queue_is_read_in_the_pool(harness: Harness) -> None:
    harness.send("T")
    harness.hold(queueOffset=1)
    harness.send("T")
    harness.instructions()
    harness.store.cold = True
    (again,) = [i for i in tick(harness, 6_000) if isinstance(i, Continue)]
    response = harness.settle(again.outcome)
    assert isinstance(response, RemotingCommand) and response.code == ResponseCode.SUCCESS
