"""Commands about groups, against a running cluster."""

import pytest

from tests.cli.admin.conftest import AdminCommand
from tests.compat.driver import wait_until
from tests.compat.frames import RawConnection

pytestmark = [pytest.mark.process, pytest.mark.slow]

UPDATE_OFFSET = 15


def test_a_group_is_created_and_shown(admin: AdminCommand) -> None:
    said = admin("updateSubGroup -c DefaultCluster -g made -r 3 -m true -a false")
    assert said[0] == f"create subscription group to {admin.cluster.broker} success."
    assert said[1].startswith("SubscriptionGroupConfig [groupName=made, consumeEnable=true, ")
    [found] = admin.json("getConsumerConfig -g made")
    assert found["retryMaxTimes"] == 3
    assert found["consumeFromMinEnable"] is True
    assert found["notifyConsumerIdsChangedEnable"] is False
    assert admin("getConsumerConfig -g absent") == []


def test_all_groups_are_listed_with_their_clients(admin: AdminCommand, online: str) -> None:
    [row] = [row for row in admin.json("consumerProgress") if row["group"] == online]
    assert (row["count"], row["type"], row["model"]) == (1, "PUSH", "CLUSTERING")


def test_the_statistics_leave_out_retries(admin: AdminCommand, online: str) -> None:
    assert not [row for row in admin.json("statsAll") if row["topic"].startswith("%")]


def test_the_lag_of_every_group_at_a_broker(admin: AdminCommand) -> None:
    topic, group = admin.create("lagging"), "laggards"
    for _ in range(3):
        admin(f"sendMessage -t {topic} -b broker-a -i 0 -p body")
    with RawConnection(admin.cluster.broker) as connection:
        place = {"consumerGroup": group, "topic": topic, "queueId": 0, "commitOffset": 1}
        assert connection.ask(UPDATE_OFFSET, place).code == 0
    admin(f"updateSubGroup -c DefaultCluster -g {group}")
    line = f"brokerConsumeStats -b {admin.cluster.broker}"
    wait_until(lambda: group in "".join(admin(line)), what="dispatched")
    [row] = [row for row in admin.json(f"{line} -l 2") if row.get("group") == group]
    assert (row["qid"], row["brokerOffset"], row["consumerOffset"], row["diff"]) == (0, 3, 1, 2)
    assert not [row for row in admin.json(f"{line} -l 3") if row.get("group") == group]
    assert admin(line)[-1].startswith("Diff Total: ")
    assert admin(f"{line} -o true")[-1] == "Diff Total: 0"
