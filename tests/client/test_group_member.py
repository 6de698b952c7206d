"""A member: which queues it takes and gives up, and when."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.client.clusters import NAME_SERVER, messages
from tests.client.group_cluster import RETRY, GroupCluster, two_queues
from wakelog.client.allocation import STRATEGIES
from wakelog.client.consumer import Consumer
from wakelog.client.consumer_message import ConsumerMessage
from wakelog.client.errors import CHECK_LOG, ClientError
from wakelog.client.failure_lines import FailureLines
from wakelog.client.group_member import AGAIN_SECONDS, GroupMember, MemberOptions
from wakelog.network.errors import ConnectFailed
from wakelog.protocol.bodies import SubscriptionData
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer

Q0, Q1 = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1)


def consumer_of(cluster: GroupCluster, **settings: Any) -> Consumer:
    given = {"group": "g", "topics": "T", "start": "first", "retries_max": 0, **settings}
    return Consumer(NAME_SERVER, connect=cluster.join, **given)


async def until(true: Callable[[], object]) -> None:
    """Let the loop run until something holds."""
    async with asyncio.timeout(10):
        while not true():
            await asyncio.sleep(0.001)


async def notify(cluster: GroupCluster) -> None:
    """Say to every member that the group has changed, as brokers do."""
    for instance in cluster.instances:
        code = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        await instance.answer("a:10911", RemotingCommand(int(code)))


def run(body: Awaitable[None]) -> None:
    async def main() -> None:
        await body

    asyncio.run(main())


def test_two_members_share_the_queues_and_go_on_for_each_other() -> None:
    async def body() -> None:
        cluster = two_queues()
        async with consumer_of(cluster) as first:
            assert first.assignment == [Q0, Q1]
            for message in await first.fetch(100):
                if message.queue_offset < 2:
                    await message.ack()
            async with consumer_of(cluster) as second:
                assert second.assignment == [Q1]
                await notify(cluster)
                await until(lambda: first.assignment == [Q0])
                assert cluster.committed["g", "a", "T", 1] == 2
            assert cluster.members == ["client-0"]
            await notify(cluster)
            await until(lambda: first.assignment == [Q0, Q1])

    run(body())


def test_a_member_that_comes_while_queues_are_shared_out_gets_its_queue() -> None:
    """The members were read before it came, and no other notice follows."""

    async def body() -> None:
        cluster = two_queues()
        was_read, goes_on = asyncio.Event(), asyncio.Event()
        invoke = cluster.invoke

        async def slowly(
            address: str, command: RemotingCommand, *, timeout_ms: int
        ) -> RemotingCommand:
            response = await invoke(address, command, timeout_ms=timeout_ms)
            if command.code == RequestCode.GET_CONSUMER_LIST_BY_GROUP:
                was_read.set()
                await goes_on.wait()
            return response

        async with consumer_of(cluster) as consumer:
            cluster.invoke = slowly  # type: ignore[method-assign]
            await notify(cluster)
            await was_read.wait()
            cluster.members.append("another")
            await notify(cluster)
            goes_on.set()
            await until(lambda: consumer.assignment == [Q1])

    run(body())


def test_an_ordered_queue_changes_hands_after_its_message_in_hand() -> None:
    async def body() -> None:
        cluster = GroupCluster({("a", "T", 0): messages(2), RETRY: []})
        async with consumer_of(cluster, ordered=True) as first:
            [message] = await first.fetch(10)
            cluster.members.insert(0, "another")  # which the queue goes to
            await notify(cluster)
            await until(lambda: Q0 in first._inbox.leaving)
            assert cluster.locks[Q0] == "client-0"
            assert await first.fetch(1, 0.01) == []
            await message.ack()
            await until(lambda: Q0 not in cluster.locks)
            assert cluster.committed["g", "a", "T", 0] == 1
            assert first.assignment == []

    run(body())


def test_an_ordered_queue_that_comes_back_is_read_after_it_was_unlocked() -> None:
    """The end of its unlock would else take away the lock under which it is read."""

    async def body() -> None:
        cluster = GroupCluster({("a", "T", 0): messages(2), RETRY: []})
        unlocked, is_unlocking = asyncio.Event(), asyncio.Event()
        invoke = cluster.invoke

        async def slowly(
            address: str, command: RemotingCommand, *, timeout_ms: int
        ) -> RemotingCommand:
            if command.code == RequestCode.UNLOCK_BATCH_MQ:
                is_unlocking.set()
                await unlocked.wait()
            return await invoke(address, command, timeout_ms=timeout_ms)

        cluster.invoke = slowly  # type: ignore[method-assign]
        async with consumer_of(cluster, ordered=True) as consumer:
            member = consumer._member
            cluster.members.insert(0, "another")  # which the queue goes to
            await member.balance()
            await is_unlocking.wait()
            cluster.members.remove("another")  # as quickly
            asked = len(cluster.asked)
            assert not await member.balance()  # what is left open comes soon
            assert member.failure is None
            assert RequestCode.LOCK_BATCH_MQ not in {code for _, code in cluster.asked[asked:]}
            assert consumer.assignment == []
            unlocked.set()
            await until(lambda: consumer.assignment == [Q0])
            assert cluster.locks[Q0] == "client-0"
            assert await consumer.fetch(1, 10.0)

    run(body())


def test_a_lost_lock_stops_a_queue() -> None:
    async def body() -> None:
        cluster = two_queues()
        async with consumer_of(cluster, ordered=True) as consumer:
            assert consumer.assignment == [Q0, Q1]
            cluster.locks[Q1] = "another"
            await consumer._member.renew_locks()
            assert consumer.assignment == [Q0]
            assert {each.queue for each in await consumer.fetch(100)} == {Q0}

    run(body())


def test_a_broker_that_forgot_its_members_hears_of_them_again() -> None:
    async def body() -> None:
        cluster = two_queues(1)
        async with consumer_of(cluster) as consumer:
            got = list[ConsumerMessage]()
            while len(got) < 2:
                got += await consumer.fetch(2)
            cluster.subscriptions.clear()
            cluster.members.clear()
            cluster.add(("a", "T", 0), messages(1, first=1))
            cluster.add(("a", "T", 1), messages(1, queue_id=1, first=1))
            while len(got) < 4:
                got += await consumer.fetch(2)
            await until(lambda: cluster.members == ["client-0"])
            assert consumer.assignment == [Q0, Q1]

    run(body())


def test_a_topic_that_comes_late_is_taken_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The retry topic is there only after the first heartbeat."""
    monkeypatch.setattr("wakelog.client.group_member.AGAIN_SECONDS", AGAIN_SECONDS / 100)

    async def body() -> None:
        cluster = GroupCluster({("a", "T", 0): messages(1)})
        async with consumer_of(cluster) as consumer:
            [message] = await consumer.fetch(1)
            await message.nack()
            [again] = await consumer.fetch(1, 10.0)
            assert again.reconsume_times == 1

    run(body())


