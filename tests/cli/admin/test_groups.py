"""Commands about groups, against a running cluster."""

import asyncio
from typing import cast

import pytest

from tests.cli.admin.conftest import AdminCommand
from tests.compat.driver import wait_until
from tests.compat.frames import RawConnection
from wakelog.cli.admin.exports import _client_versions, _stats
from wakelog.cli.admin.groups import _topic_stats, client_addresses
from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError
from wakelog.protocol.bodies import (
    BrokerStatsData,
    Connection,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
)
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import ResponseCode

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


class HalfAnswering:
    """A group with three clients, of which one cannot be asked, and a broker that may be silent."""

    def __init__(self, silent: str = "") -> None:
        self.silent = silent

    async def _answer(self, what: str) -> None:
        if what == self.silent:
            raise ClientError(f"{what} does not answer", "Check that it runs")

    async def consumers(self, group: str) -> ConsumerConnection:
        await self._answer("broker")
        clients = [Connection(client_id=f"{name}@1") for name in ("a", "b", "c")]
        return ConsumerConnection(connection_set=clients)

    async def running_info(self, group: str, client_id: str) -> ConsumerRunningInfo:
        await self._answer(client_id)
        if client_id == "b@1":
            raise ClientError("refused", "Ask another", code=ResponseCode.SYSTEM_ERROR)
        queue = MessageQueue("T", "broker-a", ord(client_id[0]))
        return ConsumerRunningInfo(mq_table={queue: {}})

    async def groups_of(self, topic: str) -> list[str]:
        return ["g"]

    async def brokers_of(self, topic: str) -> list[str]:
        return ["broker:1"]

    async def stats(self, address: str, name: str, key: str) -> BrokerStatsData:
        await self._answer("statistics")
        raise ClientError("refused", "Ask another", code=ResponseCode.SYSTEM_ERROR)

    async def consume_stats(self, group: str, topic: str) -> ConsumeStats:
        await self._answer("progress")
        raise ClientError("refused", "Ask another", code=ResponseCode.CONSUMER_NOT_ONLINE)


def admin_of(fake: HalfAnswering) -> Admin:
    return cast(Admin, fake)


def test_a_client_that_cannot_be_asked_hides_no_other() -> None:
    found = asyncio.run(client_addresses(admin_of(HalfAnswering()), "g"))
    assert {queue.queue_id: client for queue, client in found.items()} == {97: "a", 99: "c"}
    with pytest.raises(ClientError, match="c@1 does not answer"):
        asyncio.run(client_addresses(admin_of(HalfAnswering("c@1")), "g"))


@pytest.mark.parametrize("silent", ["statistics", "progress"])
def test_a_broker_that_does_not_answer_is_not_counted_as_nothing(silent: str) -> None:
    row = asyncio.run(_topic_stats(admin_of(HalfAnswering()), "T", only_active=False))
    assert row == [("T", "g", 0, 0.0, "0.00", 0, 0)]
    with pytest.raises(ClientError, match=f"{silent} does not answer"):
        asyncio.run(_topic_stats(admin_of(HalfAnswering(silent)), "T", only_active=False))


def test_an_export_does_not_count_as_nothing_what_does_not_answer() -> None:
    found = asyncio.run(_stats(admin_of(HalfAnswering()), "broker:1", "T"))
    assert found == BrokerStatsData()
    for silent, ask in (
        ("statistics", lambda admin: _stats(admin, "broker:1", "T")),
        ("broker", lambda admin: _client_versions(admin, {"g": None})),
    ):
        with pytest.raises(ClientError, match=f"{silent} does not answer"):
            asyncio.run(ask(admin_of(HalfAnswering(silent))))
