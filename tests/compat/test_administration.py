"""What tools ask a broker and a name server, and the queue locks, asked for by hand."""

from pathlib import Path
from typing import Any

import pytest

from tests.compat.clusters import Cluster
from tests.compat.driver import DriverError, JavaDriver
from tests.compat.frames import RawConnection
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.fastjson import loads

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
    printed = mqadmin("deleteTopic", "-c", "DefaultCluster", "-t", topic)
    assert f"delete topic [{topic}] from cluster [DefaultCluster] success." in printed
    with pytest.raises(DriverError) as caught:
        driver("route", topic=topic)
    assert caught.value.code == 17
    driver("createTopic", address=cluster.broker, topic=topic, queues=4)
    assert f'"brokerName":"{cluster.broker_name}"' in mqadmin("topicRoute", "-t", topic)
    assert sent() == [0, 1]
    for command in ("cleanUnusedTopic", "cleanExpiredCQ"):
        assert "success" in mqadmin(command, "-b", cluster.broker)
    assert sent() == [2, 3]


def test_mqadmin_changes_groups_permissions_and_values(
    cluster: Cluster, driver: JavaDriver, tmp_path: Path
) -> None:
    def mqadmin(command: str, *words: str) -> str:
        return str(driver("mqadmin", command=command, words=list(words)))

    driver("createGroup", address=cluster.broker, group="short_lived")
    deleted = mqadmin(
        "deleteSubGroup",
        *("-b", cluster.broker, "-g", "short_lived", "-r", "true"),
    )
    assert "delete subscription group [short_lived] from broker" in deleted
    for verb in ("wipe", "add"):
        changed = mqadmin(f"{verb}WritePerm", "-b", cluster.broker_name)
        assert f"{verb} write perm of broker[{cluster.broker_name}]" in changed
        assert "OK" in changed
    put = mqadmin("updateKvConfig", "-s", "n", "-k", "k", "-v", "v")
    assert "create or update kv config to namespace success." in put
    order = ("-t", "ordered", "-v", f"{cluster.broker_name}:4")
    assert "success" in mqadmin("updateOrderConf", *order, "-m", "put")
    found = mqadmin("updateOrderConf", "-t", "ordered", "-m", "get")
    assert f"orderConf=[{cluster.broker_name}:4]" in found
    assert "success" in mqadmin("updateOrderConf", "-t", "ordered", "-m", "delete")
    words = ("-c", "DefaultCluster", "-f", str(tmp_path))
    assert "success" in mqadmin("exportConfigs", *words)
    assert list(tmp_path.glob("*configs.json"))


def test_a_new_topic_leaves_a_wiped_permission_as_it_is(cluster: Cluster, topic: str) -> None:
    """Code 17 registers the new topic alone, so that the name server keeps what it has."""
    later = f"{topic}_later"
    own = {"brokerName": cluster.broker_name}
    with RawConnection(cluster.name_server) as names, RawConnection(cluster.broker) as broker:
        assert names.ask(Code.WIPE_WRITE_PERM_OF_BROKER, own).code == 0
        try:
            fields = {"topic": later, "defaultTopic": "TBW102", "readQueueNums": "2"}
            fields |= {"writeQueueNums": "2", "perm": "6", "topicFilterType": "SINGLE_TAG"}
            assert broker.ask(Code.UPDATE_AND_CREATE_TOPIC, fields).code == 0
            assert (_permission(names, topic), _permission(names, later)) == (4, 6)
        finally:
            assert names.ask(Code.ADD_WRITE_PERM_OF_BROKER, own).code == 0
        assert _permission(names, topic) == 6


def _permission(names: RawConnection, topic: str) -> int:
    answer = names.ask(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    assert answer.code == 0, topic
    (queues,) = loads(answer.body)["queueDatas"]
    return int(queues["perm"])
