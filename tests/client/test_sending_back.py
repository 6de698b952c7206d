"""Messages that a consumer sends back while others of them are settled, or their queue moves."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from tests.client.clusters import NAME_SERVER
from tests.client.group_cluster import GroupCluster, two_queues
from tests.fakes.records import STORE_MS
from wakelog.client.consumer import Consumer
from wakelog.client.consumer_message import ConsumerMessage
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer

LATE_MS = 60_001


class SlowCluster(GroupCluster):
    """A cluster that does something else before it answers the first request of a code.

    code: of the request. before: what happens meanwhile; the broker refuses if it returns True.
    """

    code = RequestCode.CONSUMER_SEND_MSG_BACK
    before: Callable[[], Awaitable[bool]] | None = None

    async def invoke(
        self, address: str, command: RemotingCommand, *, timeout_ms: int
    ) -> RemotingCommand:
        if command.code == self.code and self.before is not None:
            before, self.before = self.before, None
            if await before():
                return answer(command, ResponseCode.SYSTEM_ERROR, "not now")
        return await super().invoke(address, command, timeout_ms=timeout_ms)


def run(
    body: Callable[[SlowCluster, Consumer, list[ConsumerMessage], list[int]], Awaitable[None]],
) -> SlowCluster:
    cluster, now = SlowCluster(two_queues(2).queues), [STORE_MS]

    async def main() -> None:
        async with Consumer(
            NAME_SERVER,
            group="g",
            topics="T",
            start="first",
            retries_max=0,
            connect=cluster.join,
            consume_timeout=timedelta(minutes=1),
            now_ms=lambda: now[0],
        ) as consumer:
            found: list[ConsumerMessage] = []
            while len(found) < 4:
                found += await consumer.fetch(4 - len(found), 5.0)
            await body(cluster, consumer, sorted(found, key=lambda each: each.queue_offset), now)

    asyncio.run(main())
    return cluster


@pytest.mark.parametrize("moves", [False, True])
def test_what_is_settled_or_moves_meanwhile_is_not_sent_back(moves: bool) -> None:
    async def body(
        cluster: SlowCluster, consumer: Consumer, found: list[ConsumerMessage], now: list[int]
    ) -> None:
        async def settle_all() -> bool:
            if moves:
                await consumer._member.release(list(consumer._inbox.queues))
            else:
                await consumer.ack(*found)
            return False

        now[0] += LATE_MS
        cluster.before = settle_all
        await consumer.time_out()

    assert len(run(body).sent_back) == 1


def test_what_the_broker_refuses_is_kept_only_while_it_is_in_hand() -> None:
    async def body(
        cluster: SlowCluster, consumer: Consumer, found: list[ConsumerMessage], now: list[int]
    ) -> None:
        async def move() -> bool:
            await consumer._member.release(list(consumer._inbox.queues))
            return True

        cluster.before = move
        await found[0].nack()
        assert found[0].local_returns_count == 0

    assert run(body).sent_back == []


def test_a_message_that_is_settled_while_its_delay_is_asked_for_is_not_sent_back() -> None:
    async def body(
        cluster: SlowCluster, consumer: Consumer, found: list[ConsumerMessage], now: list[int]
    ) -> None:
        async def settle() -> bool:
            await found[0].ack()
            return False

        cluster.code, cluster.before = RequestCode.GET_BROKER_CONFIG, settle
        await found[0].nack(timedelta(seconds=5))
        await found[1].nack(timedelta(seconds=5))

    assert len(run(body).sent_back) == 1
