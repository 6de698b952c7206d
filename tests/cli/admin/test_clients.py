"""What clients say of themselves, and what is wrong with them."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cli.admin.conftest import AdminCommand
from tests.compat.frames import RawConnection
from wakelog.cli.admin.clients import complaints_of, has_one_subscription, running_text
from wakelog.client.errors import ClientError
from wakelog.protocol.bodies import ConsumerRunningInfo, SubscriptionData
from wakelog.protocol.body_codec import MessageQueue, encode_body

HEARTBEAT, RUNNING_INFO, UPDATE_OFFSET = 34, 307, 15
NOW_MS = 1_700_000_000_000
QUEUE = MessageQueue("T", "broker-a", 1)
PUSH = {"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY", "PROP_CONSUMER_START_TIMESTAMP": "0"}
ORDERLY = PUSH | {"PROP_CONSUMEORDERLY": "true"}
BLOCKED = {"lastConsumeTimestamp": NOW_MS - 60_001, "cachedMsgCount": 1}
COMPLAINTS = [
    (PUSH, BLOCKED, "can't consume for a while, maybe blocked, 60001ms"),
    (PUSH, {**BLOCKED, "cachedMsgCount": 0}, ""),
    (PUSH, {**BLOCKED, "lastConsumeTimestamp": NOW_MS - 60_000}, ""),
    (
        ORDERLY,
        {"lastLockTimestamp": NOW_MS - 5},
        "lock for a while, 5ms",
    ),
    (ORDERLY, {"locked": True}, ""),
    (
        ORDERLY,
        {"locked": True, "droped": True, "tryUnlockTimes": 2},
        "unlock 2 times, still failed",
    ),
    ({"PROP_CONSUME_TYPE": "CONSUME_ACTIVELY"}, BLOCKED, ""),
]


def info(properties: dict[str, str], *topics: str, **process: Any) -> ConsumerRunningInfo:
    subscriptions = [SubscriptionData(topic=topic, sub_string="*") for topic in topics]
    return ConsumerRunningInfo(properties, subscriptions, {QUEUE: process} if process else {})


@pytest.mark.parametrize(("properties", "process", "complaint"), COMPLAINTS)
def test_what_is_wrong_with_a_queue(
    properties: dict[str, str], process: dict[str, int], complaint: str
) -> None:
    found = list(complaints_of("c1", info(properties, **process), NOW_MS))
    assert [line.endswith(complaint) for line in found] == [True] * bool(complaint)
    assert all("c1 MessageQueue [topic=T, brokerName=broker-a, queueId=1] " in x for x in found)


def test_subscriptions_of_a_group_are_compared_once_it_has_settled() -> None:
    young = PUSH | {"PROP_CONSUMER_START_TIMESTAMP": str(NOW_MS - 120_000)}
    same = {"a": info(PUSH, "T", "U"), "b": info(PUSH, "U", "T")}
    assert has_one_subscription({}, NOW_MS)
    assert has_one_subscription(same, NOW_MS)
    assert not has_one_subscription(same | {"c": info(PUSH, "T")}, NOW_MS)
    assert not has_one_subscription({"a": info(PUSH)}, NOW_MS)
    assert has_one_subscription({"a": info(young, "T"), "b": info(PUSH, "U")}, NOW_MS)


def test_what_a_client_does_is_a_text_of_its_parts() -> None:
    found = info(PUSH, "T", commitOffset=7, locked=True, lastPullTimestamp=NOW_MS)
    found.status_table = {"T": {"pullRT": 1.5, "consumeFailedMsgs": 2}}
    found.jstack = "threads"
    lines = [line.split() for line in running_text(found).splitlines()]
    assert ["PROP_CONSUME_TYPE", ":", "CONSUME_PASSIVELY"] in lines
    assert ["001", "Topic:", "T", "ClassFilter:", "false", "SubExpression:", "*"] in lines
    assert ["T", "broker-a", "1", "7"] in lines
    assert ["T", "1.50", "0.00", "0.00", "0.00", "0.00", "2"] in lines
    assert lines[-2:] == [["#Consumer", "jstack#"], ["threads"]]
    [detail] = [" ".join(line) for line in lines if "ProcessQueueInfo" in line]
    assert "commitOffset=7, cachedMsgMinOffset=0" in detail
    assert "locked=true, tryUnlockTimes=0" in detail


@contextmanager
def answering(connection: RawConnection, count: int, found: ConsumerRunningInfo) -> Iterator[None]:
    """Answer so many questions for what the client does."""

    def answer() -> None:
        for _ in range(count):
            connection.reply(connection.wait_pushed(RUNNING_INFO), encode_body(found))

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        thread.join()


@pytest.mark.process
@pytest.mark.slow
def test_the_clients_of_a_group_and_a_round_of_the_monitor(admin: AdminCommand) -> None:
    topic, group = admin.create("watched"), "watchers"
    admin(f"sendMessage -t {topic} -b broker-a -i 1 -p body")
    subscription = {"topic": topic, "subString": "*", "subVersion": 1}
    body = {
        "clientID": "c2",
        "consumerDataSet": [
            {
                "groupName": group,
                "consumeType": "CONSUME_PASSIVELY",
                "subscriptionDataSet": [subscription],
            }
        ],
    }
    said = info(PUSH, **BLOCKED)
    with RawConnection(admin.cluster.broker, language="JAVA", version=399) as connection:
        assert connection.ask(HEARTBEAT, body=json.dumps(body).encode()).code == 0
        place = {"consumerGroup": group, "topic": topic, "queueId": 1, "commitOffset": 0}
        assert connection.ask(UPDATE_OFFSET, place).code == 0
        with answering(connection, 3, said):
            listed = admin(f"consumerStatus -g {group}")
            detail = admin(f"consumerStatus -g {group} -i c2")
            round_ = admin.first(5, "startMonitoring")
        with pytest.raises(ClientError, match="c3"):
            admin(f"consumerStatus -g {group} -i c3")
    assert listed[0].split() == ["001", "c2", "V4_9_3"]
    assert listed[-1].endswith("Different subscription in the same group of consumer!!!")
    assert detail[0] == "#Consumer Properties#"
    assert round_[0] == f"[MONITOR] {'=' * 41}beginRound"
    lag = "undoneMsgsTotal=1, undoneMsgsSingleMQ=1, undoneMsgsDelayTimeMills=0"
    assert round_[1].startswith("[MONITOR] reportUndoneMsgs: UndoneMsgs [consumerGroup=watchers, ")
    assert round_[1].endswith(f"{lag}]")
    assert round_[2].endswith("ConsumerGroup: watchers, Subscription different")
    assert "ConsumerGroup: watchers, ClientId: c2, c2 MessageQueue [topic=T, " in round_[3]
    assert round_[4].endswith("endRound")


@pytest.mark.process
@pytest.mark.slow
def test_the_clients_of_a_consumer_group(admin: AdminCommand, online: str) -> None:
    said = admin(f"consumerConnection -g {online}")
    assert said[0].split() == ["#ClientId", "#ClientAddr", "#Language", "#Version"]
    assert said[1].split()[::2] == ["c1", "JAVA"]
    assert said[1].endswith("V4_9_3")
    assert ["online_topic", "*"] in [line.split() for line in said]
    assert "MessageModel: CLUSTERING" in said


@pytest.mark.process
@pytest.mark.slow
def test_the_clients_of_a_producer_group(admin: AdminCommand, online: str) -> None:
    topic = admin.create("produced")
    [row] = admin.json(f"producerConnection -g online_producer -t {topic}")
    assert (row["number"], row["clientId"]) == (1, "c1")
    with pytest.raises(ClientError, match="absent"):
        admin(f"producerConnection -g absent -t {topic}")


@pytest.mark.process
@pytest.mark.slow
def test_a_group_without_consumers_has_no_connection(admin: AdminCommand) -> None:
    with pytest.raises(ClientError, match="no broker has had a consumer of group absent"):
        admin("consumerConnection -g absent")
