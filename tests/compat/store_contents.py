"""What a store holds, as clients see it: filled with every kind of message, read back, compared.

`fill` sends what one owner of a store adds, `read` takes down everything that can be asked; a later
owner has to give the same answers to the same questions.
"""

import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from tests.compat.clusters import Cluster
from tests.compat.driver import JavaDriver, bodies, message, wait_until
from tests.compat.store_reading import pull_all

QUEUES = 2
TOPICS = ("singles", "batches", "delayed", "parts", "failing", "light_one", "light_two")
GROUP = "readers"
RETRY_TOPIC = f"%RETRY%{GROUP}"

# Files so small that a few hundred messages roll all of them.
SEGMENT_BYTES = 65_536
SETTINGS = {
    "mappedFileSizeCommitLog": str(SEGMENT_BYTES),
    "mappedFileSizeConsumeQueue": "1000",
    "maxHashSlotNum": "100",
    "maxIndexNum": "400",
    "messageDelayLevel": "1s 2s 1s 1s 1s",
    # Without enableLmq, under which 4.9.3 forgets committed offsets at each restart.
    "enableMultiDispatch": "true",
}


class Contents(NamedTuple):
    """Answers to everything that can be asked about some topics."""

    queues: dict[tuple[str, int], list[Any]]
    ends: dict[tuple[str, int], tuple[int, int]]
    by_key: dict[str, list[str]]
    committed: dict[str, int]


def create_topics(driver: JavaDriver, cluster: Cluster) -> None:
    """Create the topics; the group's retry topic comes with its first consumer."""
    for topic in TOPICS:
        driver("createTopic", address=cluster.broker, topic=topic, queues=QUEUES)


def fill(driver: JavaDriver, cluster: Cluster, owner: str) -> None:
    """Send what this owner adds: single, batch, delayed, doubly dispatched and failing messages."""
    queue: dict[str, Any] = {"broker": cluster.broker_name, "queueId": 0}
    singles = [
        message("singles", f"{owner} {n} ".encode() * 90, tags="ABC"[n % 3], keys=f"{owner} k{n}")
        for n in range(120)
    ]
    sent = driver("sendAsync", group="g", messages=singles)
    assert all(each.get("status") == "SEND_OK" for each in sent)
    for part in range(2):
        keys = f"{owner} b{part}"
        batch = [message("batches", b"%d" % n, tags="A", keys=keys) for n in range(10)]
        driver("sendBatch", group="g", messages=batch)
    # One a level: after a clean stop 4.9.3 delivers the rest of a delivered batch again.
    delayed = {"topic": "delayed", **queue}
    begin_offset = driver("maxOffset", **delayed)
    driver("send", group="g", messages=[message(**delayed, body=owner.encode(), delayLevel=1)])
    light = {"INNER_MULTI_DISPATCH": "light_one,light_two"}
    parts = [message("parts", b"%d" % n, properties=light, **queue) for n in range(5)]
    driver("send", group="g", messages=parts)
    _fail_one(driver, cluster, owner)
    wait_until(lambda: driver("maxOffset", **delayed) == begin_offset + 1, what="delivered")


def _fail_one(driver: JavaDriver, cluster: Cluster, owner: str) -> None:
    """Have a consumer send a message back: it comes again through delay and retry topics."""
    queue = {"broker": cluster.broker_name, "queueId": 0}
    driver("send", group="g", messages=[message("failing", owner.encode(), **queue)])
    driver("consume", name=owner, group=GROUP, topics=["failing"], failures=1)
    got = driver("consumed", name=owner, count=2, timeoutMs=60_000)
    assert bodies(got) == [owner.encode()] * 2

    def is_committed() -> bool:
        driver("commit", name=owner)
        ends = [(driver("maxOffset", topic="failing", **queue), "failing")]
        ends += [(driver("maxOffset", topic=RETRY_TOPIC, **queue), RETRY_TOPIC)]
        return all(committed(driver, cluster, topic) == end for end, topic in ends)

    wait_until(is_committed, what="committed")
    driver("stopConsuming", name=owner)


def committed(driver: JavaDriver, cluster: Cluster, topic: str) -> int:
    """Return how far the group has come in the topic's first queue."""
    place = {"address": cluster.broker, "group": GROUP, "topic": topic, "queueId": 0}
    return int(driver("consumeOffset", **place))


def read(driver: JavaDriver, cluster: Cluster, owners: Iterable[str]) -> Contents:
    """Take down what the broker answers."""
    places = [(topic, queue_id) for topic in TOPICS for queue_id in range(QUEUES)]
    places.append((RETRY_TOPIC, 0))
    queues: dict[tuple[str, int], list[Any]] = {}
    ends = {}
    for topic, queue_id in places:
        answers = pull_all(driver, cluster, topic, queue_id)
        queues[topic, queue_id] = [
            {name: x for name, x in each.items() if name != "receivedAt"}
            for answer in answers
            for each in answer["messages"]
        ]
        queue = {"topic": topic, "broker": cluster.broker_name, "queueId": queue_id}
        ends[topic, queue_id] = (driver("minOffset", **queue), driver("maxOffset", **queue))
    window = {"begin": 0, "end": int(time.time() * 1000) + 60_000, "countMax": 64}
    by_key = {}
    for owner in owners:
        for topic in ("singles", "batches"):
            found = driver("queryByKey", topic=topic, key=owner, **window)
            by_key[f"{topic} {owner}"] = [x["physicalOffset"] for x in found]
    offsets = {topic: committed(driver, cluster, topic) for topic in ("failing", RETRY_TOPIC)}
    return Contents(queues, ends, by_key, offsets)


def assert_kept(before: Contents, after: Contents) -> None:
    """Assert that every answer is what it was."""
    assert after.queues == before.queues
    assert after.ends == before.ends
    assert after.by_key == before.by_key
    assert after.committed == before.committed
