"""Messages as an Arrow table."""

import asyncio
import sys

import pyarrow
import pytest

from tests.client.clusters import NAME_SERVER
from tests.client.group_cluster import SETTLER, two_queues
from tests.fakes.records import STORE_MS, record
from wakelog.client.arrow import to_table
from wakelog.client.consumer import Consumer
from wakelog.client.consumer_message import decode_messages
from wakelog.client.errors import ClientError
from wakelog.protocol.body_codec import MessageQueue


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


def test_a_table_is_not_waited_for_when_no_more_may_be_pulled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise each table of a backlog would take all of `wait`."""
    monkeypatch.setattr("wakelog.client.process_queue.MESSAGES_MAX", 2)
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
