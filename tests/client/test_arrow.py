"""Messages as an Arrow table."""

import asyncio
import sys
from typing import Any

import pyarrow
import pytest

from tests.client.clusters import NAME_SERVER, messages
from tests.client.group_cluster import RETRY, SETTLER, GroupCluster, two_queues
from tests.fakes.records import STORE_MS, record
from wakelog.client.arrow import to_table
from wakelog.client.consumer import Consumer
from wakelog.client.consumer_message import decode_messages
from wakelog.client.errors import ClientError
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.sys_flag import MESSAGE_COMPRESSED


def test_a_row_has_what_its_message_has() -> None:
    data = record(255, b"TAGS\1paid\2KEYS\1a b\2UNIQ_KEY\1ID", queue_offset=7, body=b"x", flag=3)
    [row] = to_table(
        decode_messages(data, MessageQueue("T", "a", 0), SETTLER, frozenset())
    ).to_pylist()
    assert row["storeTimestamp"].timestamp() * 1000 == STORE_MS
    assert dict(row["properties"]) == {"TAGS": "paid", "KEYS": "a b", "UNIQ_KEY": "ID"}
    expected = {
        "topic": "T", "brokerName": "a", "queueId": 0, "queueOffset": 7, "msgId": "ID",
        "offsetMsgId": "7F00000100002A9F00000000000000FF", "tags": "paid", "keys": "a b",
        "flag": 3, "body": b"x", "reconsumeTimes": 0,
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected


def test_a_table_without_rows_has_its_columns() -> None:
    table = to_table([])
    assert (table.num_rows, table.schema.field("body").type) == (0, pyarrow.binary())


def test_a_consumer_acknowledges_a_table() -> None:
    cluster = two_queues()

    async def run() -> None:
        consumer = Consumer(
            NAME_SERVER, group="g", topics="T", start="first", retries_max=0, connect=cluster.join
        )
        async with consumer:
            table = await consumer.fetch_arrow(max=8)
            assert sorted(table["body"].to_pylist()) == sorted(b"%d" % n for n in (0, 1, 2, 3) * 2)
            await consumer.ack_arrow(table.slice(0, 6))
            assert sum((await consumer.lag()).values()) >= 2
            await consumer.ack_arrow(table)
            assert sum((await consumer.lag()).values()) == 0

    asyncio.run(run())


def cluster_of(*damaged: int) -> GroupCluster:
    """Return a queue of 40 messages, of which some are said to be compressed and are not."""
    records = messages(40)
    for place in damaged:
        records[place] = record(
            1000 * place, queue_offset=place, body=b"no zlib", sys_flag=MESSAGE_COMPRESSED
        )
    return GroupCluster({("a", "T", 0): records, RETRY: []})


def consumer_of(cluster: GroupCluster, **more: Any) -> Consumer:
    given = {"group": "g", "topics": "T", "start": "first", "retries_max": 0, **more}
    return Consumer(NAME_SERVER, connect=cluster.join, **given)


async def fetch_all(consumer: Consumer, count: int) -> list[int]:
    """Return the offsets of so many messages, which are acknowledged."""
    found: list[int] = []
    while len(found) < count:
        table = await consumer.fetch_arrow(max=count - len(found), wait=10.0)
        assert len(table), f"{len(found)} of {count} came"
        found += table["queueOffset"].to_pylist()
        await consumer.ack_arrow(table)
    return found


def test_a_body_that_cannot_be_read_spoils_no_other(caplog: pytest.LogCaptureFixture) -> None:
    cluster = cluster_of(20)

    async def run() -> None:
        async with consumer_of(cluster, topics="T", max_retries=0) as consumer:
            expected = [n for n in range(40) if n != 20]
            assert await fetch_all(consumer, 39) == expected
            assert consumer.position(MessageQueue("T", "a", 0)) == 40

    asyncio.run(run())
    assert len(cluster.sent_back) == 1
    assert cluster.queues["a", "%DLQ%g", 0]  # and nothing else is there
    assert "given back" in caplog.text


def test_if_no_body_can_be_read_the_table_says_why() -> None:
    async def run() -> None:
        async with consumer_of(cluster_of(*range(40)), max_retries=0) as consumer:
            with pytest.raises(ClientError, match="Look at how it was sent"):
                await consumer.fetch_arrow(max=10, wait=10.0)

    asyncio.run(run())


async def fails(*_: object) -> Any:
    raise KeyError("planted")


@pytest.mark.parametrize(
    ("name", "planted"),
    [
        ("wakelog.client.arrow_tables.readable", fails),
        ("wakelog.client.arrow_tables.to_table", lambda _: 1 / 0),
        ("wakelog.client.consumer_trace.ConsumerTracer.given", lambda *_: 1 / 0),
    ],
)
def test_after_an_error_before_the_hand_over_the_same_messages_come(
    name: str, planted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with consumer_of(cluster_of(), trace=True) as consumer:
            with monkeypatch.context() as patched:
                patched.setattr(name, planted)
                with pytest.raises((KeyError, ZeroDivisionError)):
                    await consumer.fetch_arrow(max=30, wait=10.0)
            assert await fetch_all(consumer, 40) == list(range(40))

    asyncio.run(run())


def test_a_table_that_is_given_up_leaves_its_messages_to_the_next() -> None:
    async def run() -> None:
        async with consumer_of(cluster_of()) as consumer:
            fetching = asyncio.create_task(consumer.fetch_arrow(max=100, wait=3600))
            while consumer._inbox.queues[MessageQueue("T", "a", 0)].in_hand_count < 40:
                await asyncio.sleep(0)
            fetching.cancel()
            await asyncio.wait([fetching])
            assert await fetch_all(consumer, 40) == list(range(40))

    asyncio.run(run())


def test_a_table_is_not_waited_for_when_no_more_may_be_pulled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise each table of a backlog would take all of `wait`."""
    monkeypatch.setattr("wakelog.client.process_queue.MESSAGES_MAX", 2)
    monkeypatch.setattr("wakelog.client.pulled_rows.ROWS_MAX", 2)
    cluster = two_queues()

    async def run() -> None:
        consumer = Consumer(
            NAME_SERVER, group="g", topics="T", start="first", retries_max=0, connect=cluster.join
        )
        async with consumer:
            table = await asyncio.wait_for(consumer.fetch_arrow(max=100, wait=3600), 60)
            assert 4 <= len(table) <= 8

    asyncio.run(run())


def test_without_pyarrow_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ClientError, match="pip install pyarrow"):
        to_table([])
