"""Message trace, as 4.9.3's tools read it."""

import asyncio
from typing import Any

from tests.client.clusters import MESSAGE_ID, NAME_SERVER, FakeCluster, run_producer
from wakelog.client import trace
from wakelog.client.messages import Message
from wakelog.client.options import ClientOptions
from wakelog.client.producer import Producer
from wakelog.client.sender import Sender
from wakelog.client.trace import NOTES_MAX, NOTES_OF_A_MESSAGE_MAX, TraceNote, Tracer
from wakelog.client.unique_ids import UniqueIds
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.names import TRACE_TOPIC
from wakelog.protocol.properties import decode_properties


def cluster() -> FakeCluster:
    return FakeCluster(routes={"T": {"a": 1}, TRACE_TOPIC: {"a": 1}}, region="DefaultRegion")


def traces(cluster: FakeCluster) -> list[RemotingCommand]:
    return [command for command in cluster.sent if command.ext_fields["b"] == TRACE_TOPIC]


def notes(command: RemotingCommand) -> list[list[str]]:
    assert command.body.endswith(b"\x02")
    return [note.split("\x01") for note in command.body.decode()[:-1].split("\x02")]


def test_what_a_broker_stored_is_noted_with_fields_and_keys() -> None:
    asked = cluster()

    async def work(producer: Producer) -> list[str]:
        receipts = [await producer.send("T", b"body", tags="t", keys="k1 k2")]
        receipts += await producer.send_many([Message("T", b"x", delay_level=1)])
        async with producer.transaction("T", b"x") as transaction:
            pass
        return [receipt.message_id for receipt in (*receipts, transaction.receipt)]

    first, second, third = run_producer(asked, work, trace=True)
    [command] = traces(asked)
    assert command.ext_fields["a"] == "_INNER_TRACE_PRODUCER-g-PRODUCE"
    keys = decode_properties(command.ext_fields["i"])["KEYS"].split()
    assert set(keys) == {first, second, third, "k1", "k2"}
    published, delayed, half, ended = notes(command)
    region, place = "DefaultRegion", "a:10911"
    assert published[0] == "Pub" and published[1].isdigit() and published[10].isdigit()
    assert published[2:10] == [region, "g", "T", first, "t", "k1 k2", place, "4"]
    assert published[11:] == ["0", MESSAGE_ID, "true"]
    assert (delayed[5], delayed[11]) == (second, "3")
    assert (half[5], half[11]) == (third, "1")
    assert (ended[0], ended[2:]) == (
        "EndTransaction",
        [region, "g", "T", third, "null", "null", place, "2", third, "COMMIT_MESSAGE", "false"],
    )


def test_a_broker_without_trace_gets_none() -> None:
    asked = FakeCluster(routes={"T": {"a": 1}})
    run_producer(asked, lambda producer: producer.send("T", b"x"), trace=True)
    assert traces(asked) == []


def tracer(asked: FakeCluster, **fields: Any) -> Tracer:
    options = ClientOptions((NAME_SERVER,), retries_max=0)
    return Tracer(Sender(asked, options), options, UniqueIds("127.0.0.1"), **fields)


def test_too_many_notes_are_dropped_and_counted() -> None:
    async def run() -> None:
        asked, waits = cluster(), asyncio.Event()

        async def pause(seconds: float) -> None:
            assert seconds == trace.FLUSH_SECONDS
            await waits.wait()

        held = tracer(asked, pause=pause)
        for _ in range(NOTES_MAX + 3):
            held.add(TraceNote("x\x02", ("k",)))
        await held.close()
        assert held.dropped_count == 3
        counts = [len(notes(command)) for command in traces(asked)]
        assert (sum(counts), max(counts)) == (NOTES_MAX, NOTES_OF_A_MESSAGE_MAX)

    asyncio.run(run())


def test_a_trace_that_cannot_be_sent_disturbs_nothing() -> None:
    async def run() -> None:
        held = tracer(FakeCluster())
        held.add(TraceNote("x\x02", ("k",)))
        await held.close()
        assert held.dropped_count == 1

    asyncio.run(run())
