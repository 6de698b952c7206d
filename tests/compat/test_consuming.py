"""What push consumers get: every message once, in order, again after a failure, or later."""

import time
from collections.abc import Sequence
from typing import Any

import pytest

from tests.compat.clusters import Cluster
from tests.compat.driver import DriverError, JavaDriver, bodies, message, wait_until

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.daily("notifications")]

SETTLE_MS_MAX = 60_000

# RocketMQ's own; the driver's is shorter.
REBALANCE_MS_DEFAULT = 20_000


def consume(driver: JavaDriver, topic: str, **options: Any) -> str:
    """Start a push consumer of the test's own group and return its name."""
    name = str(options.pop("name", topic))
    driver("consume", **{"name": name, "group": f"group_{topic}", "topics": [topic], **options})
    return name


def send(driver: JavaDriver, topic: str, count: int, **fields: Any) -> list[dict[str, Any]]:
    numbered = [message(topic, b"%d" % n, **fields) for n in range(count)]
    return list(driver("send", group="g", messages=numbered))


def committed(cluster: Cluster, driver: JavaDriver, topic: str, queues: int = 4) -> int:
    """Sum up how far the test's group has come in the topic's queues."""
    place = {"address": cluster.broker, "group": f"group_{topic}", "topic": topic}
    total = 0
    for queue_id in range(queues):
        try:
            total += driver("consumeOffset", **place, queueId=queue_id)
        except DriverError as error:
            assert error.code == 22  # QUERY_NOT_FOUND: nothing committed yet
    return total


def commit(
    cluster: Cluster, driver: JavaDriver, topic: str, names: Sequence[str], end: int
) -> None:
    """Have consumers commit until the broker knows that the group has come to `end`.

    Before a stop, whose own commits go one way, beside a pull that carries older ones.
    """

    def has_committed() -> bool:
        for name in names:
            driver("commit", name=name)
        return committed(cluster, driver, topic) == end

    wait_until(has_committed, what="committed")


def ids(messages: list[dict[str, Any]]) -> list[str]:
    """Return the ids in an order in which lists can be compared: once each is part of it."""
    return sorted(each["msgId"] for each in messages)


def test_a_backlog_is_consumed_once_each(driver: JavaDriver, topic: str) -> None:
    sent = send(driver, topic, 40)
    name = consume(driver, topic)
    got = driver("consumed", name=name, count=40, timeoutMs=SETTLE_MS_MAX)
    assert ids(got) == ids(sent)
    driver("stopConsuming", name=name)


def test_a_group_goes_on_where_it_stopped(cluster: Cluster, driver: JavaDriver, topic: str) -> None:
    send(driver, topic, 8)
    first = consume(driver, topic)
    assert len(driver("consumed", name=first, count=8, timeoutMs=SETTLE_MS_MAX)) == 8
    commit(cluster, driver, topic, [first], 8)
    driver("stopConsuming", name=first)
    send(driver, topic, 4)
    second = consume(driver, topic, name="second")
    got = driver("consumed", name=second, count=4, timeoutMs=SETTLE_MS_MAX)
    assert sorted(bodies(got)) == [b"0", b"1", b"2", b"3"]
    commit(cluster, driver, topic, [second], 12)
    driver("stopConsuming", name=second)


def test_only_the_tags_subscribed_to_arrive(driver: JavaDriver, topic: str) -> None:
    name = consume(driver, topic, expression="A || C")
    for tag in "ABC":
        send(driver, topic, 4, tags=tag)
    got = driver("consumed", name=name, count=8, timeoutMs=SETTLE_MS_MAX)
    assert sorted(x["tags"] for x in got) == ["A"] * 4 + ["C"] * 4
    driver("stopConsuming", name=name)


def test_a_failed_message_comes_back_through_the_retry_topic(
    driver: JavaDriver, topic: str
) -> None:
    name = consume(driver, topic, failures=1)
    [sent] = send(driver, topic, 1)
    first, again = driver("consumed", name=name, count=2, timeoutMs=SETTLE_MS_MAX)
    assert (first["reconsumeTimes"], again["reconsumeTimes"]) == (0, 1)
    assert again["msgId"] == sent["msgId"]
    assert again["topic"] == topic  # the client puts the topic back from the property
    assert again["properties"]["RETRY_TOPIC"] == topic
    waited = again["receivedAt"] - first["receivedAt"]
    assert 1_000 <= waited < 10_000  # the third delay level, not the one it is by default
    driver("stopConsuming", name=name)


