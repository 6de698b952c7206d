"""Typed calls to brokers: values, retries, and errors."""

import asyncio
import random
from bisect import bisect_left
from collections.abc import Awaitable, Callable

import pytest

from tests.client.clusters import NAME_SERVER, FakeCluster, messages
from tests.fakes.records import STORE_MS, record
from wakelog.client.broker_calls import BrokerCalls, open_calls
from wakelog.client.errors import ClientError
from wakelog.client.options import ClientOptions
from wakelog.client.route import QueueAt
from wakelog.network.errors import CallTimeout
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.sys_flag import PULL_SUBSCRIPTION, PULL_SUSPEND

AT = QueueAt("a", "T", 0, "a:10911")


def test_calls_return_offsets_and_messages_of_a_queue() -> None:
    cluster = FakeCluster({("a", "T", 0): messages(5, first=7)})
    cluster.first["a", "T", 0] = 7
    cluster.committed = {("g", "a", "T", 0): 9, ("minus", "a", "T", 0): -1}
    calls = cluster.calls()

    async def run() -> None:
        assert await calls.routes.topics() == {"T"}
        assert await calls.routes.readable("T") == [AT]
        assert await calls.routes.readable("U") is None
        assert (await calls.min_offset(AT), await calls.max_offset(AT)) == (7, 12)
        assert await calls.committed_offset(AT, "g") == 9
        assert (
            await calls.committed_offset(AT, "minus")
            is await calls.committed_offset(AT, "new")
            is None
        )
        await calls.commit_offset(AT, "g", 11)
        assert await calls.committed_offset(AT, "g") == 11
        found = await calls.pull(AT, 8, 2)
        assert (found.next_offset, found.min_offset, found.max_offset) == (10, 7, 12)
        assert found.body == b"".join(messages(2, first=8))
        moved = await calls.pull(AT, 3, 2)
        assert (moved.code, moved.body) == (ResponseCode.PULL_OFFSET_MOVED, b"")
        gone = await calls.pull(QueueAt("a", "U", 0, "a:10911"), 3, 2)
        assert (gone.code, gone.next_offset) == (ResponseCode.TOPIC_NOT_EXIST, 3)

    asyncio.run(run())


def test_a_repeated_call_uses_the_new_address_of_the_broker() -> None:
    cluster = FakeCluster({("a", "T", 0): messages(1)})
    moved = QueueAt("a", "T", 0, "old:1")
    cluster.refuse("old:1")
    calls = cluster.calls()
    assert asyncio.run(calls.max_offset(moved)) == 1
    cluster.asked.clear()
    assert asyncio.run(calls.min_offset(moved)) == 0
    assert cluster.asked == [("a:10911", RequestCode.GET_MIN_OFFSET)]


@pytest.mark.parametrize("retries", [0, 3])
def test_the_error_names_the_broker_that_does_not_answer(retries: int) -> None:
    cluster = FakeCluster({("a", "T", 0): messages(1)})

    def fail(address: str, command: RemotingCommand) -> RemotingCommand | None:
        raise CallTimeout(address, "no answer within 3000 ms")

    cluster.fail = fail
    calls = cluster.calls(ClientOptions((NAME_SERVER, "b:1"), retries_max=retries))
    with pytest.raises(ClientError, match="a does not answer GET_MAX_OFFSET: a:10911: no answer"):
        asyncio.run(calls.max_offset(AT))
    assert [x for x, _ in cluster.asked].count("a:10911") == retries + 1
    with pytest.raises(ClientError, match="gave the route of topic T: names:9876: no"):
        asyncio.run(calls.routes.readable("T"))
    assert cluster.asked[-1][0] == "b:1"


@pytest.mark.parametrize(
    ("code", "attempts", "remedy"),
    [
        (ResponseCode.SYSTEM_BUSY, 4, "The log of that server may say more"),
        (ResponseCode.NO_PERMISSION, 1, "Give the topic and the group read permission"),
        (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, 1, "updateSubGroup"),
        (ResponseCode.SUBSCRIPTION_NOT_EXIST, 1, "give one of them another group"),
    ],
)
def test_the_error_of_a_refusal_has_code_remark_and_remedy(
    code: ResponseCode, attempts: int, remedy: str
) -> None:
    cluster = FakeCluster({("a", "T", 0): messages(1)})
    cluster.fail = lambda address, command: (
        answer(command, code, "because") if address == "a:10911" else None
    )
    with pytest.raises(ClientError, match=f"{code.value} .{code.name}.: because") as failed:
        asyncio.run(cluster.calls().pull(AT, 0, 1))
    assert remedy in failed.value.remedy
    assert (failed.value.broker, failed.value.code) == ("a", code)
    assert failed.value.remark == "because"
    assert [x for x, _ in cluster.asked].count("a:10911") == attempts
    with pytest.raises(ClientError, match="answered GET_MIN_OFFSET for queue 0 of topic T with"):
        asyncio.run(cluster.calls().min_offset(AT))


