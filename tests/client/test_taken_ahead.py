"""What an iteration takes at once: who gets it, and what is given again."""

import asyncio
import time

import pytest

from tests.client.clusters import NAME_SERVER, messages
from tests.client.group_cluster import SETTLER, NoSettler, two_queues
from wakelog.client import taken_ahead
from wakelog.client.consumer import Consumer
from wakelog.client.consumer_message import ConsumerMessage
from wakelog.client.inbox import Inbox
from wakelog.client.process_queue import ProcessQueue
from wakelog.client.taken_ahead import TakenAhead
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.record import decode_record

QUEUES = [MessageQueue("T", "a", queue_id) for queue_id in (0, 1)]


def filled() -> Inbox:
    """Return an inbox of two queues with three messages each."""
    inbox = Inbox()
    for queue in QUEUES:
        process_queue: ProcessQueue[ConsumerMessage] = ProcessQueue(queue, 0)
        records = map(decode_record, messages(3, queue_id=queue.queue_id))
        process_queue.put([ConsumerMessage(each, queue, SETTLER) for each in records], 3)
        inbox.add(process_queue)
        inbox.wake(queue)
    return inbox


def place(message: ConsumerMessage | None) -> tuple[int, int] | None:
    return None if message is None else (message.queue.queue_id, message.queue_offset)


def rest(inbox: Inbox) -> list[tuple[int, int] | None]:
    return sorted(map(place, inbox.take(0, 100)))  # type: ignore[type-var]


ALL = [(queue_id, offset) for queue_id in (0, 1) for offset in range(3)]


def test_each_is_given_once_in_order() -> None:
    inbox = filled()
    ahead = TakenAhead(inbox, SETTLER, inbox.take(0, 100))
    found = [place(ahead.next()) for _ in range(6)]
    assert sorted(found) == ALL  # type: ignore[type-var]
    assert found == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]
    assert ahead.next() is None and len(ahead) == 0
    assert rest(inbox) == []


def test_what_is_left_is_given_again_in_order() -> None:
    inbox = filled()
    ahead = TakenAhead(inbox, SETTLER, inbox.take(0, 100))
    assert place(ahead.next()) == (0, 0)
    ahead.give_back()
    ahead.give_back()  # a timer may come after the end
    assert ahead.next() is None
    assert [place(each) for each in inbox.take(0, 2)] == [(1, 0), (0, 1)]
    assert rest(inbox) == [(0, 2), (1, 1), (1, 2)]


@pytest.mark.parametrize("where", ["paused", "leaving"])
def test_nothing_comes_of_a_queue_that_was_paused_or_is_given_up(where: str) -> None:
    inbox = filled()
    ahead = TakenAhead(inbox, SETTLER, inbox.take(0, 100))
    getattr(inbox, where).add(QUEUES[1])
    assert [place(ahead.next()) for _ in range(3)] == [(0, 0), None, None]
    ahead.give_back()
    assert rest(inbox) == [(0, 1), (0, 2)]
    getattr(inbox, where).clear()
    inbox.wake(QUEUES[1])
    assert rest(inbox) == [(1, 0), (1, 1), (1, 2)]


def test_nothing_comes_of_a_queue_that_went_to_another_member() -> None:
    inbox = filled()
    ahead = TakenAhead(inbox, SETTLER, inbox.take(0, 100))
    inbox.remove(QUEUES[0])
    assert ahead.next() is None
    ahead.give_back()
    assert rest(inbox) == [(1, 0), (1, 1), (1, 2)]


def test_what_an_operator_sent_is_given_and_kept() -> None:
    inbox = filled()
    record = decode_record(messages(1)[0])
    for _ in range(2):
        inbox.put_directly(ConsumerMessage(record, MessageQueue("T", "z", 0), NoSettler()))
    ahead = TakenAhead(inbox, SETTLER, inbox.take(0, 100))
    first = ahead.next()
    assert first is not None and first.queue.broker_name == "z"
    ahead.give_back()
    [second, *_] = inbox.take(0, 100)
    assert second is not first and second.queue.broker_name == "z"


def test_the_end_of_an_iteration_gives_back_what_is_left() -> None:
    async def body() -> None:
        inbox = filled()
        with TakenAhead(inbox, SETTLER, inbox.take(0, 100)).given_back_soon() as ahead:
            assert place(ahead.next()) == (0, 0)
        assert rest(inbox) == ALL[1:]

    asyncio.run(body())


def test_an_iteration_that_works_for_long_has_one_message_in_hand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(taken_ahead, "AHEAD_SECONDS", 0.01)

    async def body() -> None:
        join = two_queues().join
        async with Consumer(
            NAME_SERVER, group="g", topics="T", start="first", retries_max=0, connect=join
        ) as consumer:
            found = []
            async for message in consumer:
                end = time.monotonic() + 10
                while sum(len(each.in_hand()) for each in consumer._inbox.queues.values()) > 1:
                    assert time.monotonic() < end
                    await asyncio.sleep(0.001)
                found.append(place(message))
                await message.ack()
                if len(found) == 8:
                    break
            assert sorted(found) == [(n, k) for n in (0, 1) for k in range(4)]  # type: ignore[type-var]

    asyncio.run(body())
