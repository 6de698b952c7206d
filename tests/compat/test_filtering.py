"""What consumers by SQL92 get, from the real broker and from ours."""

import json
from typing import Any

import pytest

from tests.compat.clusters import Cluster
from tests.compat.conftest import EarlyFilter
from tests.compat.driver import DriverError, JavaDriver, bodies, message, wait_until

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.daily("notifications")]

SETTLE_MS_MAX = 60_000
EXPRESSION = "a BETWEEN 2 AND 4 AND (region IN ('eu', 'us') OR urgent IS NOT NULL)"


def send_one(driver: JavaDriver, topic: str, body: bytes, **properties: str) -> None:
    driver("send", group="g", messages=[message(topic, body, properties=properties)])


def send_all(driver: JavaDriver, topic: str) -> None:
    """Send ten messages, of which EXPRESSION wants those named in WANTED."""
    for a in range(5):
        region = "eu" if a % 2 else "cn"
        send_one(driver, topic, b"region %d" % a, a=str(a), region=region)
        send_one(driver, topic, b"urgent %d" % a, a=str(a), urgent="1")


WANTED = [b"region 3", b"urgent 2", b"urgent 3", b"urgent 4"]


def consume(driver: JavaDriver, topic: str, **options: Any) -> str:
    place = {"name": topic, "group": f"group_{topic}", "topics": [topic]}
    driver("consume", **place | options)
    return str((place | options)["name"])


@pytest.mark.parametrize("backlog", [True, False], ids=["backlog", "waiting"])
def test_a_consumer_gets_what_its_expression_wants(
    cluster: Cluster, driver: JavaDriver, backlog: bool
) -> None:
    topic = f"wanted_{backlog}"
    driver("createTopic", address=cluster.broker, topic=topic, queues=4)
    if backlog:
        send_all(driver, topic)
    name = consume(driver, topic, sql=EXPRESSION)
    if not backlog:
        wait_until(lambda: len(driver("assigned", name=name).get(topic, [])) == 4, what="assigned")
        send_all(driver, topic)
    send_one(driver, topic, b"last", a="3", urgent="1")
    got = driver("consumed", name=name, count=5, timeoutMs=SETTLE_MS_MAX)
    assert sorted(bodies(got)) == sorted([*WANTED, b"last"])
    driver("stopConsuming", name=name)


def test_a_retry_comes_back_though_it_is_not_filtered_again(driver: JavaDriver, topic: str) -> None:
    name = consume(driver, topic, sql="a > 1", failures=1)
    send_one(driver, topic, b"no", a="1")
    send_one(driver, topic, b"yes", a="2")
    got = driver("consumed", name=name, count=2, timeoutMs=SETTLE_MS_MAX)
    assert [(body, x["reconsumeTimes"]) for body, x in zip(bodies(got), got, strict=True)] == [
        (b"yes", 0),
        (b"yes", 1),
    ]
    driver("stopConsuming", name=name)


def test_a_consumer_whose_expression_does_not_compile_cannot_start(
    driver: JavaDriver, topic: str
) -> None:
    send_one(driver, topic, b"body")
    with pytest.raises(DriverError, match="'NULL' cannot be compared") as caught:
        consume(driver, topic, sql="a = NULL")
    assert caught.value.code == 23


def test_the_filter_is_in_the_file_that_a_broker_reads_at_its_start(
    cluster: Cluster, early_filter: EarlyFilter
) -> None:
    topic, group, expression = early_filter
    config = cluster.store / "config"
    path = config / "consumerFilter.json"
    if path.is_symlink():  # wakelog keeps 4.9.3 brokers out by it
        path = config / "consumerFilterKept.json"

    def found() -> dict[str, Any]:
        if not path.exists():
            return {}
        topics = json.loads(path.read_text())["filterDataByTopic"]
        groups = topics.get(topic, {"groupFilterData": {}})["groupFilterData"]
        return dict(groups.get(group, {}))

    wait_until(lambda: bool(found()), what="written")
    kept = found()
    assert kept.pop("bornTime") > 0 and kept.pop("clientVersion") > 0
    assert kept == {
        "bloomFilterData": {"bitNum": 112, "bitPos": kept["bloomFilterData"]["bitPos"]},
        "consumerGroup": group,
        "dead": False,
        "deadTime": 0,
        "expression": expression,
        "expressionType": "SQL92",
        "topic": topic,
    }
    assert len(kept["bloomFilterData"]["bitPos"]) == 3
