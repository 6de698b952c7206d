"""Commands about groups, against a running cluster."""

import pytest

from tests.cli.admin.conftest import AdminCommand
from wakelog.client.errors import ClientError

pytestmark = [pytest.mark.process, pytest.mark.slow]


def test_a_group_is_created_and_shown(admin: AdminCommand) -> None:
    said = admin("updateSubGroup -c DefaultCluster -g made -r 3 -m true -a false")
    assert said[0] == f"create subscription group to {admin.cluster.broker} success."
    assert said[1].startswith("SubscriptionGroupConfig [groupName=made, consumeEnable=true, ")
    [found] = admin.json("getConsumerConfig -g made")
    assert found["retryMaxTimes"] == 3
    assert found["consumeFromMinEnable"] is True
    assert found["notifyConsumerIdsChangedEnable"] is False
    assert admin("getConsumerConfig -g absent") == []


def test_the_clients_of_a_consumer_group(admin: AdminCommand, online: str) -> None:
    said = admin(f"consumerConnection -g {online}")
    assert said[0].split() == ["#ClientId", "#ClientAddr", "#Language", "#Version"]
    assert said[1].split()[::2] == ["c1", "JAVA"]
    assert said[1].endswith("V4_9_3")
    assert ["online_topic", "*"] in [line.split() for line in said]
    assert "MessageModel: CLUSTERING" in said


def test_the_clients_of_a_producer_group(admin: AdminCommand, online: str) -> None:
    topic = admin.create("produced")
    [row] = admin.json(f"producerConnection -g online_producer -t {topic}")
    assert (row["number"], row["clientId"]) == (1, "c1")
    with pytest.raises(ClientError, match="absent"):
        admin(f"producerConnection -g absent -t {topic}")


def test_all_groups_are_listed_with_their_clients(admin: AdminCommand, online: str) -> None:
    [row] = [row for row in admin.json("consumerProgress") if row["group"] == online]
    assert (row["count"], row["type"], row["model"]) == (1, "PUSH", "CLUSTERING")


def test_a_group_without_consumers_has_no_connection(admin: AdminCommand) -> None:
    with pytest.raises(ClientError, match="%RETRY%absent"):
        admin("consumerConnection -g absent")


def test_the_statistics_leave_out_retries(admin: AdminCommand, online: str) -> None:
    assert not [row for row in admin.json("statsAll") if row["topic"].startswith("%")]