def test_offsets_are_written_when_they_have_changed() -> None:
    async def body() -> None:
        cluster = two_queues()
        async with consumer_of(cluster) as consumer:

            def commits() -> int:
                return sum(code == RequestCode.UPDATE_CONSUMER_OFFSET for _, code in cluster.asked)

            await consumer.commit()
            assert commits() == 3  # the first offsets, so that the next start goes on there
            await consumer.commit()
            assert commits() == 3
            [message] = await consumer.fetch(1)
            await message.ack()
            await consumer.commit()
            assert commits() == 4

    run(body())


def test_a_broker_that_fails_has_nothing_sent_again_to_the_others() -> None:
    async def body() -> None:
        cluster = GroupCluster({("a", "T", 0): messages(1), ("b", "T", 0): messages(1)})
        async with consumer_of(cluster) as consumer:
            commit = ("a:10911", RequestCode.UPDATE_CONSUMER_OFFSET)
            cluster.refuse("b:10911")
            with pytest.raises(ClientError, match="b:10911"):
                await consumer.commit()
            count = cluster.asked.count(commit)
            assert count
            with pytest.raises(ClientError, match="b:10911"):
                await consumer.commit()
            assert cluster.asked.count(commit) == count
            cluster.refuse("nobody")
            await consumer.commit()
            assert cluster.asked.count(commit) == count
            assert ("g", "b", "T", 0) in cluster.committed

    run(body())


def test_a_start_that_failed_may_be_tried_again() -> None:
    async def body() -> None:
        cluster, refusal = two_queues(1), [ResponseCode.NO_PERMISSION]

        def refuse(address: str, command: RemotingCommand) -> RemotingCommand | None:
            if command.code == RequestCode.GET_CONSUMER_LIST_BY_GROUP and refusal:
                return answer(command, refusal[0], "not yours")
            return None

        cluster.fail = refuse
        consumer = consumer_of(cluster)
        try:
            for _ in range(2):
                with pytest.raises(ClientError, match="not yours"):
                    await consumer.start()
                assert not consumer.is_open
                with pytest.raises(ClientError, match="this consumer is not open"):
                    await consumer.fetch(1)
            refusal.clear()
            await consumer.start()
            assert consumer.is_open
            assert len(await consumer.fetch(2, 5.0)) == 2
            with pytest.raises(ClientError, match="open already"):
                await consumer.start()
        finally:
            await consumer.close()

    run(body())


LATE = datetime(2026, 1, 2, tzinfo=UTC)
FIRST, LAST, SINCE = 5, 50, 30


