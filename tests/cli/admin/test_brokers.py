"""Commands about brokers and name servers, against a running cluster."""

import pytest

from tests.cli.admin.conftest import AdminCommand
from wakelog.client.errors import ClientError

pytestmark = [pytest.mark.process, pytest.mark.slow]


def test_every_broker_is_listed(admin: AdminCommand) -> None:
    [row] = admin.json("clusterList")
    assert (row["clusterName"], row["bid"]) == ("DefaultCluster", 0)
    assert row["addr"] == admin.cluster.broker
    heads, line = admin("clusterList -m")
    assert heads.split()[-1] == "#OutTotalToday"
    assert line.split()[:2] == ["DefaultCluster", "broker-a"]


@pytest.mark.parametrize("flag", ["-b", "-c"])
def test_the_settings_of_a_broker(admin: AdminCommand, flag: str) -> None:
    place = admin.cluster.broker if flag == "-b" else "DefaultCluster"
    [found] = admin.json(f"getBrokerConfig {flag} {place}")
    assert found["settings"]["brokerName"] == "broker-a"
    title, *lines = admin(f"getBrokerConfig {flag} {place}")
    assert admin.cluster.broker in title
    assert f"{'brokerName':<50}=  broker-a" in lines


def test_a_setting_of_a_broker_is_changed(admin: AdminCommand) -> None:
    said = admin("updateBrokerConfig -c DefaultCluster -k brokerPermission -v 6")
    assert said == [f"update broker config success, {admin.cluster.broker}"]


def test_a_setting_that_waits_for_a_restart_is_said_to(admin: AdminCommand) -> None:
    update = f"updateBrokerConfig -b {admin.cluster.broker} -k flushDiskType -v"
    said = admin(f"{update} SYNC_FLUSH")
    assert said[1:] == ["kept, and used after a restart: flushDiskType"]
    [found] = admin.json(f"getBrokerConfig -b {admin.cluster.broker}")
    assert found["settings"]["flushDiskType"] == "SYNC_FLUSH"
    assert found["waitsForRestart"] == {"flushDiskType": "ASYNC_FLUSH"}
    line = "flushDiskType waits for a restart: until then it is ASYNC_FLUSH"
    assert line in admin(f"getBrokerConfig -b {admin.cluster.broker}")
    assert admin(f"{update} ASYNC_FLUSH")[1:] == []
    assert "waitsForRestart" not in admin.json(f"getBrokerConfig -b {admin.cluster.broker}")[0]


def test_the_settings_of_a_name_server(admin: AdminCommand) -> None:
    [found] = admin.json("getNamesrvConfig")
    assert found["addr"] == admin.cluster.name_server
    assert "kvConfigPath" in found["settings"]


def test_values_are_set_and_deleted(admin: AdminCommand) -> None:
    assert admin("updateKvConfig -s ORDER_TOPIC_CONFIG -k key -v value") == [
        "create or update kv config to namespace success."
    ]
    assert admin.json("updateOrderConf -t key -m get")[0]["orderConf"] == "value"
    admin("deleteKvConfig -s ORDER_TOPIC_CONFIG -k key")
    assert admin.json("updateOrderConf -t key -m get")[0]["orderConf"] == ""
    with pytest.raises(ClientError, match="-m put"):
        admin("updateOrderConf -t key -m put")


def test_write_permission_is_taken_and_given_back(admin: AdminCommand) -> None:
    topic = admin.create("permitted")
    [wiped] = admin("wipeWritePerm -b broker-a")
    assert wiped.startswith(
        f"wipe write perm of broker[broker-a] in name server[{admin.cluster.name_server}] OK, "
    )
    assert admin.json(f"topicRoute -t {topic}")[0]["route"]["queueDatas"][0]["perm"] == 4
    assert admin.json("addWritePerm -b broker-a")[0]["topics"] > 0
    assert admin.json(f"topicRoute -t {topic}")[0]["route"]["queueDatas"][0]["perm"] == 6
