"""Code 11 (facts 29, 36, 37)."""

import json
from collections.abc import Callable

import pytest

from tests.broker.harness import NOW_MS, Harness, Waiting, begun, pull_fields, subscription
from wakelog.broker import held_requests
from wakelog.broker.decision import HoldPull, ReadAhead
from wakelog.broker.effects import InPool
from wakelog.broker.processors.pull import SUSPEND_MS_MAX, WITHOUT_TIMEOUT_MS
from wakelog.protocol.bodies import SubscriptionGroupConfig
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.record import decode_record
from wakelog.protocol.sys_flag import (
    PULL_BY_BYTES,
    PULL_COMMIT_OFFSET,
    PULL_LARGE,
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
)
from wakelog.storage.log.append import PutStatus
from wakelog.storage.read.read_ahead_windows import WINDOW_BYTES
from wakelog.storage.read.reader import GetStatus

MakeHarness = Callable[..., Harness]
COMMIT = PULL_COMMIT_OFFSET | PULL_SUBSCRIPTION
SUSPEND = PULL_SUSPEND | PULL_SUBSCRIPTION


def offsets(next_begin: int, begin: int, end: int, broker_id: int = 0) -> dict[str, str]:
    return {
        "suggestWhichBrokerId": str(broker_id),
        "nextBeginOffset": str(next_begin),
        "minOffset": str(begin),
        "maxOffset": str(end),
    }


def fill(harness: Harness, count: int = 3, begin: int = 0) -> None:
    """Send messages to queue 0 of T and lose the first of them."""
    for _ in range(count):
        harness.send("T")
    harness.store.queues_by_name["T", 0].begin = begin
    harness.instructions()


def test_messages_are_answered_as_they_are_stored(harness: Harness) -> None:
    harness.send("T", b"one")
    harness.send("T", b"two")
    response = harness.pulled()
    assert (response.code, response.remark) == (ResponseCode.SUCCESS, "FOUND")
    assert response.ext_fields == offsets(2, 0, 2)
    first = decode_record(response.body)
    second = decode_record(response.body, first.size_bytes)
    assert [first.body, second.body] == [b"one", b"two"]
    assert first.size_bytes + second.size_bytes == len(response.body)
    traffic = harness.traffic()["get_by_topic_and_group"]
    assert traffic == {"T": {"g": (2, len(response.body))}}


# Section 4.1, a queue of [begin, end): what is asked, status, next offset, code.
STATUSES = [
    (0, 0, 0, GetStatus.NO_MESSAGE_IN_QUEUE, 0, ResponseCode.PULL_NOT_FOUND),
    (0, 0, 5, GetStatus.NO_MESSAGE_IN_QUEUE, 0, ResponseCode.PULL_OFFSET_MOVED),
    (2, 5, 1, GetStatus.OFFSET_TOO_SMALL, 2, ResponseCode.PULL_OFFSET_MOVED),
    (0, 5, -1, GetStatus.OFFSET_TOO_SMALL, 0, ResponseCode.PULL_OFFSET_MOVED),
    (0, 5, 5, GetStatus.OFFSET_OVERFLOW_ONE, 5, ResponseCode.PULL_NOT_FOUND),
    (0, 5, 6, GetStatus.OFFSET_OVERFLOW_BADLY, 0, ResponseCode.PULL_OFFSET_MOVED),
    (2, 5, 6, GetStatus.OFFSET_OVERFLOW_BADLY, 5, ResponseCode.PULL_OFFSET_MOVED),
    (2, 5, 2, GetStatus.FOUND, 5, ResponseCode.SUCCESS),
]


@pytest.mark.parametrize(("begin", "end", "asked", "status", "next_begin", "code"), STATUSES)
def test_a_status_has_its_code(
    harness: Harness,
    begin: int,
    end: int,
    asked: int,
    status: GetStatus,
    next_begin: int,
    code: ResponseCode,
) -> None:
    harness.send("T", e="1")
    if end:
        fill(harness, end, begin)
    response = harness.pulled(queueOffset=asked)
    assert (response.code, response.remark) == (code, status.value)
    assert response.ext_fields == offsets(next_begin, begin, end)


