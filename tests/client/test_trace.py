"""Message trace, as 4.9.3's tools read it."""

import asyncio
from typing import Any

import pytest

from tests.client.clusters import MESSAGE_ID, NAME_SERVER, FakeCluster, run_producer
from wakelog.client import trace
from wakelog.client.messages import Message
from wakelog.client.options import ClientOptions
from wakelog.client.producer import Producer
from wakelog.client.sender import Sender
from wakelog.client.trace import NOTES_MAX, NOTES_OF_A_MESSAGE_MAX, TraceNote, Tracer
from wakelog.client.unique_ids import UniqueIds
from wakelog.protocol.codes import RequestCode
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
    commands = traces(asked)
    assert {one.ext_fields["a"] for one in commands} == {"_INNER_TRACE_PRODUCER-g-PRODUCE"}
    keys = [decode_properties(one.ext_fields["i"])["KEYS"] for one in commands]
    assert set(" ".join(keys).split()) == {first, second, third, "k1", "k2"}
    published, delayed, half, ended = [note for one in commands for note in notes(one)]
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


def test_a_note_goes_at_once_and_those_of_a_rest_together() -> None:
    async def run() -> None:
        asked, began, over = cluster(), asyncio.Event(), asyncio.Event()

        async def pause(seconds: float) -> None:
            began.set()
            await over.wait()

        held = tracer(asked, pause=pause)
        held.add(TraceNote("1\x02", ("k",)))
        await began.wait()
        assert [notes(command) for command in traces(asked)] == [[["1"]]]
        began.clear()
        for text in ("2\x02", "3\x02"):
            held.add(TraceNote(text, ("k",)))
            for _ in range(9):
                await asyncio.sleep(0)
        assert len(traces(asked)) == 1
        over.set()
        await began.wait()
        assert [notes(command) for command in traces(asked)] == [[["1"]], [["2"], ["3"]]]
        held.add(TraceNote("4\x02", ("k",)))
        await held.close()
        assert [notes(command) for command in traces(asked)][2:] == [[["4"]]]

    asyncio.run(run())


def test_the_trace_rests_after_each_message_and_only_then() -> None:
    async def run() -> None:
        asked, rests = cluster(), []

        async def pause(seconds: float) -> None:
            rests.append(len(traces(asked)))
            if len(rests) == 1:
                held.add(TraceNote("2\x02", ("k",)))

        held = tracer(asked, pause=pause)
        await held.close()
        assert (traces(asked), rests) == ([], [])
        held = tracer(asked, pause=pause)
        held.add(TraceNote("1\x02", ("k",)))
        for _ in range(99):
            await asyncio.sleep(0)
        assert rests == [1, 2]  # the second ended without a note
        held.add(TraceNote("3\x02", ("k",)))
        for _ in range(99):
            await asyncio.sleep(0)
        assert rests == [1, 2, 3]

    asyncio.run(run())


@pytest.mark.parametrize("begins", ["before the first is sent", "while it is sent", "in its rest"])
def test_a_trace_that_is_closed_sends_all_that_waits_and_rests_no_longer(begins: str) -> None:
    class Slow(FakeCluster):
        async def invoke(
            self, address: str, command: RemotingCommand, *, timeout_ms: int
        ) -> RemotingCommand:
            if command.code == RequestCode.SEND_MESSAGE_V2:
                began.set()
                await answered.wait()
            return await super().invoke(address, command, timeout_ms=timeout_ms)

    began, answered, rests = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def pause(seconds: float) -> None:
        rests.set()
        await asyncio.Event().wait()

    async def run() -> None:
        asked = Slow(routes={TRACE_TOPIC: {"a": 1}})
        held = tracer(asked, pause=pause)
        held.add(TraceNote("1\x02", ("k",)))
        if begins != "before the first is sent":
            await began.wait()
        if begins == "in its rest":
            answered.set()
            await rests.wait()
        held.add(TraceNote("2\x02", ("k",)))
        closing = asyncio.ensure_future(held.close())
        for _ in range(9):
            await asyncio.sleep(0)
        assert closing.done() == (begins == "in its rest")
        answered.set()
        async with asyncio.timeout(30):
            await closing
        sent = [note for command in traces(asked) for note in notes(command)]
        assert sent == [["1"], ["2"]] and held.dropped_count == 0
        assert rests.is_set() == (begins == "in its rest")

    asyncio.run(run())


def test_a_trace_that_cannot_be_sent_disturbs_nothing() -> None:
    async def run() -> None:
        held = tracer(FakeCluster())
        held.add(TraceNote("x\x02", ("k",)))
        await held.close()
        assert held.dropped_count == 1

    asyncio.run(run())
