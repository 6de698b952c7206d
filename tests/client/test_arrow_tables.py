"""Tables and batches of a consumer: what is handed on, acknowledged, given again."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pyarrow
import pyarrow.compute
import pytest

from tests.client.clusters import NAME_SERVER, messages
from tests.client.group_cluster import RETRY, GroupCluster, two_queues
from tests.fakes.records import record
from wakelog.client import sync
from wakelog.client.arrow_tables import BATCH_BYTES, BATCH_BYTES_COMPRESSED, _in_parts
from wakelog.client.consumer import Consumer
from wakelog.client.errors import ClientError
from wakelog.compiled.library import CHOICE
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.sys_flag import MESSAGE_COMPRESSED

QUEUE = MessageQueue("T", "a", 0)
pytestmark = pytest.mark.skipif(CHOICE.library is None, reason=str(CHOICE))


def run_with(
    work: Callable[[Consumer], Awaitable[None]],
    cluster: GroupCluster | None = None,
    **more: Any,
) -> None:
    """Run with a consumer of a queue of 40 messages."""
    cluster = cluster or GroupCluster({("a", "T", 0): messages(40), RETRY: []})

    async def run() -> None:
        given = {"group": "g", "topics": "T", "start": "first", "retries_max": 0, **more}
        async with Consumer(NAME_SERVER, connect=cluster.join, **given) as consumer:
            async with asyncio.timeout(60):
                await work(consumer)

    asyncio.run(run())


def offsets_of(table: Any) -> list[int]:
    found: list[int] = table["queueOffset"].to_pylist()
    return found


def test_no_message_is_made_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(consumer: Consumer) -> None:
        monkeypatch.setattr("wakelog.client.queue_reader.decode_messages", lambda *_: 1 / 0)
        monkeypatch.setattr("wakelog.client.pulled_rows.decode_record", lambda *_: 1 / 0)
        table = await consumer.fetch_arrow(max=40, wait=30)
        assert offsets_of(table) == list(range(40))
        await consumer.ack_arrow(table)
        assert consumer.position(QUEUE) == 40

    run_with(work)


@pytest.mark.parametrize("has_compressed", [False, True])
def test_a_batch_has_as_many_pulls_as_it_has_room_for(has_compressed: bool) -> None:
    room = BATCH_BYTES_COMPRESSED if has_compressed else BATCH_BYTES
    sizes = [room // 2, room // 2, 1, room + 1, room]
    rows: Any = [SimpleNamespace(size_bytes=n, has_compressed=has_compressed) for n in sizes]
    parts = [[each.size_bytes for each in part] for part in _in_parts(rows)]
    assert parts == [sizes[:2], sizes[2:3], sizes[3:4], sizes[4:]]


def test_the_stream_acknowledges_a_batch_when_the_next_is_asked_for() -> None:
    async def work(consumer: Consumer) -> None:
        found: list[int] = []
        stream = consumer.arrow(max=16, wait=0)
        async for batch in stream:
            assert consumer.position(QUEUE) == len(found)
            found += offsets_of(batch)
            if len(found) == 40:
                break
        await stream.aclose()
        assert found == list(range(40))
        assert consumer.position(QUEUE) == 40 - len(batch)

    run_with(work)


def test_what_the_stream_made_ahead_is_given_again() -> None:
    async def work(consumer: Consumer) -> None:
        stream = consumer.arrow(max=10, wait=0, ack=False)
        first = await anext(stream)
        queue = consumer._inbox.queues[QUEUE]
        while queue.in_hand_count < 20:
            await asyncio.sleep(0)
        await stream.aclose()
        assert queue.in_hand_count == len(first)
        rest = await consumer.fetch_arrow(max=30, wait=30)
        assert offsets_of(first) + offsets_of(rest) == list(range(40))

    run_with(work)


@pytest.mark.parametrize("are_messages", [False, True])
def test_a_call_that_waits_gets_at_once_what_a_stream_made_ahead(*, are_messages: bool) -> None:
    async def work(consumer: Consumer) -> None:
        expected = 40 - are_messages
        if are_messages:
            [message] = await consumer.fetch(1, 30)
            await message.ack()
        stream = consumer.arrow(max=20, wait=0, ack=False)
        first = offsets_of(await anext(stream))
        while sum(queue.in_hand_count for queue in consumer._inbox.queues.values()) < expected:
            await asyncio.sleep(0)
        waits = asyncio.ensure_future(consumer.fetch_arrow(max=expected - 20, wait=30))
        for _ in range(9):
            await asyncio.sleep(0)
        assert not waits.done()
        await stream.aclose()
        async with asyncio.timeout(10):
            assert sorted(first + offsets_of(await waits)) == list(range(are_messages, 40))

    run_with(work)


def test_a_consumer_that_is_closed_ends_its_stream() -> None:
    async def work(consumer: Consumer) -> None:
        found: list[int] = []
        async for batch in consumer.arrow(wait=0):
            found += offsets_of(batch)
            if len(found) == 40:
                asyncio.get_running_loop().call_soon(asyncio.ensure_future, consumer.close())
        assert found == list(range(40))

    run_with(work)


def filtered(table: pyarrow.Table) -> pyarrow.Table:
    return table.filter(pyarrow.compute.less(table["queueOffset"], 30))


def through_polars(table: pyarrow.Table) -> pyarrow.Table:
    import polars

    frame = polars.from_arrow(table)
    assert isinstance(frame, polars.DataFrame)
    return frame.slice(0, 30).to_arrow()


@pytest.mark.parametrize("part_of", [lambda table: table.slice(0, 30), filtered, through_polars])
def test_parts_of_a_table_are_acknowledged(part_of: Callable[[Any], Any]) -> None:
    async def work(consumer: Consumer) -> None:
        table = await consumer.fetch_arrow(max=40, wait=30)
        await consumer.ack_arrow(table.slice(35, 5))
        assert consumer.position(QUEUE) == 0
        await consumer.ack_arrow(part_of(table))
        assert consumer.position(QUEUE) == 30
        await consumer.ack_arrow(table)
        assert (consumer.position(QUEUE), consumer._tables._handed) == (40, {})

    run_with(work)


def test_messages_and_tables_may_take_turns() -> None:
    async def work(consumer: Consumer) -> None:
        table = await consumer.fetch_arrow(max=10, wait=30)
        found = await consumer.fetch(max=10, wait=30)
        other = await consumer.fetch_arrow(max=20, wait=30)
        assert [one.queue_offset for one in found] == list(range(10, 20))
        assert offsets_of(table) + offsets_of(other) == [*range(10), *range(20, 40)]
        await consumer.ack(*found)
        await consumer.ack_arrow(other)
        assert consumer.position(QUEUE) == 0
        await consumer.ack_arrow(table)
        assert consumer.position(QUEUE) == 40

    run_with(work)


def test_rows_that_are_not_acknowledged_in_time_are_sent_back() -> None:
    cluster = GroupCluster({("a", "T", 0): messages(40), RETRY: []})
    now_ms = 0

    async def work(consumer: Consumer) -> None:
        nonlocal now_ms
        table = await consumer.fetch_arrow(max=40, wait=30)
        await consumer.ack_arrow(table.slice(0, 38))
        now_ms += 60_001
        await consumer.time_out()
        assert consumer.position(QUEUE) == 40
        again = await consumer.fetch_arrow(max=2, wait=30)
        assert sorted(again["body"].to_pylist()) == [b"38", b"39"]
        assert again["topic"].to_pylist() == ["T", "T"]

    run_with(work, cluster, now_ms=lambda: now_ms, consume_timeout=timedelta(minutes=1))


def test_a_body_that_does_not_inflate_is_given_back_and_the_others_come() -> None:
    records = messages(40)
    records[7] = record(7000, queue_offset=7, body=b"no zlib", sys_flag=MESSAGE_COMPRESSED)
    cluster = GroupCluster({("a", "T", 0): records, RETRY: []})

    async def work(consumer: Consumer) -> None:
        table = await consumer.fetch_arrow(max=40, wait=30)
        assert offsets_of(table) == [n for n in range(40) if n != 7]
        await consumer.ack_arrow(table)
        assert consumer.position(QUEUE) == 40

    run_with(work, cluster)


def test_a_batch_has_the_rows_of_all_queues() -> None:
    async def work(consumer: Consumer) -> None:
        table = await consumer.fetch_arrow(max=8, wait=30)
        assert sorted(zip(table["queueId"].to_pylist(), offsets_of(table), strict=True)) == [
            (queue, offset) for queue in (0, 1) for offset in range(4)
        ]

    run_with(work, two_queues())


def test_the_stream_is_there_without_asyncio() -> None:
    cluster = GroupCluster({("a", "T", 0): messages(40), RETRY: []})
    consumer = sync.Consumer(NAME_SERVER, group="g", topics="T", start="first", retries_max=0)
    consumer.twin = Consumer(
        NAME_SERVER, group="g", topics="T", start="first", retries_max=0, connect=cluster.join
    )
    found: list[int] = []
    with consumer:
        for batch in consumer.arrow(max=20, wait=0):
            found += offsets_of(batch)
            if len(found) == 40:
                break
    assert found == list(range(40))


def test_a_failure_of_a_batch_that_is_not_wanted_any_more_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work(consumer: Consumer) -> None:
        stream = consumer.arrow(max=10, wait=0, ack=False)
        await anext(stream)
        fails = asyncio.Event()

        async def fetch(*_: object, **__: object) -> list[pyarrow.RecordBatch]:
            fails.set()
            raise ClientError("no broker", "Wait")

        monkeypatch.setattr(consumer._tables, "fetch", fetch)
        await fails.wait()
        await asyncio.sleep(0)
        await stream.aclose()

    with pytest.MonkeyPatch.context() as monkeypatch:
        run_with(work)
    assert [line for line in caplog.messages if "nobody asked for" in line] == [
        "the next batch, which nobody asked for any more: no broker. Wait"
    ]