def test_a_missing_consume_queue_file_is_nothing_found(harness: Harness) -> None:
    fill(harness)
    harness.store.missing_entries = True
    response = harness.pulled(queueOffset=1)
    assert (response.code, response.remark) == (ResponseCode.PULL_NOT_FOUND, "OFFSET_FOUND_NULL")


def test_nothing_that_matches_moves_the_offset(harness: Harness) -> None:
    """Fact 31: PULL_RETRY_IMMEDIATELY with a moved nextBeginOffset."""
    fill(harness)
    response = harness.pulled(subscription="nobody", queueOffset=1)
    assert response.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert response.ext_fields["nextBeginOffset"] == "3"


@pytest.mark.parametrize("max_msg_nums", [0, -1])
def test_a_pull_for_no_message_gets_one(harness: Harness, max_msg_nums: int) -> None:
    """Section 12: the Go client asks for 0 and 4.9.3 still delivers."""
    fill(harness)
    assert harness.pulled(maxMsgNums=max_msg_nums).ext_fields["nextBeginOffset"] == "1"


@pytest.mark.parametrize("flags", [0, PULL_BY_BYTES, PULL_BY_BYTES | PULL_LARGE])
def test_a_client_may_have_a_batch_ended_by_its_bytes(harness: Harness, flags: int) -> None:
    fill(harness)
    harness.pulled(sysFlag=PULL_SUBSCRIPTION | flags, maxMsgNums=256)
    assert harness.store.asked_by_bytes is bool(flags & PULL_BY_BYTES)
    assert harness.store.asked_large is bool(flags & PULL_LARGE)


# Which broker to pull from next (section 4.1, fact 36): slaveReadEnable, slow, broker id.
@pytest.mark.parametrize(
    ("slave_read", "slow", "broker_id"),
    [("false", False, 0), ("false", True, 0), ("true", False, 5), ("true", True, 7)],
)
def test_a_broker_is_suggested(
    make_harness: MakeHarness, slave_read: str, slow: bool, broker_id: int
) -> None:
    harness = make_harness(slaveReadEnable=slave_read)
    group = SubscriptionGroupConfig("g", broker_id=5, which_broker_when_consume_slowly=7)
    harness.broker.state.groups.update(group, NOW_MS)
    fill(harness)
    harness.store.far_behind = slow
    assert harness.pulled().ext_fields["suggestWhichBrokerId"] == str(broker_id)


def test_a_consumer_far_behind_has_the_log_read_ahead(harness: Harness) -> None:
    harness.send("T", bytes(WINDOW_BYTES - 1_000))
    harness.send("T", bytes(2_000))
    harness.send("T", b"in the next window")
    harness.instructions()
    harness.store.fall_behind_bytes = 10 * WINDOW_BYTES
    read_ahead = []
    for queue_offset in range(3):
        harness.pulled(queueOffset=queue_offset, maxMsgNums=1)
        read_ahead += [it for it in harness.instructions() if isinstance(it, ReadAhead)]
    assert read_ahead == [ReadAhead(2 * WINDOW_BYTES, WINDOW_BYTES)]


def slave(make_harness: MakeHarness, **keys: str) -> Harness:
    harness = make_harness(brokerRole="SLAVE", brokerId="1", **keys)
    fill(harness)
    group = SubscriptionGroupConfig("g", broker_id=5)
    harness.broker.state.groups.update(group, NOW_MS)
    return harness