def test_a_message_without_retries_left_is_a_dead_letter(
    cluster: Cluster, driver: JavaDriver, topic: str
) -> None:
    name = consume(driver, topic, failures=9, retriesMax=1)
    [sent] = send(driver, topic, 1)
    got = driver("consumed", name=name, count=2, timeoutMs=SETTLE_MS_MAX)
    assert [x["reconsumeTimes"] for x in got] == [0, 1]
    place = {"topic": f"%DLQ%group_{topic}", "broker": cluster.broker_name, "queueId": 0}
    pulled = driver.once_there(17, "pullBlocking", **place, offset=0, countMax=1)
    [dead] = pulled["messages"]
    assert dead["msgId"] == sent["msgId"]
    assert dead["properties"]["RETRY_TOPIC"] == topic
    driver("stopConsuming", name=name)


def test_a_waiting_consumer_gets_a_message_at_once(driver: JavaDriver, topic: str) -> None:
    name = consume(driver, topic)
    for count in range(1, 10):
        send(driver, topic, 1)
        got = driver("consumed", name=name, count=count, timeoutMs=SETTLE_MS_MAX)
        assert len(got) == count
    waited = sorted(x["receivedAt"] - x["bornTimestamp"] for x in got)
    assert waited[len(waited) // 2] < 1_000  # a scan of what is held comes every 5 s
    driver("stopConsuming", name=name)


def test_lite_pull_shares_queues_and_commits(
    cluster: Cluster, driver: JavaDriver, topic: str
) -> None:
    sent = send(driver, topic, 9, tags="A")
    pulled = {"group": f"group_{topic}", "topic": topic, "expression": "A", "timeoutMs": 10_000}
    got = driver("litePullShared", **pulled, count=9)
    assert ids(got) == ids(sent)
    wait_until(lambda: committed(cluster, driver, topic) == 9, what="committed")


def test_an_orderly_consumer_sees_each_queue_in_order(driver: JavaDriver, topic: str) -> None:
    numbered = [message(topic, b"%d" % n, orderKey=n % 3) for n in range(30)]
    driver("sendOrdered", group="g", messages=numbered)
    name = consume(driver, topic, orderly=True)
    got = driver("consumed", name=name, count=30, timeoutMs=SETTLE_MS_MAX)
    for queue_id in {x["queueId"] for x in got}:
        mine = [x["queueOffset"] for x in got if x["queueId"] == queue_id]
        assert mine == sorted(mine)
    assert sorted(map(int, bodies(got))) == list(range(30))
    driver("stopConsuming", name=name)


def test_an_orderly_failure_holds_the_queue_until_it_is_done(
    driver: JavaDriver, topic: str
) -> None:
    place = {"orderKey": 0}
    driver(
        "sendOrdered", group="g", messages=[message(topic, b"%d" % n, **place) for n in range(3)]
    )
    name = consume(driver, topic, orderly=True, failures=1)
    got = driver("consumed", name=name, count=6, timeoutMs=SETTLE_MS_MAX)
    assert bodies(got) == [b"0", b"0", b"1", b"1", b"2", b"2"]
    driver("stopConsuming", name=name)


def test_a_delayed_message_comes_when_it_is_due(driver: JavaDriver, topic: str) -> None:
    name = consume(driver, topic)
    delays_ms = {"1": 1_000, "2": 2_000}  # by level
    for level in delays_ms:
        send(driver, topic, 1, delayLevel=int(level), properties={"level": level})
    got = driver("consumed", name=name, count=2, timeoutMs=SETTLE_MS_MAX)
    assert [x["topic"] for x in got] == [topic] * 2
    assert sorted(x["properties"]["level"] for x in got) == [*delays_ms]
    for each in got:
        delay_ms = delays_ms[each["properties"]["level"]]
        assert delay_ms <= each["storeTimestamp"] - each["bornTimestamp"] < delay_ms + 5_000
    driver("stopConsuming", name=name)


def test_two_consumers_of_a_group_share_the_queues(driver: JavaDriver, topic: str) -> None:
    names = [consume(driver, topic, name=f"{topic}_{n}") for n in range(2)]
    wait_until(lambda: all(held(driver, name, topic) == 2 for name in names), what="shared")
    shares = [sorted(driver("assigned", name=name)[topic]) for name in names]
    assert sorted(shares) == [[0, 1], [2, 3]]
    send(driver, topic, 8)  # two to each queue
    for name, share in zip(names, shares, strict=True):
        got = driver("consumed", name=name, count=4, timeoutMs=SETTLE_MS_MAX)
        assert sorted((x["queueId"], x["queueOffset"]) for x in got) == [
            (queue_id, queue_offset) for queue_id in share for queue_offset in range(2)
        ]
    for name in names:
        driver("stopConsuming", name=name)


def test_the_queues_of_a_client_that_dies_go_to_the_others(cluster: Cluster, topic: str) -> None:
    with (
        JavaDriver(cluster.name_server, rebalance_ms=REBALANCE_MS_DEFAULT) as driver,
        JavaDriver(cluster.name_server, rebalance_ms=REBALANCE_MS_DEFAULT) as other,
    ):
        name = consume(driver, topic, name="stays")
        consume(other, topic, name="dies")
        wait_until(lambda: held(driver, name, topic) == 2, what="shared")
        other.kill()
        began = time.monotonic()
        wait_until(lambda: held(driver, name, topic) == 4, what="taken over")
        # The broker has noticed and said so: by itself the client looks every 20 s.
        assert time.monotonic() - began < 10
        sent = send(driver, topic, 8)
        got = driver("consumed", name=name, count=8, timeoutMs=SETTLE_MS_MAX)
        assert ids(got) == ids(sent)


def test_an_orderly_group_goes_on_in_order_when_a_consumer_leaves(
    cluster: Cluster, driver: JavaDriver, topic: str
) -> None:
    names = [consume(driver, topic, name=f"{topic}_{n}", orderly=True) for n in range(2)]
    wait_until(lambda: all(held(driver, name, topic) == 2 for name in names), what="shared")

    def send_numbered(begin: int) -> None:
        numbered = [message(topic, b"%d" % n, orderKey=n % 4) for n in range(begin, begin + 20)]
        driver("sendOrdered", group="g", messages=numbered)

    send_numbered(0)
    wait_until(lambda: sum(map(len, received(driver, names))) == 20, what="received")
    commit(cluster, driver, topic, names, 20)
    [first] = received(driver, names[:1])
    assert len(first) == 10
    driver("stopConsuming", name=names[0])  # which unlocks its queues
    send_numbered(20)
    second = driver("consumed", name=names[1], count=30, timeoutMs=SETTLE_MS_MAX)
    by_queue: dict[int, list[int]] = {}
    for each in [*first, *second]:
        by_queue.setdefault(each["queueId"], []).append(each["queueOffset"])
    assert by_queue == {queue_id: list(range(10)) for queue_id in range(4)}
    driver("stopConsuming", name=names[1])


def held(driver: JavaDriver, name: str, topic: str) -> int:
    """Count the queues of the topic that a consumer has."""
    return len(driver("assigned", name=name).get(topic, []))


def received(driver: JavaDriver, names: Sequence[str]) -> list[list[dict[str, Any]]]:
    """Return what each consumer has received so far."""
    return [driver("consumed", name=name, count=0, timeoutMs=0) for name in names]


def test_a_broadcast_reaches_every_consumer(driver: JavaDriver, topic: str) -> None:
    options = {"broadcast": True, "group": f"cast_{topic}"}
    names = [consume(driver, topic, name=f"{topic}_{n}", **options) for n in range(2)]
    sent = send(driver, topic, 6)
    for name in names:
        got = driver("consumed", name=name, count=6, timeoutMs=SETTLE_MS_MAX)
        assert ids(got) == ids(sent)
        driver("stopConsuming", name=name)
