"""What is under way at a producer: limits, lanes, and what each sender gets back."""

import asyncio
from collections.abc import Sequence

import pytest

from tests.client.clusters import NAME_SERVER, FakeCluster, message
from wakelog.client import send_buffer
from wakelog.client.errors import NotAcknowledged
from wakelog.client.messages import EncodedMessage, SendRequest
from wakelog.client.options import ClientOptions
from wakelog.client.receipts import Receipt
from wakelog.client.route import QueueAt
from wakelog.client.send_buffer import SendBuffer
from wakelog.client.send_command import Stored
from wakelog.client.sender import Sender
from wakelog.protocol.codes import ResponseCode

QUEUE = QueueAt("a", "T", 0, "a:10911")


class HeldSender(Sender):
    """A sender whose requests a test answers."""

    def __init__(self) -> None:
        super().__init__(FakeCluster(), ClientOptions((NAME_SERVER,)))
        self.held: list[tuple[list[bytes], asyncio.Future[Stored]]] = []

    async def send(self, request: SendRequest) -> Stored:
        answer: asyncio.Future[Stored] = asyncio.get_running_loop().create_future()
        self.held.append(([each.body for each in request.messages], answer))
        return await answer

    async def answer(self, offset: int) -> list[bytes]:
        """Store the oldest request, and return its bodies."""
        bodies, waiter = self.held.pop(0)
        ids = ",".join(str(offset + place) for place in range(len(bodies)))
        waiter.set_result(Stored(QUEUE, offset, ids))
        await settle()
        return bodies

    async def refuse(self, code: ResponseCode) -> list[bytes]:
        bodies, waiter = self.held.pop(0)
        waiter.set_exception(NotAcknowledged("refused", "Mend it", code=code))
        await settle()
        return bodies


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def buffer(sender: Sender, **limits: float) -> SendBuffer:
    given = {"messages_max": 100, "bytes_max": 1000, "requests_max": 1, "room_seconds_max": 60.0}
    return SendBuffer(sender, **{**given, **limits})  # type: ignore[arg-type]


def begin(buffer: SendBuffer, messages: Sequence[EncodedMessage]) -> list[asyncio.Task[Receipt]]:
    return [asyncio.create_task(buffer.send(each)) for each in messages]


def numbered(count: int, **fields: object) -> list[EncodedMessage]:
    return [message(b"%d" % n, unique_key=f"K{n}", **fields) for n in range(count)]


def test_what_comes_while_a_request_is_under_way_goes_with_the_next() -> None:
    async def run() -> None:
        sender = HeldSender()
        tasks = begin(buffer(sender), numbered(4))
        await settle()
        assert await sender.answer(10) == [b"0"]
        assert await sender.answer(20) == [b"1", b"2", b"3"]
        receipts = [await task for task in tasks]
        assert [each.queue_offset for each in receipts] == [10, 20, 21, 22]
        assert [each.message_id for each in receipts] == ["K0", "K1", "K2", "K3"]
        assert [each.offset_message_id for each in receipts] == ["10", "20", "21", "22"]

    asyncio.run(run())


def test_messages_of_one_sharding_key_stay_in_order_while_others_pass() -> None:
    async def run() -> None:
        sender = HeldSender()
        begin(buffer(sender, requests_max=9), [*numbered(3, sharding_key="k"), message(b"any")])
        await settle()
        assert [await sender.answer(1) for _ in range(3)] == [[b"0"], [b"any"], [b"1", b"2"]]

    asyncio.run(run())


def test_a_batch_with_an_illegal_message_is_sent_one_by_one() -> None:
    async def run() -> None:
        sender = HeldSender()
        tasks = begin(buffer(sender), numbered(3))
        await settle()
        await sender.answer(1)
        assert await sender.refuse(ResponseCode.MESSAGE_ILLEGAL) == [b"1", b"2"]
        assert await sender.refuse(ResponseCode.MESSAGE_ILLEGAL) == [b"1"]
        assert await sender.answer(2) == [b"2"]
        with pytest.raises(NotAcknowledged):
            await tasks[1]
        assert (await tasks[2]).queue_offset == 2

    asyncio.run(run())


def test_every_sender_of_a_batch_gets_its_error() -> None:
    async def run() -> None:
        sender = HeldSender()
        tasks = begin(buffer(sender), numbered(3))
        await settle()
        await sender.answer(1)
        await sender.refuse(ResponseCode.SYSTEM_BUSY)
        for task in tasks[1:]:
            with pytest.raises(NotAcknowledged, match="refused"):
                await task

    asyncio.run(run())