def test_a_slave_corrects_no_client(make_harness: MakeHarness) -> None:
    """Section 4.1: 21 becomes 20 on a slave with offsetCheckInSlave=false."""
    harness = slave(make_harness)
    response = harness.pulled(queueOffset=9)
    assert response.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert response.ext_fields["suggestWhichBrokerId"] == "5"
    assert harness.store.messages("OFFSET_MOVED_EVENT") == []


def test_a_slave_that_is_to_check_offsets_does(make_harness: MakeHarness) -> None:
    harness = slave(make_harness, offsetCheckInSlave="true")
    assert harness.pulled(queueOffset=9).code == ResponseCode.PULL_OFFSET_MOVED


# Offsets that a pull commits (section 4.1, fact 37).


def committed(harness: Harness) -> int:
    return harness.broker.state.offsets.query("g", "T", 0)


@pytest.mark.parametrize(
    ("flag", "asked", "kept"),
    [(COMMIT, 0, 2), (PULL_SUBSCRIPTION, 0, -1), (COMMIT, 9, 2), (COMMIT | SUSPEND, 3, 2)],
    ids=["with the flag", "without it", "with an illegal offset", "when suspended"],
)
def test_a_pull_commits_the_offset_it_brings(
    harness: Harness, flag: int, asked: int, kept: int
) -> None:
    fill(harness)
    harness.pull(sysFlag=flag, queueOffset=asked, commitOffset=2)
    assert committed(harness) == kept


def test_a_refused_pull_commits_nothing(harness: Harness) -> None:
    fill(harness)
    assert harness.pulled(sysFlag=COMMIT, queueId=77, commitOffset=2).code != 0
    assert committed(harness) == -1


def test_a_pull_without_what_it_does_not_need_is_answered(harness: Harness) -> None:
    fill(harness)
    fields = pull_fields(sysFlag=COMMIT | PULL_SUBSCRIPTION)
    for name in ("commitOffset", "suspendTimeoutMillis", "subVersion"):
        del fields[name]
    assert harness.ask(RequestCode.PULL_MESSAGE, fields).code == ResponseCode.SUCCESS
    assert committed(harness) == -1


def test_a_woken_pull_commits_nothing(harness: Harness) -> None:
    fill(harness)
    note = harness.hold(sysFlag=COMMIT | SUSPEND, queueOffset=3, commitOffset=2)
    harness.broker.state.offsets.commit("g", "T", 0, 1)
    harness.broker.wake([note.hold_id], note.deadline_ms)
    assert committed(harness) == 1


def test_a_pull_at_a_slave_commits_nothing(make_harness: MakeHarness) -> None:
    harness = slave(make_harness)
    harness.pull(sysFlag=COMMIT, commitOffset=2)
    assert committed(harness) == -1


# Suspension (section 4.2).


def test_a_pull_at_the_end_of_its_queue_waits(harness: Harness) -> None:
    fill(harness)
    note = harness.hold(queueOffset=3, suspendTimeoutMillis=20_000)
    assert note == HoldPull(1, "T", 0, 3, NOW_MS + 20_000, None)


def test_a_pull_of_an_empty_queue_waits(harness: Harness) -> None:
    harness.send("T", e="1")
    assert harness.hold().queue_offset == 0


def test_the_tags_it_waits_for_are_in_the_note(harness: Harness) -> None:
    fill(harness)
    assert harness.hold(queueOffset=3, subscription="A||B").codes == frozenset({65, 66})


@pytest.mark.parametrize(
    "changes",
    [
        {"sysFlag": PULL_SUBSCRIPTION, "queueOffset": 3},
        {"sysFlag": SUSPEND, "queueOffset": 9},
        {"sysFlag": SUSPEND, "queueOffset": 0, "subscription": "nobody"},
    ],
)
def test_a_pull_that_may_not_wait_is_answered(harness: Harness, changes: dict[str, object]) -> None:
    fill(harness)
    assert harness.pulled(**changes).code != ResponseCode.SUCCESS
    assert harness.broker.state.held.notes() == []