@pytest.mark.parametrize(
    ("topic", "start", "committed", "late", "begins"),
    [
        ("T", "first", None, False, FIRST),
        ("T", "last", None, False, LAST),
        ("T", LATE, None, False, SINCE),
        ("T", "last", None, True, SINCE),
        ("T", "first", None, True, FIRST),
        ("T", "first", 17, False, 17),
        ("T", "last", 0, True, 0),
        ("%RETRY%g", "last", None, False, 0),
        ("%RETRY%g", LATE, 3, False, 3),
    ],
)
def test_where_a_group_begins(
    topic: str, start: str | datetime, committed: int | None, late: bool, begins: int
) -> None:
    async def offset(at: object, of: int) -> int:
        assert at == (topic, 0)
        return of

    offsets = SimpleNamespace(
        min_offset=partial(offset, of=FIRST),
        max_offset=partial(offset, of=LAST),
        first_at=lambda at, ms: offset(at, SINCE if ms == LATE_MS else -1),
    )
    calls = SimpleNamespace(at=lambda queue: (queue.topic, queue.queue_id), offsets=offsets)
    no = cast(Any, None)

    async def read(_queue: MessageQueue) -> int | None:
        return committed

    member = GroupMember(
        no, cast(Any, calls), cast(Any, SimpleNamespace(read=read)), no, no,
        MemberOptions(start=start),
    )  # fmt: skip
    if late:
        member.late_from[topic] = LATE
    assert asyncio.run(member._first_offset(MessageQueue(topic, "a", 0))) == begins
    for place, at in ((7, 7), ("first", FIRST), ("last", LAST), (LATE, SINCE)):
        assert asyncio.run(member.offset_at(MessageQueue(topic, "a", 0), place)) == at


LATE_MS = 1_767_312_000_000


def test_a_lost_connection_is_one_line_however_many_queues_were_pulled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    no = cast(Any, None)
    instance = cast(Any, SimpleNamespace(failures=FailureLines()))
    member = GroupMember(instance, no, no, no, no, MemberOptions())

    async def fail(queues: int, address: str) -> None:
        for number in range(queues):
            error = ClientError(f"{address} does not answer PULL_MESSAGE", CHECK_LOG)
            error.__cause__ = ConnectFailed(address, "Connection refused")
            await member._note(MessageQueue("T", address, number), error)

    for address in ("a:10911", "b:10911", "a:10911"):
        asyncio.run(fail(300, address))
    assert len(caplog.records) == 2


def test_a_broker_that_is_away_is_one_line_and_one_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = two_queues()

    async def body() -> None:
        async with consumer_of(cluster) as consumer:
            member = consumer._member
            member._pause = pauses.pause
            for reader in member._readers.values():
                reader._pause = pauses.pause
            cluster.refuse("a:10911")
            for queue in (Q0, Q1):
                member.restart(queue, 0)
            await until(lambda: len(pauses.seconds) >= 40)
            cluster.refuse("nobody")
            await until(lambda: "works again" in caplog.text)
            await until(lambda: consumer.assignment == [Q0, Q1])

    pauses = Pauses()
    run(body())
    away = [line for line in caplog.messages if "does not answer PULL_MESSAGE" in line]
    back = [line for line in caplog.messages if "works again" in line]
    assert len(away) == len(back) == 1
    assert re.match(r"a:10911 works again, after \d\d+ failures in \d+ s$", back[0])


class Pauses:
    """Pauses for no time, which are counted."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def pause(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)


@pytest.mark.parametrize("is_refused", [True, False])
@pytest.mark.parametrize("members", [["me"], ["another"], []])
def test_a_member_that_no_broker_knows_says_why(is_refused: bool, members: list[str]) -> None:
    """A broker that has refused the heartbeat is the reason; else the next one helps."""
    refusal = ClientError("no", "Allow it", broker="a", code=int(ResponseCode.NO_PERMISSION))
    beats: list[int] = []

    async def heartbeat() -> None:
        beats.append(1)

    async def queues(_topic: str) -> list[MessageQueue]:
        return [Q0]

    async def of_group(_broker: str) -> list[str]:
        return members

    instance = SimpleNamespace(
        client_id="me", failures=FailureLines(), heartbeat=heartbeat,
        refusals={"a:10911": refusal} if is_refused else {},
    )  # fmt: skip
    inbox = SimpleNamespace(queues={Q0: None}, arrived=asyncio.Event())
    calls, no = cast(Any, SimpleNamespace(queues=queues, members=of_group)), cast(Any, None)
    options = MemberOptions(strategy=STRATEGIES["AVG"])
    member = GroupMember(cast(Any, instance), calls, no, cast(Any, inbox), no, options)
    member.subscriptions = {"T": SubscriptionData(topic="T")}
    is_known = members == ["me"]
    assert asyncio.run(member.balance()) is is_known
    assert len(beats) == (not is_known)
    assert member.failure is (refusal if is_refused and not is_known else None)
    assert inbox.arrived.is_set() is (member.failure is not None)