def test_a_sender_that_gives_up_is_not_sent_and_holds_up_no_other() -> None:
    async def run() -> None:
        sender = HeldSender()
        held = buffer(sender)
        tasks = begin(held, numbered(3))
        await settle()
        tasks[1].cancel()
        await sender.answer(1)
        assert await sender.answer(2) == [b"2"]
        assert (held.messages_count, held.bytes_count) == (0, 0)

    asyncio.run(run())


@pytest.mark.parametrize("limit", [{"messages_max": 2}, {"bytes_max": 2}])
def test_senders_wait_for_room_in_order(limit: dict[str, float]) -> None:
    async def run() -> None:
        sender = HeldSender()
        held = buffer(sender, requests_max=9, **limit)
        begin(held, numbered(4))
        await settle()
        assert (held.messages_count, held.bytes_count, len(sender.held)) == (2, 2, 2)
        assert [await sender.answer(n) for n in range(4)] == [[b"0"], [b"1"], [b"2"], [b"3"]]
        assert held.messages_count == 0

    asyncio.run(run())


def test_a_message_larger_than_the_room_goes_alone() -> None:
    async def run() -> None:
        sender = HeldSender()
        begin(buffer(sender, requests_max=9), [message(b"x" * 2000), message(b"y")])
        await settle()
        assert len(sender.held) == 1
        await sender.answer(1)
        assert await sender.answer(2) == [b"y"]

    asyncio.run(run())


def test_a_sender_without_room_in_time_gets_an_error() -> None:
    async def run() -> None:
        held = buffer(HeldSender(), messages_max=1, room_seconds_max=0.0)
        _, second = begin(held, numbered(2))
        with pytest.raises(NotAcknowledged, match="1 messages with 1 bytes are under way"):
            await second

    asyncio.run(run())


def test_closing_waits_for_what_is_under_way() -> None:
    async def run() -> None:
        sender = HeldSender()
        held = buffer(sender)
        begin(held, numbered(2))
        await settle()
        closing = asyncio.create_task(held.close())
        await settle()
        assert not closing.done()
        await sender.answer(1)
        await sender.answer(2)
        await closing

    asyncio.run(run())


def test_room_that_is_given_is_taken_before_its_sender_runs() -> None:
    """Else all who wait would come in, one for each that gives up."""

    async def run() -> None:
        sender = HeldSender()
        held = buffer(sender, requests_max=9, messages_max=2, room_seconds_max=0.01)
        begin(held, numbered(2))
        waiting = begin(held, numbered(50))
        await asyncio.wait(waiting)
        assert held.messages_count == 2
        assert len(sender.held) == 2
        for task in waiting:
            with pytest.raises(NotAcknowledged, match="2 messages with 2 bytes are under way"):
                await task

    asyncio.run(run())


def test_a_sender_that_is_cancelled_with_its_room_gives_it_back() -> None:
    async def run() -> None:
        sender = HeldSender()
        held = buffer(sender, requests_max=9, messages_max=1)
        begin(held, numbered(1))
        second, third = begin(held, numbered(2))
        await settle()
        _, waiter = sender.held.pop(0)
        waiter.set_result(Stored(QUEUE, 0, "0"))
        while len(held._for_room) == 2:
            await asyncio.sleep(0)
        second.cancel()  # it has room, and has not run yet
        await settle()
        assert second.cancelled() and held.messages_count == 1
        await sender.answer(1)
        await third
        assert held.messages_count == 0

    asyncio.run(run())


@pytest.mark.parametrize("answered", [True, False])
def test_closing_ends_with_the_last_answer_or_with_its_time(
    monkeypatch: pytest.MonkeyPatch, answered: bool
) -> None:
    monkeypatch.setattr(send_buffer, "CLOSE_SECONDS_MAX", 60.0 if answered else 0.01)

    async def run() -> None:
        sender = HeldSender()
        held = buffer(sender)
        _, second = begin(held, numbered(2))
        await settle()
        await sender.answer(1)
        closing = asyncio.create_task(held.close())
        await settle()
        if answered:
            await sender.answer(2)
            assert closing.done()
        else:
            await closing
            with pytest.raises(NotAcknowledged, match=r"closed while .* may be stored"):
                await second
        assert held.messages_count == 0

    asyncio.run(run())