def test_reply_19_carries_the_next_offset(harness: Harness) -> None:
    """Section 12: the Go client needs nextBeginOffset there."""
    fill(harness)
    assert harness.pulled(queueOffset=3).ext_fields == offsets(3, 0, 3)


def test_without_long_polling_a_pull_waits_shortly(make_harness: MakeHarness) -> None:
    harness = make_harness(longPollingEnable="false", shortPollingTimeMills="700")
    fill(harness)
    assert harness.hold(queueOffset=3).deadline_ms == NOW_MS + 700


@pytest.mark.parametrize("timeout_ms", [0, -5])
def test_a_client_that_waits_for_no_time_pauses_all_the_same(
    harness: Harness, timeout_ms: int
) -> None:
    fill(harness)
    note = harness.hold(queueOffset=3, suspendTimeoutMillis=timeout_ms)
    assert note.deadline_ms == NOW_MS + WITHOUT_TIMEOUT_MS


def test_no_pull_waits_for_ever(harness: Harness) -> None:
    fill(harness)
    note = harness.hold(queueOffset=3, suspendTimeoutMillis=2**62)
    assert note.deadline_ms == NOW_MS + SUSPEND_MS_MAX


def test_when_too_many_wait_the_next_is_answered(
    monkeypatch: pytest.MonkeyPatch, harness: Harness
) -> None:
    fill(harness)
    monkeypatch.setattr(held_requests, "HOLDS_MAX", 1)
    harness.hold(queueOffset=3)
    response = harness.pulled(sysFlag=SUSPEND, queueOffset=3)
    assert response.code == ResponseCode.PULL_NOT_FOUND


# Reading from the disk.


def test_a_read_that_would_block_goes_to_the_pool(harness: Harness) -> None:
    fill(harness)
    harness.store.cold = True
    request = harness.request(RequestCode.PULL_MESSAGE, pull_fields(sysFlag=COMMIT, commitOffset=1))
    outcome = begun(harness.broker.process(request, harness.channel, NOW_MS))
    assert isinstance(outcome, Waiting) and isinstance(outcome.effect, InPool)
    assert committed(harness) == -1
    response = harness.settle(outcome)
    assert isinstance(response, RemotingCommand)
    assert response.code == ResponseCode.SUCCESS
    assert committed(harness) == 1


def test_a_pull_from_the_pool_may_wait_too(harness: Harness) -> None:
    fill(harness)
    harness.store.cold = True
    assert harness.hold(queueOffset=3).hold_id == 1


# What is checked before the store is asked: settings, header, code, begin of the remark.
REFUSALS = [
    (
        "a broker that may not be read",
        {"brokerPermission": "2"},
        {},
        (ResponseCode.NO_PERMISSION, "the broker[127.0.0.1] pulling message is forbidden"),
    ),
    (
        "an unknown group",
        {"autoCreateSubscriptionGroup": "false"},
        {},
        (
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            "subscription group [g] does not exist, \nSee http",
        ),
    ),
    (
        "a group that is no name",
        {},
        {"consumerGroup": "../g"},
        (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "subscription group [../g] does not exist"),
    ),
    (
        "an unknown topic",
        {},
        {"topic": "U"},
        (ResponseCode.TOPIC_NOT_EXIST, "topic[U] not exist, apply first please! \nSee http"),
    ),
    (
        "a queue that is not there",
        {},
        {"queueId": 4},
        (
            ResponseCode.SYSTEM_ERROR,
            "queueId[4] is illegal, topic:[T] topicConfig.readQueueNums:[4] "
            "consumer:[/127.0.0.9:40001]",
        ),
    ),
    (
        "a negative queue",
        {},
        {"queueId": -1},
        (ResponseCode.SYSTEM_ERROR, "queueId[-1] is illegal"),
    ),
]


