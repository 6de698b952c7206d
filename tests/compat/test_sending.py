"""What a producer is told: results of every way to send, and errors with their codes."""

from typing import Any

import pytest

from tests.compat.clusters import Cluster
from tests.compat.driver import DriverError, JavaDriver, bodies, message, wait_until

pytestmark = [pytest.mark.java, pytest.mark.daily("notifications")]


def test_synchronous_sends_to_one_queue_are_numbered_from_zero(
    cluster: Cluster, driver: JavaDriver, topic: str
) -> None:
    place: dict[str, Any] = {"broker": cluster.broker_name, "queueId": 2}
    sent = driver("send", group="g", messages=[message(topic, **place) for _ in range(3)])
    assert [result["status"] for result in sent] == ["SEND_OK"] * 3
    assert [result["queueId"] for result in sent] == [2, 2, 2]
    assert [result["queueOffset"] for result in sent] == [0, 1, 2]
    assert len({result["offsetMsgId"] for result in sent}) == 3


def test_asynchronous_sends_are_all_answered(driver: JavaDriver, topic: str) -> None:
    sent = driver("sendAsync", group="g", messages=[message(topic) for _ in range(64)])
    assert [result["status"] for result in sent] == ["SEND_OK"] * 64
    places = [(result["queueId"], result["queueOffset"]) for result in sent]
    assert len(set(places)) == 64


def test_a_batch_is_one_request_with_consecutive_offsets(
    cluster: Cluster, driver: JavaDriver, topic: str
) -> None:
    sent = driver("sendBatch", group="g", messages=[message(topic, b"%d" % n) for n in range(5)])
    assert sent["status"] == "SEND_OK"
    assert sent["offsetMsgId"].count(",") == sent["msgId"].count(",") == 4
    place: dict[str, Any] = {"broker": cluster.broker_name, "queueId": sent["queueId"]}
    # A queue grows message by message, and a pull is answered with the first.
    wait_until(lambda: driver("maxOffset", topic=topic, **place) == 5, what="dispatched")
    pulled = driver("pull", topic=topic, offset=0, countMax=32, **place)
    assert bodies(pulled["messages"]) == [b"0", b"1", b"2", b"3", b"4"]


def test_one_way_sends_arrive_without_an_answer(
    cluster: Cluster, driver: JavaDriver, topic: str
) -> None:
    place: dict[str, Any] = {"broker": cluster.broker_name, "queueId": 1}
    assert driver("sendOneway", group="g", messages=[message(topic, b"quiet", **place)]) == 1
    pulled = driver("pullBlocking", topic=topic, offset=0, countMax=32, **place)
    assert bodies(pulled["messages"]) == [b"quiet"]


def test_what_was_sent_comes_back_as_it_was(
    cluster: Cluster, driver: JavaDriver, topic: str
) -> None:
    place: dict[str, Any] = {"broker": cluster.broker_name, "queueId": 0}
    whole = {"tags": "Größe", "keys": "k1 k2", "flag": 7, "properties": {"städte": "東京"}}
    [sent] = driver("send", group="g", messages=[message(topic, b"\x00\xff" * 9, **whole, **place)])
    [got] = driver("pullBlocking", topic=topic, offset=0, countMax=1, **place)["messages"]
    assert bodies([got]) == [b"\x00\xff" * 9]
    assert (got["tags"], got["keys"], got["flag"]) == ("Größe", "k1 k2", 7)
    assert got["properties"]["städte"] == "東京"
    assert (got["msgId"], got["queueOffset"]) == (sent["msgId"], 0)
    assert got["storeHost"] == f"/{cluster.broker}"


def test_a_large_body_is_compressed_on_the_way_and_whole_on_arrival(
    cluster: Cluster, driver: JavaDriver, topic: str
) -> None:
    place: dict[str, Any] = {"broker": cluster.broker_name, "queueId": 0}
    driver("send", group="g", messages=[message(topic, b"abcd" * 5000, **place)])
    [got] = driver("pullBlocking", topic=topic, offset=0, countMax=1, **place)["messages"]
    assert bodies([got]) == [b"abcd" * 5000]
    assert got["sizeBytes"] < 1000


def test_the_first_send_creates_its_topic(cluster: Cluster, driver: JavaDriver) -> None:
    [sent] = driver("send", group="g", messages=[message("created_by_a_send")])
    assert sent["status"] == "SEND_OK"
    # 4.9.3 registers such a topic one-way: 17, TOPIC_NOT_EXIST, until the name server has it.
    route = driver.once_there(17, "route", topic="created_by_a_send")
    [queue_data] = route["queueDatas"]
    assert queue_data["brokerName"] == cluster.broker_name
    assert (queue_data["readQueueNums"], queue_data["writeQueueNums"]) == (4, 4)
    assert queue_data["perm"] == 6


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"queueId": 9}, 1),  # SYSTEM_ERROR: there are four queues
        ({"properties": {"p": "x" * 33_000}}, 13),  # MESSAGE_ILLEGAL: 32,767 bytes at most
    ],
)
def test_what_cannot_be_stored_is_refused_with_its_code(
    cluster: Cluster, driver: JavaDriver, fields: dict[str, Any], code: int
) -> None:
    driver("createTopic", address=cluster.broker, topic="refusing", queues=4)
    place: dict[str, Any] = {"broker": cluster.broker_name, "queueId": 0}
    with pytest.raises(DriverError) as caught:
        driver("send", group="g", messages=[message("refusing", **{**place, **fields})])
    assert (caught.value.type_name, caught.value.code) == ("MQBrokerException", code)


def test_the_broker_takes_what_a_route_without_permission_would_have_stopped(
    cluster: Cluster, driver: JavaDriver
) -> None:
    # 4.9.3 checks its own permission; the topic's is left to the client, which has the route.
    driver("createTopic", address=cluster.broker, topic="read_only", queues=4, perm=4)
    [sent] = driver(
        "send",
        group="g",
        messages=[message("read_only", broker=cluster.broker_name, queueId=0)],
    )
    assert sent["status"] == "SEND_OK"
    with pytest.raises(DriverError, match="No route info of this topic"):
        driver("send", group="g", messages=[message("read_only")])