def test_connections_close_with_the_block() -> None:
    async def run() -> None:
        async with open_calls(ClientOptions(("127.0.0.1:1",), timeout_ms=500)) as calls:
            with pytest.raises(ClientError, match="no name server gave the list of topics"):
                await calls.routes.topics()
        with pytest.raises(ClientError, match="this client is closed"):
            await calls.routes.topics()

    asyncio.run(run())


def test_a_queue_that_never_had_a_message_begins_at_its_end() -> None:
    cluster = FakeCluster({("a", "T", 0): []})
    cluster.first["a", "T", 0] = -1
    assert asyncio.run(cluster.calls().range_of(AT)) == (0, 0)


def test_a_time_is_the_first_message_of_then_or_later() -> None:
    """4.9.3's own search gives a message near that time, and any of those of one millisecond."""
    choices = random.Random(5)
    times, now = [], STORE_MS
    for _ in range(200):
        now += choices.choice((0, 0, 0, 1, 50))
        times.append(now)
    cluster = FakeCluster(
        {
            ("a", "T", 0): [
                record(n * 200, queue_offset=n + 30, store_timestamp_ms=time_ms)
                for n, time_ms in enumerate(times)
            ]
        }
    )
    cluster.first["a", "T", 0] = 30
    for time_ms in (*range(STORE_MS - 1, now + 2, 23), now, now + 1, 0, *times[::9]):
        earlier = sum(each < time_ms for each in times)
        assert asyncio.run(cluster.calls().first_at(AT, time_ms)) == 30 + earlier
    assert asyncio.run(cluster.calls().first_at(AT, STORE_MS, (5, 5))) == 5


QUEUE = {"topic": "T", "queueId": "0"}
PULL = QUEUE | {
    "consumerGroup": "wakelog", "queueOffset": "3", "maxMsgNums": "2", "commitOffset": "0",
    "subVersion": "0",
}  # fmt: skip


@pytest.mark.parametrize(
    ("call", "code", "fields"),
    [
        (lambda x: x.min_offset(AT), RequestCode.GET_MIN_OFFSET, QUEUE),
        (lambda x: x.max_offset(AT), RequestCode.GET_MAX_OFFSET, QUEUE),
        (lambda x: x.committed_offset(AT, "g"), RequestCode.QUERY_CONSUMER_OFFSET,
         QUEUE | {"consumerGroup": "g"}),
        (lambda x: x.commit_offset(AT, "g", 7), RequestCode.UPDATE_CONSUMER_OFFSET,
         QUEUE | {"consumerGroup": "g", "commitOffset": "7"}),
        (lambda x: x.pull(AT, 3, 2), RequestCode.PULL_MESSAGE,
         PULL | {"sysFlag": str(PULL_SUBSCRIPTION), "suspendTimeoutMillis": "0",
                 "subscription": "*", "expressionType": "TAG"}),
        (lambda x: x.pull(AT, 3, 2, "a > 1", hold_ms=9, expression_type="SQL92"),
         RequestCode.PULL_MESSAGE,
         PULL | {"sysFlag": str(PULL_SUBSCRIPTION | PULL_SUSPEND), "suspendTimeoutMillis": "9",
                 "subscription": "a > 1", "expressionType": "SQL92"}),
    ],
)  # fmt: skip
def test_what_a_broker_is_asked(
    call: Callable[[BrokerCalls], Awaitable[object]], code: RequestCode, fields: dict[str, str]
) -> None:
    asked: list[tuple[str, int, dict[str, str]]] = []
    cluster = FakeCluster({("a", "T", 0): messages(5)})

    def note(address: str, command: RemotingCommand) -> None:
        asked.append((address, command.code, command.ext_fields))

    cluster.fail = note
    asyncio.run(call(cluster.calls()))  # type: ignore[arg-type]
    assert asked == [("a:10911", code, fields)]


@pytest.mark.parametrize("hint", range(-2, 8))
def test_wherever_a_broker_points_the_first_message_of_a_time_is_found(hint: int) -> None:
    times = [0, 10, 10, 30, 30, 30]

    class Pointing(BrokerCalls):
        async def _search(self, queue: QueueAt, timestamp_ms: int) -> int:
            return 2 + hint

        async def _stored_ms(self, queue: QueueAt, queue_offset: int) -> int:
            assert 2 <= queue_offset < 2 + len(times), "only what the queue has is read"
            return times[queue_offset - 2]

    calls = Pointing(FakeCluster(), ClientOptions((NAME_SERVER,)))
    for time_ms in (-1, 0, 1, 10, 11, 30, 31):
        found = asyncio.run(calls.first_at(AT, time_ms, (2, 2 + len(times))))
        assert found == 2 + bisect_left(times, time_ms)
