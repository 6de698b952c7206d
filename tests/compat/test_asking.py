"""What a broker asks its clients: request and reply, and an operator's questions about them.

The Java client sends codes 222, 223, 307, 309 and 325, and is sent 220, 221, 307, 309 and 326.
"""

import time
from typing import Any

import pytest

from tests.compat.clusters import Cluster
from tests.compat.driver import DriverError, JavaDriver

pytestmark = [pytest.mark.java, pytest.mark.daily("notifications")]

SYSTEM_ERROR = 1
TOPIC_NOT_EXIST = 17
CONSUMER_NOT_ONLINE = 206
WAIT_MS = 20_000


def start_consumer(driver: JavaDriver, topic: str, group: str, count: int) -> str:
    """Start a consumer that gets `count` messages, and return its client id."""
    driver("consume", name=group, group=group, topics=[topic])
    assert len(driver("consumed", name=group, count=count, timeoutMs=WAIT_MS)) == count
    found = driver.once_there(TOPIC_NOT_EXIST, "consumers", group=group)  # the retry topic's route
    (client,) = found["connectionSet"]
    return str(client["clientId"])


def send_all(driver: JavaDriver, cluster: Cluster, topic: str, count: int) -> list[str]:
    """Send messages to queue 0, and return their ids."""
    queue = {"topic": topic, "broker": cluster.broker_name, "queueId": 0}
    messages = [{**queue, "body": f"m{i}"} for i in range(count)]
    sent = driver("send", group="asking", messages=messages)
    return [str(each["offsetMsgId"]) for each in sent]


def test_a_reply_reaches_the_client_that_asked(driver: JavaDriver, topic: str) -> None:
    driver("answerRequests", group="answering", topic=topic)
    asked = {"group": "asking", "topic": topic, "body": "hello", "timeoutMs": WAIT_MS}
    assert driver("ask", **asked) == {"topic": "DefaultCluster_REPLY_TOPIC", "body": "HELLO"}


def test_the_clients_of_a_producer_group_are_listed(
    cluster: Cluster, driver: JavaDriver, topic: str
) -> None:
    send_all(driver, cluster, topic, 1)
    (client,) = driver("producers", group="asking", topic=topic)["connectionSet"]
    assert client["language"] == "JAVA"
    with pytest.raises(DriverError) as caught:
        driver("producers", group="no_such_group", topic=topic)
    assert caught.value.code == SYSTEM_ERROR
    assert "the producer group[no_such_group] not exist" in caught.value.message


def test_a_consumer_is_asked_what_it_does(cluster: Cluster, driver: JavaDriver, topic: str) -> None:
    (message_id,) = send_all(driver, cluster, topic, 1)
    client = start_consumer(driver, topic, "asked", 1)
    place: dict[str, Any] = {"group": "asked", "client": client}
    info = driver("runningInfo", **place, stack=True)
    # Four of the topic. The one of the retry topic comes when the client next asks for its route.
    assert info.pop("queues") in (4, 5)
    assert info == {"type": "CONSUME_PASSIVELY", "hasStack": True}
    consumed = driver("consumeDirectly", **place, messageId=message_id)
    assert consumed["consumeResult"] == "CR_SUCCESS"
    with pytest.raises(DriverError) as caught:
        driver("runningInfo", group="asked", client="nobody", stack=False)
    assert caught.value.code == SYSTEM_ERROR
    assert "The Consumer <asked> <nobody> not online" in caught.value.message


def test_offsets_are_reset_at_the_clients(cluster: Cluster, driver: JavaDriver, topic: str) -> None:
    send_all(driver, cluster, topic, 3)
    client = start_consumer(driver, topic, "resetting", 3)
    driver("commit", name="resetting")
    place: dict[str, Any] = {"topic": topic, "group": "resetting"}
    status = driver("status", **place)
    assert status[client]["0"] == 3
    long_ago = int(time.time() * 1000) - 3_600_000
    reset = driver("resetOffset", **place, timestamp=long_ago, force=True)
    assert reset["0"] == 0
    assert len(driver("consumed", name="resetting", count=6, timeoutMs=WAIT_MS)) == 6
    driver("stopConsuming", name="resetting")
    for group, code in (("resetting", CONSUMER_NOT_ONLINE), ("never_seen", SYSTEM_ERROR)):
        with pytest.raises(DriverError) as caught:
            driver("resetOffset", topic=topic, group=group, timestamp=long_ago, force=True)
        assert caught.value.code == code