@pytest.mark.parametrize(
    ("keys", "changes", "refusal"), [r[1:] for r in REFUSALS], ids=[r[0] for r in REFUSALS]
)
def test_a_pull_is_refused(
    make_harness: MakeHarness,
    keys: dict[str, str],
    changes: dict[str, object],
    refusal: tuple[int, str],
) -> None:
    harness = make_harness(**keys)
    fill(harness)
    response = harness.pulled(**changes)
    code, remark = refusal
    assert response.code == code
    assert (response.remark or "").startswith(remark)
    assert harness.store.asked == []


def test_a_group_that_may_not_consume_is_refused(harness: Harness) -> None:
    fill(harness)
    harness.broker.state.groups.update(SubscriptionGroupConfig("g", consume_enable=False), NOW_MS)
    response = harness.pulled()
    assert response.code == ResponseCode.NO_PERMISSION
    assert response.remark == "subscription group no permission, g"


def test_a_topic_that_may_not_be_read_is_refused(harness: Harness) -> None:
    fill(harness)
    topic = harness.broker.state.topics.get("T")
    assert topic is not None
    topic.perm = 2
    response = harness.pulled()
    assert response.code == ResponseCode.NO_PERMISSION
    assert response.remark == "the topic[T] pulling message is forbidden"


def test_a_light_queue_is_pulled_without_a_topic(make_harness: MakeHarness) -> None:
    """Section 3, LMQ: implicit configuration."""
    harness = make_harness(enableLmq="true")
    harness.send("%LMQ%q", b"light")
    response = harness.pulled(topic="%LMQ%q", consumerGroup="%LMQ%g")
    assert decode_record(response.body).body == b"light"


@pytest.mark.parametrize(("dispatches", "code"), [("true", 1), ("false", 0)])
def test_too_many_light_queues_are_not_pulled(
    make_harness: MakeHarness, dispatches: str, code: int
) -> None:
    limit = {"maxLmqConsumeQueueNum": "1", "enableMultiDispatch": dispatches}
    harness = make_harness(enableLmq="true", **limit)
    light = {"topic": "%LMQ%q", "consumerGroup": "%LMQ%g"}
    harness.send("%LMQ%q")
    assert harness.pulled(**light).code == ResponseCode.SUCCESS
    harness.send("%LMQ%r")
    response = harness.pulled(**light)
    assert response.code == code
    if code:
        assert response.remark == (
            "store getMessage return null: there are 2 light queues, and maxLmqConsumeQueueNum=1"
        )
    harness.send("T")
    assert harness.pulled().code == ResponseCode.SUCCESS


def test_a_push_consumer_pulls_by_its_heartbeat(harness: Harness) -> None:
    fill(harness)
    harness.beat("g", subscription("T", "*", version=3))
    response = harness.pulled(sysFlag=0, subscription="", subVersion=3)
    assert response.code == ResponseCode.SUCCESS


def test_a_corrected_offset_is_written_down(harness: Harness) -> None:
    harness.send("T")
    assert harness.pulled(queueOffset=9).code == ResponseCode.PULL_OFFSET_MOVED
    (event,) = harness.store.messages("OFFSET_MOVED_EVENT")
    assert json.loads(event.body) == {
        "consumerGroup": "g",
        "messageQueue": {"brokerName": "broker-a", "queueId": 0, "topic": "T"},
        "offsetNew": 0,
        "offsetRequest": 9,
    }
    assert event.properties_text == "KEYS\x01g\x02DELAY\x010\x02TAGS\x01g"  # 4.9.3's bytes
    assert event.born_host == event.store_host == ("127.0.0.1", 10_911)
    assert event.born_timestamp_ms == NOW_MS


def test_a_pull_gets_its_response_although_the_store_refuses_the_event(harness: Harness) -> None:
    harness.send("T")
    harness.store.refusal = PutStatus.SERVICE_NOT_AVAILABLE
    assert harness.pulled(queueOffset=9).code == ResponseCode.PULL_OFFSET_MOVED
