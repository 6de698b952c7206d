"""The Java client with its headers in RocketMQ's binary form instead of JSON.

These depend on that form: fields with and without a value, text that is not ASCII, remarks,
responses without a body, one-way requests, and the broker's requests to a consumer.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.compat.clusters import Cluster
from tests.compat.driver import DriverError, JavaDriver, bodies, message, wait_until

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.daily("notifications")]

SETTLE_MS_MAX = 60_000


@pytest.fixture(scope="module")
def driver(cluster: Cluster) -> Iterator[JavaDriver]:
    """Yield the client, told to write binary headers; it reads either form."""
    with JavaDriver(cluster.name_server, header_form="ROCKETMQ") as started:
        assert started("headerForm") == "ROCKETMQ"
        yield started


@pytest.fixture
def queue(cluster: Cluster, topic: str) -> dict[str, Any]:
    """Name one queue of the test's topic, as arguments of the driver."""
    return {"topic": topic, "broker": cluster.broker_name, "queueId": 1}


def to(queue: dict[str, Any], body: bytes, **fields: Any) -> dict[str, Any]:
    """Describe a message to that queue."""
    place = {"broker": queue["broker"], "queueId": queue["queueId"]}
    return message(queue["topic"], body, **place, **fields)


def test_a_send_and_what_is_pulled(driver: JavaDriver, queue: dict[str, Any]) -> None:
    whole = {"tags": "Größe", "keys": "k1 k2", "flag": 7, "properties": {"städte": "東京"}}
    [sent] = driver("send", group="binary", messages=[to(queue, b"\x00\xff" * 9, **whole)])
    assert (sent["status"], sent["queueId"], sent["queueOffset"]) == ("SEND_OK", 1, 0)
    [got] = driver("pullBlocking", **queue, offset=0, countMax=9)["messages"]
    assert bodies([got]) == [b"\x00\xff" * 9]
    assert (got["msgId"], got["tags"], got["keys"]) == (sent["msgId"], "Größe", "k1 k2")
    assert (got["flag"], got["properties"]["städte"]) == (7, "東京")
    viewed = driver("viewById", topic=queue["topic"], id=sent["offsetMsgId"])
    assert bodies([viewed]) == bodies([got])


def test_a_batch_asynchronous_and_one_way_sends(driver: JavaDriver, queue: dict[str, Any]) -> None:
    batch = [message(queue["topic"], b"%d" % n) for n in range(3)]
    sent = driver("sendBatch", group="binary", messages=batch)
    assert (sent["status"], sent["offsetMsgId"].count(",")) == ("SEND_OK", 2)
    several = [to(queue, b"%d" % n) for n in range(16)]
    results = driver("sendAsync", group="binary", messages=several)
    assert [result["status"] for result in results] == ["SEND_OK"] * 16
    before = driver("maxOffset", **queue)
    driver("sendOneway", group="binary", messages=[to(queue, b"quiet")])
    wait_until(lambda: driver("maxOffset", **queue) > before, what="dispatched")


def test_a_refusal_comes_with_its_code_and_remark(
    driver: JavaDriver, queue: dict[str, Any]
) -> None:
    with pytest.raises(DriverError, match=r"request queueId\[9\] is illegal") as caught:
        driver("send", group="binary", messages=[to({**queue, "queueId": 9}, b"nowhere")])
    assert caught.value.code == 1
    nothing = {"key": "nobody", "countMax": 9, "begin": 0, "end": 1 << 42}
    with pytest.raises(DriverError, match="no message"):
        driver("queryByKey", topic=queue["topic"], **nothing)


def test_offsets_of_a_queue_and_of_a_group(driver: JavaDriver, queue: dict[str, Any]) -> None:
    driver("send", group="binary", messages=[to(queue, b"%d" % n) for n in range(3)])
    wait_until(lambda: driver("maxOffset", **queue) == 3, what="dispatched")
    assert driver("minOffset", **queue) == 0
    assert driver("offsetByTime", **queue, timestamp=0) == 0
    assert driver("earliestStoreTime", **queue) > 0
    assert driver("updateConsumeOffset", **queue, offset=2) == 2


@pytest.mark.parametrize("orderly", [False, True])
def test_a_push_consumer(
    cluster: Cluster, driver: JavaDriver, queue: dict[str, Any], orderly: bool
) -> None:
    topic = f"{queue['topic']}_{orderly}"
    driver("createTopic", address=cluster.broker, topic=topic, queues=2)
    group = f"group_{topic}"
    options = {"orderly": orderly, "expression": "a || ü"}
    driver("consume", name=topic, group=group, topics=[topic], **options)
    tags = ["a", "b", "ü", "a"]
    messages = [message(topic, b"%d" % n, tags=tag) for n, tag in enumerate(tags)]
    driver("send", group="binary", messages=messages)
    got = driver("consumed", name=topic, count=3, timeoutMs=SETTLE_MS_MAX)
    assert sorted(bodies(got)) == [b"0", b"2", b"3"]
    [member] = driver("consumers", group=group)["connectionSet"]
    assert member["clientId"].endswith(f"@{topic}")
    driver("stopConsuming", name=topic)


def test_a_message_that_failed_comes_again(driver: JavaDriver, topic: str) -> None:
    driver("consume", name=topic, group=f"group_{topic}", topics=[topic], failures=1)
    driver("send", group="binary", messages=[message(topic, b"again")])
    got = driver("consumed", name=topic, count=2, timeoutMs=SETTLE_MS_MAX)
    assert [(x["reconsumeTimes"], x["topic"]) for x in got] == [(0, topic), (1, topic)]
    driver("stopConsuming", name=topic)
