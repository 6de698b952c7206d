"""What tools ask a broker and a name server, and the queue locks, asked for by hand."""

from pathlib import Path
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


def test_mqadmin_deletes_a_topic(cluster: Cluster, driver: JavaDriver, topic: str) -> None:
    def sent() -> list[int]:
        queue = {"topic": topic, "broker": cluster.broker_name, "queueId": 0}
        found = driver("send", group="deleting", messages=[{**queue, "body": "m0"}] * 2)
        return [each["queueOffset"] for each in found]

    def mqadmin(command: str, *words: str) -> str:
        return str(driver("mqadmin", command=command, words=list(words)))

    assert sent() == [0, 1]
    printed = mqadmin("topic.DeleteTopicSubCommand", "-c", "DefaultCluster", "-t", topic)
    assert f"delete topic [{topic}] from cluster [DefaultCluster] success." in printed
    with pytest.raises(DriverError) as caught:
        driver("route", topic=topic)
    assert caught.value.code == 17
    driver("createTopic", address=cluster.broker, topic=topic, queues=4)
    assert f'"brokerName":"{cluster.broker_name}"' in mqadmin(
        "topic.TopicRouteSubCommand", "-t", topic
    )
    assert sent() == [0, 1]
    for command in ("broker.CleanUnusedTopicCommand", "broker.CleanExpiredCQSubCommand"):
        assert "success" in mqadmin(command, "-b", cluster.broker)
    assert sent() == [2, 3]


def test_mqadmin_changes_groups_permissions_and_values(
    cluster: Cluster, driver: JavaDriver, tmp_path: Path
) -> None:
    def mqadmin(command: str, *words: str) -> str:
        return str(driver("mqadmin", command=command, words=list(words)))

    driver("createGroup", address=cluster.broker, group="short_lived")
    deleted = mqadmin(
        "consumer.DeleteSubscriptionGroupCommand",
        *("-b", cluster.broker, "-g", "short_lived", "-r", "true"),
    )
    assert "delete subscription group [short_lived] from broker" in deleted
    for verb in ("Wipe", "Add"):
        changed = mqadmin(f"namesrv.{verb}WritePermSubCommand", "-b", cluster.broker_name)
        assert f"{verb.lower()} write perm of broker[{cluster.broker_name}]" in changed
        assert "OK" in changed
    put = mqadmin("namesrv.UpdateKvConfigCommand", "-s", "n", "-k", "k", "-v", "v")
    assert "create or update kv config to namespace success." in put
    order = ("-t", "ordered", "-v", f"{cluster.broker_name}:4")
    assert "success" in mqadmin("topic.UpdateOrderConfCommand", *order, "-m", "put")
    found = mqadmin("topic.UpdateOrderConfCommand", "-t", "ordered", "-m", "get")
    assert f"orderConf=[{cluster.broker_name}:4]" in found
    assert "success" in mqadmin("topic.UpdateOrderConfCommand", "-t", "ordered", "-m", "delete")
    words = ("-c", "DefaultCluster", "-f", str(tmp_path))
    assert "success" in mqadmin("export.ExportConfigsCommand", *words)
    assert list(tmp_path.glob("*configs.json"))
