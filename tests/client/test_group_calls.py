"""Calls of a member: which broker they go to, and what their failures say."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.client.clusters import NAME_SERVER, messages
from tests.client.group_cluster import SETTLER, GroupCluster, two_queues
from wakelog.client.consumer_message import ConsumerMessage
from wakelog.client.errors import ClientError
from wakelog.client.group_calls import (
    HOLD_MS,
    PULL_MESSAGES_MAX,
    PULL_TIMEOUT_MS,
    GroupCalls,
)
from wakelog.client.options import ClientOptions
from wakelog.protocol.bodies import (
    BrokerData,
    CheckClientRequestBody,
    LockBatchRequestBody,
    SubscriptionData,
)
from wakelog.protocol.body_codec import MessageQueue, decode_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.record import decode_record
from wakelog.protocol.sys_flag import PULL_BY_BYTES, PULL_LARGE, PULL_SUBSCRIPTION, PULL_SUSPEND

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
def test_a_large_pull_says_so(is_large: bool) -> None:
    asked = list[RemotingCommand]()

    def note(address: str, command: RemotingCommand) -> RemotingCommand | None:
        if command.code == RequestCode.PULL_MESSAGE:
            asked.append(command)
        return None

    async def run() -> None:
        cluster = two_queues(1)
        calls = await calls_of(cluster)
        cluster.fail = note
        await calls.pull(Q0, 0, ALL, is_known=False, messages_max=300, is_large=is_large)

    asyncio.run(run())
    [command] = asked
    flags = int(command.ext_fields["sysFlag"])
    assert bool(flags & PULL_LARGE) is is_large and flags & PULL_BY_BYTES
    assert command.ext_fields["maxMsgNums"] == "300"
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


MESSAGE = ConsumerMessage(decode_record(messages(1, topic="T")[0]), Q0, SETTLER)
SQL = SubscriptionData(topic="T", sub_string="a > 1", expression_type="SQL92", sub_version=7)
PULL = {
    "consumerGroup": "g", "topic": "T", "queueId": "0", "queueOffset": "5", "commitOffset": "0",
    "maxMsgNums": str(PULL_MESSAGES_MAX), "suspendTimeoutMillis": str(HOLD_MS),
}  # fmt: skip
BACK = {
    "offset": "0", "group": "g", "delayLevel": "3", "originTopic": "T", "unitMode": "false",
    "originMsgId": MESSAGE.message_id, "maxReconsumeTimes": "16",
}  # fmt: skip


@pytest.mark.parametrize(
    ("call", "code", "fields", "timeout_ms"),
    [
        (lambda x: x.members("a"), RequestCode.GET_CONSUMER_LIST_BY_GROUP,
         {"consumerGroup": "g"}, 700),
        (lambda x: x.check("a", SQL), RequestCode.CHECK_CLIENT_CONFIG,
         CheckClientRequestBody("client-0", "g", SQL), 700),
        (lambda x: x.lock([Q0, Q1]), RequestCode.LOCK_BATCH_MQ,
         LockBatchRequestBody("g", "client-0", {Q0, Q1}), 700),
        (lambda x: x.unlock([Q1]), RequestCode.UNLOCK_BATCH_MQ,
         LockBatchRequestBody("g", "client-0", {Q1}), 700),
        (lambda x: x.send_back(MESSAGE, 3, 16), RequestCode.CONSUMER_SEND_MSG_BACK, BACK, 700),
        (lambda x: x.pull(Q0, 5, SQL, is_known=True), RequestCode.PULL_MESSAGE,
         PULL | {"sysFlag": str(PULL_SUSPEND | PULL_BY_BYTES), "subVersion": "7",
                 "expressionType": "SQL92"}, PULL_TIMEOUT_MS),
        (lambda x: x.pull(Q0, 5, SQL, is_known=False), RequestCode.PULL_MESSAGE,
         PULL | {"sysFlag": str(PULL_SUSPEND | PULL_BY_BYTES | PULL_SUBSCRIPTION),
                 "subVersion": "7", "expressionType": "SQL92", "subscription": "a > 1"},
         PULL_TIMEOUT_MS),
        (lambda x: x.pull(Q0, 5, ALL, is_known=True), RequestCode.PULL_MESSAGE,
         PULL | {"sysFlag": str(PULL_SUSPEND | PULL_BY_BYTES), "subVersion": "0",
                 "expressionType": "TAG"}, PULL_TIMEOUT_MS),
    ],
)  # fmt: skip
def test_what_a_broker_is_asked(
    call: Callable[[GroupCalls], Awaitable[object]],
    code: RequestCode,
    fields: dict[str, str] | CheckClientRequestBody | LockBatchRequestBody,
    timeout_ms: int,
) -> None:
    asked: list[tuple[str, RemotingCommand, int]] = []

    async def invoke(address: str, command: RemotingCommand, *, timeout_ms: int) -> RemotingCommand:
        asked.append((address, command, timeout_ms))
        places = dict.fromkeys(("nextBeginOffset", "minOffset", "maxOffset"), "1")
        fields = {"suggestWhichBrokerId": "0", **places}
        return answer(command, ResponseCode.SUCCESS, ext_fields=fields, body=b"{}")

    async def run() -> None:
        cluster = two_queues()
        options = ClientOptions((NAME_SERVER,), retries_max=0, timeout_ms=700)
        calls = GroupCalls(cluster.join(options), "g")
        await calls.queues("T")
        cluster.invoke = invoke  # type: ignore[method-assign]
        await call(calls)

    asyncio.run(run())
    [(address, command, waited_ms)] = asked
    assert (address, command.code, waited_ms) == ("a:10911", code, timeout_ms)
    if isinstance(fields, dict):
        assert (command.ext_fields, command.body) == (fields, b"")
    else:
        assert (decode_body(type(fields), command.body), command.ext_fields) == (fields, {})


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (ResponseCode.NO_PERMISSION, "read permission"),
        (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "updateSubGroup"),
        (ResponseCode.SUBSCRIPTION_PARSE_FAILED, "Correct the expression"),
        (ResponseCode.SYSTEM_ERROR, "enablePropertyFilter"),
    ],
)
def test_a_refusal_has_a_remedy_and_that_of_a_filter_its_own(
    code: ResponseCode, remedy: str
) -> None:
    async def run(of_filter: bool) -> ClientError:
        cluster = two_queues()
        calls = await calls_of(cluster)
        cluster.fail = lambda _, command: answer(command, code, "no")
        with pytest.raises(ClientError) as raised:
            await (calls.check("a", SQL) if of_filter else calls.members("a"))
        return raised.value

    for of_filter in (True, False):
        error = asyncio.run(run(of_filter))
        is_meant = of_filter or code != ResponseCode.SYSTEM_ERROR
        assert (remedy in error.remedy) is is_meant
        assert (error.broker, error.code) == ("a", code)


def test_a_slave_that_does_not_answer_is_not_asked_again() -> None:
    async def run() -> None:
        cluster = two_queues(1)
        cluster.addresses["a"] = {0: "a:10911", 1: "a:20911"}
        cluster.suggested = 1
        calls = await calls_of(cluster)
        cluster.pulled_at.clear()
        await calls.pull(Q0, 0, ALL, is_known=False)
        cluster.refuse("a:20911")
        with pytest.raises(ClientError, match="a:20911"):
            await calls.pull(Q0, 0, ALL, is_known=False)
        await calls.pull(Q0, 0, ALL, is_known=False)
        assert [address for address, _ in cluster.pulled_at] == ["a:10911", "a:20911", "a:10911"]

    asyncio.run(run())
