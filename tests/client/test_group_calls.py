"""Calls of a member: which broker they go to, and what their failures say."""

import asyncio

import pytest

from tests.client.clusters import NAME_SERVER
from tests.client.group_cluster import GroupCluster, two_queues
from wakelog.client.errors import ClientError
from wakelog.client.group_calls import PULL_MESSAGES_MAX, PULL_ROWS_MAX, GroupCalls
from wakelog.client.options import ClientOptions
from wakelog.protocol.bodies import BrokerData, SubscriptionData
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.sys_flag import PULL_BY_BYTES, PULL_LARGE

Q0, Q1 = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1)
ALL = SubscriptionData(topic="T", sub_string="*")


async def calls_of(cluster: GroupCluster) -> GroupCalls:
    calls = GroupCalls(cluster.join(ClientOptions((NAME_SERVER,), retries_max=0)), "g")
    assert await calls.queues("T") == [Q0, Q1]
    return calls


def test_locks_are_for_one_client() -> None:
    async def run() -> None:
        cluster = two_queues()
        mine, others = await calls_of(cluster), await calls_of(cluster)
        assert await mine.lock([Q0]) == {Q0}
        assert await others.lock([Q0, Q1]) == {Q1}
        await mine.unlock([Q0])
        assert await others.lock([Q0, Q1]) == {Q0, Q1}

    asyncio.run(run())


def test_a_broker_without_an_address_is_an_error() -> None:
    async def run() -> None:
        calls = await calls_of(two_queues())
        with pytest.raises(ClientError, match="broker b has no address"):
            calls.address("b")

    asyncio.run(run())


def test_a_pull_goes_where_the_last_one_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A master that is behind with memory sends readers to its slave."""

    async def run() -> None:
        cluster = two_queues(1)
        calls = await calls_of(cluster)
        [data] = (await cluster.instances[0].routes.find("T")).broker_datas  # type: ignore[union-attr]
        monkeypatch.setattr(
            type(cluster.instances[0].routes),
            "brokers",
            {"a": BrokerData("c", "a", {0: "a:10911", 1: "a:20911"}).broker_addrs},
        )
        assert data.broker_name == "a"
        suggested = ["1", "0"]

        def suggest(address: str, command: RemotingCommand) -> RemotingCommand | None:
            if command.code != RequestCode.PULL_MESSAGE:
                return None
            places = {"nextBeginOffset": "1", "minOffset": "0", "maxOffset": "1"}
            fields = {"suggestWhichBrokerId": suggested.pop(0), **places}
            code = ResponseCode.PULL_RETRY_IMMEDIATELY
            return answer(command, code, ext_fields=fields)

        cluster.fail = suggest
        for _ in range(2):
            await calls.pull(Q0, 0, ALL, is_known=False)
        pulls = [address for address, code in cluster.asked if code == RequestCode.PULL_MESSAGE]
        assert pulls == ["a:10911", "a:20911"]

    asyncio.run(run())


@pytest.mark.parametrize("is_large", [False, True])
def test_a_pull_for_columns_asks_for_more(is_large: bool) -> None:
    asked = list[RemotingCommand]()

    def note(address: str, command: RemotingCommand) -> RemotingCommand | None:
        if command.code == RequestCode.PULL_MESSAGE:
            asked.append(command)
        return None

    async def run() -> None:
        cluster = two_queues(1)
        calls = await calls_of(cluster)
        cluster.fail = note
        await calls.pull(Q0, 0, ALL, is_known=False, is_large=is_large)

    asyncio.run(run())
    [command] = asked
    flags = int(command.ext_fields["sysFlag"])
    assert bool(flags & PULL_LARGE) is is_large and flags & PULL_BY_BYTES
    wanted = PULL_ROWS_MAX if is_large else PULL_MESSAGES_MAX
    assert command.ext_fields["maxMsgNums"] == str(wanted)
    assert command.wants_view


def test_a_failure_says_which_broker_and_why() -> None:
    async def run() -> None:
        cluster = two_queues()
        calls = await calls_of(cluster)
        cluster.fail = lambda _, command: answer(command, ResponseCode.SYSTEM_ERROR, "no members")
        with pytest.raises(ClientError, match=r"a answered GET_CONSUMER_LIST_BY_GROUP.*no members"):
            await calls.members("a")
        cluster.refuse("a:10911")
        with pytest.raises(ClientError, match="a:10911 does not answer PULL_MESSAGE"):
            await calls.pull(Q0, 0, ALL, is_known=False)

    asyncio.run(run())
