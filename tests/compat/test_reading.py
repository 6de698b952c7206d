"""What a reader gets: every status of a pull, filters by tag, queries, offsets by time."""

import time
from typing import Any

import pytest

from tests.compat.clusters import Cluster
from tests.compat.driver import DriverError, JavaDriver, bodies, message, wait_until

pytestmark = [pytest.mark.java, pytest.mark.daily("notifications")]


@pytest.fixture
def queue(cluster: Cluster, topic: str) -> dict[str, Any]:
    """Name one queue of the test's topic, as arguments of the driver."""
    return {"topic": topic, "broker": cluster.broker_name, "queueId": 0}


def fill(driver: JavaDriver, queue: dict[str, Any], count: int, **fields: Any) -> list[Any]:
    """Send numbered messages to the queue and wait until they can be read."""
    place = {"broker": queue["broker"], "queueId": queue["queueId"]}
    numbered = [message(queue["topic"], b"%d" % n, **place, **fields) for n in range(count)]
    sent = driver("send", group="g", messages=numbered)
    end = sent[-1]["queueOffset"] + 1
    wait_until(lambda: driver("maxOffset", **queue) == end, what="dispatched")
    return list(sent)


@pytest.mark.parametrize(
    ("offset", "status", "next_offset", "count"),
    [
        (0, "FOUND", 5, 5),
        (3, "FOUND", 5, 2),
        (5, "NO_NEW_MSG", 5, 0),  # at the end; a pull that is not held says so at once
        (6, "OFFSET_ILLEGAL", 0, 0),  # beyond the end of a queue that begins at 0: to its begin
        (1 << 40, "OFFSET_ILLEGAL", 0, 0),
    ],
)
def test_statuses_of_a_pull(
    cluster: Cluster, driver: JavaDriver, offset: int, status: str, next_offset: int, count: int
) -> None:
    queue = {"topic": "statuses", "broker": cluster.broker_name, "queueId": 0}
    driver("createTopic", address=cluster.broker, topic="statuses", queues=4)
    if driver("maxOffset", **queue) == 0:
        fill(driver, queue, 5)
    pulled = driver("pull", **queue, offset=offset, countMax=32)
    found = (pulled["status"], pulled["nextBeginOffset"], len(pulled["messages"]))
    assert found == (status, next_offset, count)
    assert (pulled["minOffset"], pulled["maxOffset"]) == (0, 5)


def test_a_pull_is_cut_at_the_count_asked_for(driver: JavaDriver, queue: dict[str, Any]) -> None:
    fill(driver, queue, 5)
    pulled = driver("pull", **queue, offset=0, countMax=2)
    assert bodies(pulled["messages"]) == [b"0", b"1"]
    assert pulled["nextBeginOffset"] == 2


def test_a_tag_that_nothing_has_is_no_matched_message(
    driver: JavaDriver, queue: dict[str, Any]
) -> None:
    fill(driver, queue, 3, tags="A")
    pulled = driver("pull", **queue, offset=0, countMax=32, expression="B")
    assert (pulled["status"], pulled["nextBeginOffset"]) == ("NO_MATCHED_MSG", 3)
    pulled = driver("pull", **queue, offset=0, countMax=32, expression="B || A")
    assert len(pulled["messages"]) == 3


def test_a_held_pull_is_answered_when_a_message_comes(
    driver: JavaDriver, queue: dict[str, Any]
) -> None:
    fill(driver, queue, 1)
    pulled = driver("pullAndSend", **queue, offset=1, countMax=32, send=message(**queue))
    assert bodies(pulled["messages"]) == [b"body"]
    # Not when its patience ends, nor at the next look at what is held, which comes every 5 s.
    assert pulled["tookMs"] < 5_000


def test_lite_pull_reads_from_where_it_seeks(driver: JavaDriver, queue: dict[str, Any]) -> None:
    fill(driver, queue, 6)
    got = driver("litePull", group="lite", **queue, offset=2, count=4, timeoutMs=10_000)
    assert bodies(got) == [b"2", b"3", b"4", b"5"]


def test_a_message_is_found_by_its_key_and_by_its_ids(
    driver: JavaDriver, queue: dict[str, Any]
) -> None:
    sent = fill(driver, queue, 3, keys="order-17 customer-4")
    window = {"begin": 0, "end": int(time.time() * 1000) + 60_000}
    for key in ("order-17", "customer-4"):
        asked = {"topic": queue["topic"], "key": key, "countMax": 64, **window}
        # 4.9.3 writes the queue before the index: 208, the client's NO_MESSAGE, until then.
        found = driver.once_there(208, "queryByKey", **asked)
        assert sorted(x["msgId"] for x in found) == sorted(x["msgId"] for x in sent)
    with pytest.raises(DriverError) as caught:
        driver("queryByKey", topic=queue["topic"], key="order-1", countMax=64, **window)
    assert caught.value.code == 208
    for identifier in (sent[1]["offsetMsgId"], sent[1]["msgId"]):
        found = driver("viewById", topic=queue["topic"], id=identifier)
        assert (found["msgId"], found["queueOffset"]) == (sent[1]["msgId"], 1)


def test_an_id_that_leads_nowhere_is_an_error(driver: JavaDriver, queue: dict[str, Any]) -> None:
    [sent] = fill(driver, queue, 1)
    beyond = sent["offsetMsgId"][:-16] + "0000FFFFFFFFFFFF"
    with pytest.raises(DriverError):
        driver("viewById", topic=queue["topic"], id=beyond)


def test_offsets_at_both_ends_and_by_time(driver: JavaDriver, queue: dict[str, Any]) -> None:
    assert (driver("minOffset", **queue), driver("maxOffset", **queue)) == (0, 0)
    assert driver("earliestStoreTime", **queue) == -1
    fill(driver, queue, 3)
    assert (driver("minOffset", **queue), driver("maxOffset", **queue)) == (0, 3)
    messages = driver("pull", **queue, offset=0, countMax=32)["messages"]
    times = [each["storeTimestamp"] for each in messages]
    assert driver("earliestStoreTime", **queue) == times[0]
    assert driver("offsetByTime", **queue, timestamp=times[0] - 1000) == 0
    assert driver("offsetByTime", **queue, timestamp=times[-1] + 60_000) == 2


def test_a_queue_that_does_not_exist_is_refused(driver: JavaDriver, queue: dict[str, Any]) -> None:
    with pytest.raises(DriverError) as caught:
        driver("pull", **{**queue, "queueId": 17}, offset=0, countMax=32)
    assert (caught.value.type_name, caught.value.code) == ("MQBrokerException", 1)
