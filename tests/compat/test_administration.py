"""What tools ask a broker and a name server, and the queue locks, asked for by hand."""

from typing import Any

import pytest

from tests.compat.clusters import Cluster
from tests.compat.driver import DriverError, JavaDriver

pytestmark = pytest.mark.java


def test_the_cluster_names_its_broker(cluster: Cluster, driver: JavaDriver) -> None:
    answer = driver("cluster")
    assert answer["clusterAddrTable"] == {"DefaultCluster": [cluster.broker_name]}
    broker = answer["brokerAddrTable"][cluster.broker_name]
    assert broker["brokerAddrs"] == {"0": cluster.broker}


def test_a_created_topic_is_in_the_route(cluster: Cluster, driver: JavaDriver, topic: str) -> None:
    route = driver("route", topic=topic)
    [queue_data] = route["queueDatas"]
    assert (queue_data["readQueueNums"], queue_data["perm"]) == (4, 6)
    [broker] = route["brokerDatas"]
    assert broker["brokerAddrs"] == {"0": cluster.broker}
    assert driver("queues", topic=topic) == [
        {"broker": cluster.broker_name, "queueId": number} for number in range(4)
    ]


def test_an_unknown_topic_has_no_route(driver: JavaDriver) -> None:
    with pytest.raises(DriverError) as caught:
        driver("route", topic="nobody_knows_it")
    assert caught.value.code == 17  # TOPIC_NOT_EXIST


def test_a_committed_offset_is_what_the_broker_answers(
    cluster: Cluster, driver: JavaDriver, topic: str
) -> None:
    queue = {"topic": topic, "broker": cluster.broker_name, "queueId": 3}
    assert driver("updateConsumeOffset", **queue, offset=41) == 41
    assert driver("updateConsumeOffset", **queue, offset=7) == 7  # backwards as well


def test_a_queue_is_locked_for_one_client_of_a_group(
    cluster: Cluster, driver: JavaDriver, topic: str
) -> None:
    place: dict[str, Any] = {
        "address": cluster.broker,
        "broker": cluster.broker_name,
        "topic": topic,
        "group": "locking",
    }
    assert sorted(driver("lock", **place, client="a", queueIds=[0, 1])) == [0, 1]
    assert sorted(driver("lock", **place, client="b", queueIds=[1, 2])) == [2]
    assert sorted(driver("lock", **place, client="a", queueIds=[0, 1])) == [0, 1]  # again
    other = {**place, "group": "locking_too"}
    assert sorted(driver("lock", **other, client="b", queueIds=[0, 1])) == [0, 1]
    driver("unlock", **place, client="b", queueIds=[0])  # not its own: nothing happens
    assert driver("lock", **place, client="b", queueIds=[0]) == []
    driver("unlock", **place, client="a", queueIds=[0])
    assert driver("lock", **place, client="b", queueIds=[0]) == [0]


def test_the_broker_says_its_settings(cluster: Cluster, driver: JavaDriver) -> None:
    settings = driver("brokerConfig", address=cluster.broker)
    assert settings["brokerName"] == cluster.broker_name
    assert settings["listenPort"] == cluster.broker.rpartition(":")[2]
