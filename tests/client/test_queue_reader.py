"""A reader: what it does with each kind of answer."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from tests.client.clusters import NAME_SERVER, messages
from tests.client.group_cluster import SETTLER, GroupCluster
from wakelog.client.errors import ClientError
from wakelog.client.group_calls import PULL_MESSAGES_MAX, PULL_ROWS_MAX, GroupCalls
from wakelog.client.inbox import LARGE_QUEUES_MAX, Inbox, Queue
from wakelog.client.options import ClientOptions
from wakelog.client.process_queue import MESSAGES_MAX, ProcessQueue
from wakelog.client.queue_reader import AGAIN_SECONDS, QueueReader
from wakelog.compiled.columns import BatchFunctions
from wakelog.protocol.bodies import SubscriptionData
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.sys_flag import PULL_LARGE

Q0 = MessageQueue("T", "a", 0)
PLACE = "a", "T", 0


def run(
    cluster: GroupCluster,
    body: Callable[[QueueReader, Inbox, list[ClientError]], Awaitable[None]],
    begin_offset: int = 0,
) -> None:
    async def main() -> None:
        calls = GroupCalls(cluster.join(ClientOptions((NAME_SERVER,), retries_max=0)), "g")
        await calls.queues("T")
        queue: Queue = ProcessQueue(Q0, begin_offset)
        inbox, failures, unexpected = Inbox(), list[ClientError](), list[Exception]()
        inbox.add(queue)
        inbox.is_read.set()

        async def note(error: ClientError) -> None:
            failures.append(error)

        async def pause(seconds: float) -> None:
            assert seconds == AGAIN_SECONDS
            await asyncio.sleep(0)

        reader = QueueReader(
            queue, SubscriptionData(topic="T", sub_string="*"), calls, inbox, SETTLER,
            is_known=False, on_failure=note, on_success=lambda: None,
            on_unexpected=unexpected.append, now_ms=lambda: 5, pause=pause,
        )  # fmt: skip
        reader.start()
        async with asyncio.timeout(10):
            await body(reader, inbox, failures)
        reader.stop()
        assert not unexpected

    asyncio.run(main())


async def arrived(inbox: Inbox) -> list[int]:
    """Return the offsets of what is there once something is."""
    await inbox.arrived.wait()
    return [message.queue_offset for message in inbox.take(0, 100)]


def test_the_first_pull_waits_for_what_is_made_of_it() -> None:
    cluster = GroupCluster({PLACE: messages(2)})

    def pulls() -> int:
        return [code for _, code in cluster.asked].count(RequestCode.PULL_MESSAGE)

    async def body(reader: QueueReader, inbox: Inbox, failures: list[ClientError]) -> None:
        inbox.is_read.clear()
        reader.start()
        while not pulls():
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        assert pulls() == 1
        assert not inbox.arrived.is_set() and reader.queue.next_offset == 0
        inbox.take_messages(SETTLER)
        assert await arrived(inbox) == [0, 1]

    run(cluster, body)


def test_a_held_pull_ends_when_a_message_comes() -> None:
    cluster = GroupCluster({PLACE: messages(2)})

    async def body(reader: QueueReader, inbox: Inbox, failures: list[ClientError]) -> None:
        assert await arrived(inbox) == [0, 1]
        cluster.add(PLACE, messages(1, first=2))
        assert await arrived(inbox) == [2]
        assert reader.queue.pulled_ms == 5
        assert not failures

    run(cluster, body)


@pytest.mark.parametrize(
    ("begin", "expected"), [(0, [7, 8]), (20, [7, 8])], ids=["expired", "made anew"]
)
def test_a_reader_follows_a_queue_that_begins_elsewhere(begin: int, expected: list[int]) -> None:
    cluster = GroupCluster({PLACE: messages(2, first=7)})
    cluster.first[PLACE] = 7
    if begin > 9:
        # 4.9.3 says the end; the queue below it is for whoever begins at the first.
        expected = [9]

    async def body(reader: QueueReader, inbox: Inbox, failures: list[ClientError]) -> None:
        if begin > 9:
            await asyncio.sleep(0)
            while reader.queue.next_offset != 9:
                await asyncio.sleep(0)
            cluster.add(PLACE, messages(1, first=9))
        assert await arrived(inbox) == expected

    run(cluster, body, begin)


def test_a_reader_goes_on_after_failures() -> None:
    cluster = GroupCluster({PLACE: messages(1)})
    failed = [
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SUCCESS,  # with a body that is no record
    ]

    def fail(address: str, command: RemotingCommand) -> RemotingCommand | None:
        if command.code != RequestCode.PULL_MESSAGE or not failed:
            return None
        fields = dict.fromkeys(
            ("suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset"), "0"
        )
        return answer(command, failed.pop(0), "reason", ext_fields=fields, body=b"x" * 200)

    cluster.fail = fail

    async def body(reader: QueueReader, inbox: Inbox, failures: list[ClientError]) -> None:
        assert await arrived(inbox) == [0]
        assert "SYSTEM_BUSY" in str(failures[0])
        assert "is gone: reason" in str(failures[1])
        assert "cannot be read" in str(failures[2])

    run(cluster, body)


@pytest.mark.parametrize("queues_count", [1, LARGE_QUEUES_MAX + 1])
def test_a_pull_brings_no_more_than_a_full_queue_may_have(queues_count: int) -> None:
    cluster = GroupCluster({PLACE: messages(40)})
    asked = list[tuple[int, bool]]()

    def note(address: str, command: RemotingCommand) -> RemotingCommand | None:
        if command.code == RequestCode.PULL_MESSAGE:
            is_large = bool(int(command.ext_fields["sysFlag"]) & PULL_LARGE)
            asked.append((int(command.ext_fields["maxMsgNums"]), is_large))
        return None

    async def body(reader: QueueReader, inbox: Inbox, failures: list[ClientError]) -> None:
        for queue_id in range(1, queues_count):
            inbox.add(ProcessQueue(MessageQueue("T", "a", queue_id), 0))
        cluster.fail = note
        while len(asked) < 3:
            await asyncio.sleep(0)
        inbox.row_functions = cast(BatchFunctions, object())
        assert reader._messages_max() == (PULL_ROWS_MAX if queues_count == 1 else PULL_MESSAGES_MAX)

    run(cluster, body)
    held = (0, 32, 40) if queues_count == 1 else (MESSAGES_MAX,) * 3
    assert asked == [(PULL_MESSAGES_MAX + MESSAGES_MAX - n, queues_count == 1) for n in held]


def test_a_full_queue_is_pulled_again_when_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wakelog.client.process_queue.MESSAGES_MAX", 1)
    cluster = GroupCluster({PLACE: messages(40)})

    async def body(reader: QueueReader, inbox: Inbox, failures: list[ClientError]) -> None:
        await inbox.arrived.wait()
        found = inbox.take(0, 100)
        while reader.room.is_set():
            await asyncio.sleep(0)
        assert len(found) == 32
        for message in found[:30]:
            reader.queue.ack([message])
            reader.check_room()
        assert not reader.room.is_set()
        reader.queue.ack([found[30]])
        reader.check_room()
        assert await arrived(inbox) == list(range(32, 40))

    run(cluster, body)
