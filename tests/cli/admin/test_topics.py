"""Commands about topics, against a running cluster."""

import pytest

from tests.cli.admin.conftest import AdminCommand
from tests.compat.driver import wait_until
from wakelog.actors.errors import NotPossible
from wakelog.client.errors import ClientError

pytestmark = [pytest.mark.process, pytest.mark.slow]


def test_a_topic_is_created_and_listed(admin: AdminCommand) -> None:
    broker = admin.cluster.broker
    said = admin(f"updateTopic -b {broker} -t made -r 3 -w 2 -p 4 -u true -s true")
    assert said == [
        f"create topic to {broker} success.",
        "TopicConfig [topicName=made, readQueueNums=3, writeQueueNums=2, perm=R--, "
        "topicFilterType=SINGLE_TAG, topicSysFlag=3, order=false]",
    ]
    assert "made" in admin("topicList")
    [found] = [row for row in admin.json("topicList -c") if row["topic"] == "made"]
    assert found["clusterName"] == "DefaultCluster"


def test_the_order_configuration_names_the_brokers_queues(admin: AdminCommand) -> None:
    said = admin(f"updateTopic -b {admin.cluster.broker} -t ordered -w 3 -o true")
    assert "set broker orderConf. isOrder=true, orderConf=[broker-a:3]" in said
    assert admin.json("updateOrderConf -t ordered -m get")[0]["orderConf"] == "broker-a:3"
    admin("updateOrderConf -t ordered -m put -v other:1")
    admin(f"updateTopic -b {admin.cluster.broker} -t ordered -w 4 -o true")
    assert admin.json("updateOrderConf -t ordered -m get")[0]["orderConf"] == "other:1;broker-a:4"
    admin("updateOrderConf -t ordered -m delete")
    assert admin.json("updateOrderConf -t ordered -m get")[0]["orderConf"] == ""


def test_a_route_is_json_or_a_table(admin: AdminCommand) -> None:
    topic = admin.create("routed")
    [found] = admin.json(f"topicRoute -t {topic}")
    assert found["route"]["queueDatas"][0]["readQueueNums"] == 2
    assert admin(f"topicRoute -t {topic}")[0] == "{"
    heads, row, rule, total = admin(f"topicRoute -l -t {topic}")
    assert heads.split() == [
        "#ClusterName", "#BrokerName", "#BrokerAddrs", "#ReadQueue", "#WriteQueue", "#Perm"
    ]  # fmt: skip
    addresses = f"{{0={admin.cluster.broker}}}"
    assert row.split() == ["DefaultCluster", "broker-a", addresses, "2", "2", "6"]
    assert set(rule) == {"-"}
    assert total.split() == ["Total:", "1", "2", "2"]


def test_the_status_has_both_ends_of_every_queue(admin: AdminCommand) -> None:
    topic = admin.create("measured")
    admin(f"sendMessage -t {topic} -b broker-a -i 1 -p body")
    queue = f"printMsgByQueue -t {topic} -a broker-a -i 1 -p true"
    wait_until(lambda: len(admin(queue)) == 1, what="dispatched")
    heads, *rows = admin(f"topicStatus -t {topic}")
    assert heads.split("  ")[0] == "#Broker Name"
    assert [row.split()[:4] for row in rows] == [
        ["broker-a", "0", "0", "0"],
        ["broker-a", "1", "0", "1"],
    ]


def test_the_clusters_of_a_topic(admin: AdminCommand) -> None:
    assert admin(f"topicClusterList -t {admin.create('clustered')}") == ["DefaultCluster"]


def test_an_unknown_topic_or_cluster_is_named(admin: AdminCommand) -> None:
    with pytest.raises(ClientError, match=r"no name server knows topic nope\. Check the name"):
        admin("topicStatus -t nope")
    with pytest.raises(ClientError, match=r"no cluster nope\. .* DefaultCluster"):
        admin("updateTopic -c nope -t x")


def test_an_unknown_group_is_named(admin: AdminCommand) -> None:
    for words in ("consumerProgress", "consumerConnection", "consumerStatus"):
        with pytest.raises(
            ClientError, match=r"no broker has had a consumer of group nope: .*groups"
        ):
            admin(f"{words} -g nope")


def test_an_address_without_a_port_is_named(admin: AdminCommand) -> None:
    with pytest.raises(ClientError, match="'nowhere' is no address: it has the form HOST:PORT"):
        admin("brokerStatus -b nowhere")


def test_a_broker_or_a_cluster_must_be_given(admin: AdminCommand) -> None:
    for words in ("-t x", "-t x -b a:1 -c b"):
        with pytest.raises(NotPossible, match="-b or -c"):
            admin(f"updateTopic {words}")


def test_the_permission_of_a_topic_is_changed(admin: AdminCommand) -> None:
    topic, broker = admin.create("permission"), admin.cluster.broker
    said = admin(f"updateTopicPerm -b {broker} -t {topic} -p 4")
    assert said[0] == f"update topic perm from 6 to 4 in {broker} success."
    assert "readQueueNums=2, writeQueueNums=2, perm=R--, " in said[1]
    again = admin(f"updateTopicPerm -b {broker} -t {topic} -p 4")
    assert again == ["new perm equals to the old one!"]
    by_cluster = admin(f"updateTopicPerm -c DefaultCluster -t {topic} -p 6")
    assert by_cluster == [f"update topic perm from 4 to 6 in {broker} success."]
    with pytest.raises(ClientError, match=f"127.0.0.1:1 is no master of topic.*Give -b {broker}"):
        admin(f"updateTopicPerm -b 127.0.0.1:1 -t {topic} -p 4")


def test_queues_are_dealt_as_to_consumers(admin: AdminCommand) -> None:
    topic = admin.create("dealt")
    [found] = admin.json(f"allocateMQ -t {topic} -i a,b,c")
    ids = {name: [each["queueId"] for each in x] for name, x in found["result"].items()}
    assert ids == {"a": [0], "b": [1], "c": []}
    [found] = admin.json(f"allocateMQ -t {topic} -i a")
    assert [each["queueId"] for each in found["result"]["a"]] == [0, 1]
