"""The blocking twin: the same names, one thread while something is open."""

import asyncio
import inspect
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.client.clusters import NAME_SERVER
from tests.client.group_cluster import GroupCluster, two_queues
from wakelog.client import consumer as aio_consumer
from wakelog.client import producer as aio
from wakelog.client import sync
from wakelog.client.consumer_message import ConsumerMessage
from wakelog.client.errors import ClientError, InvalidArgument
from wakelog.client.loop_thread import LoopThread
from wakelog.client.messages import Message
from wakelog.client.receipts import Receipt
from wakelog.client.sync import LOOP, Blocking, blocking, blocking_context
from wakelog.client.transactions import TransactionState
from wakelog.network.client import RemotingClient
from wakelog.testing import EmbeddedBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """Start a broker for the tests of this module that need one."""
    with EmbeddedBroker() as started:
        yield started


class Twin:
    """An asyncio object that notes what happens to it."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    async def __aenter__(self) -> "Twin":
        self.seen.append("opened")
        return self

    async def __aexit__(self, *error: object) -> None:
        self.seen.append("closed")

    async def double(self, number: int, *, plus: int = 0) -> int:
        """Return twice the number."""
        if number < 0:
            raise ClientError("below 0", "Give more")
        return 2 * number + plus

    def block(self) -> "Block":
        return Block(self)


class Block:
    def __init__(self, twin: Twin) -> None:
        self.twin = twin

    async def __aenter__(self) -> str:
        return "inside"

    async def __aexit__(self, *error: object) -> bool:
        self.twin.seen.append(error[0])
        return error[0] is LookupError


class Blocked(Blocking[Twin]):
    double = blocking(Twin.double)
    block = blocking_context(Twin.block)


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "wakelog-client"]


def test_calls_and_blocks_are_those_of_the_twin() -> None:
    with Blocked(Twin()) as opened:
        assert opened.double(4, plus=1) == 9
        with pytest.raises(ClientError, match="below 0"):
            opened.double(-1)
        with opened.block() as inside:
            assert inside == "inside"
        with opened.block():
            raise LookupError("the block's end swallows it")
        with pytest.raises(KeyError), opened.block():
            raise KeyError("and passes this on")
        assert opened.twin.seen == ["opened", None, LookupError, KeyError]
    assert opened.twin.seen[-1] == "closed"


def test_the_thread_lives_as_long_as_something_is_open() -> None:
    with Blocked(Twin()):
        with Blocked(Twin()) as second:
            assert threads() == ["wakelog-client"]
        assert threads() == ["wakelog-client"]
    assert threads() == []
    with pytest.raises(ClientError, match="is not open here"):
        second.double(1)


def test_a_call_in_the_loop_itself_is_refused_instead_of_waiting_for_ever() -> None:
    with Blocked(Twin()) as opened:

        async def call() -> None:
            opened.double(1)

        with pytest.raises(ClientError, match="is not open here"):
            LOOP.run(call())


def test_both_producers_have_the_same_names() -> None:
    def names(owner: type) -> set[str]:
        return {name for name, _ in inspect.getmembers(owner) if not name.startswith("_")}

    assert names(aio.Producer) - names(sync.Producer) == {"start", "close"}
    blocked = inspect.signature(sync.Producer.__init__).parameters
    assert set(inspect.signature(aio.Producer.__init__).parameters) - set(blocked) == {"connect"}


def test_both_consumers_and_their_messages_have_the_same_names() -> None:
    def names(owner: type) -> set[str]:
        return {name for name, _ in inspect.getmembers(owner) if not name.startswith("_")}

    missing = {"start", "close", "reply", "time_out", "untake"}
    assert names(aio_consumer.Consumer) - names(sync.Consumer) == missing
    settings = inspect.signature(sync.Consumer).parameters
    theirs = inspect.signature(aio_consumer.Consumer).parameters
    assert theirs.keys() - settings.keys() == {"connect", "now_ms"}
    of_instances = {"record", "broker", "namespace", "queue"}
    missing = {"size_bytes", "local_returns_count", "given_at", "settler"} | of_instances
    assert names(ConsumerMessage) - names(sync.ConsumerMessage) == missing


def test_after_an_interruption_the_next_fetch_gives_what_the_first_took(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = two_queues()
    consumer = sync.Consumer(NAME_SERVER, group="g")
    consumer.twin = aio_consumer.Consumer(
        NAME_SERVER, group="g", topics="T", start="first", retries_max=0, connect=cluster.join
    )
    run = sync.LOOP.run
    interruptions = [KeyboardInterrupt]

    def interrupted(coroutine: Any) -> Any:
        found = run(coroutine)
        if interruptions:
            raise interruptions.pop()
        return found

    with consumer:
        monkeypatch.setattr(sync.LOOP, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            consumer.fetch(8, 10.0)
        found: list[sync.ConsumerMessage] = []
        while len(found) < 8:
            more = consumer.fetch(8 - len(found), 10.0)
            assert more, f"{len(found)} of 8 came"
            found += more
        monkeypatch.undo()


def reading(**given: Any) -> tuple[sync.Consumer, GroupCluster]:
    """Return a consumer of eight messages in two queues that is not open yet."""
    cluster = two_queues()
    consumer = sync.Consumer(NAME_SERVER, group="g")
    settings = {"group": "g", "topics": "T", "start": "first", "retries_max": 0, **given}
    consumer.twin = aio_consumer.Consumer(NAME_SERVER, connect=cluster.join, **settings)
    return consumer, cluster


def count_in_hand(consumer: sync.Consumer) -> int:
    async def count() -> int:
        return sum(len(each.in_hand()) for each in consumer.twin._inbox.queues.values())

    return LOOP.run(count())


def places(messages: Iterable[sync.ConsumerMessage]) -> list[tuple[int, bytes]]:
    return sorted((message.queue.queue_id, message.body) for message in messages)


EIGHT = sorted((queue_id, b"%d" % n) for queue_id in (0, 1) for n in range(4))


def wait_until_pulled(consumer: sync.Consumer) -> None:
    """Return when all eight messages were pulled: an iteration can take them at once."""
    deadline = time.monotonic() + 10.0

    async def count() -> int:
        return sum(len(each._messages) for each in consumer.twin._inbox.queues.values())

    consumer.fetch(1, 0.0)  # from now on messages are pulled, and one may be in hand
    while LOOP.run(count()) < 8:
        assert time.monotonic() < deadline


@pytest.mark.parametrize("ahead_seconds", [60.0, 0.0])
def test_an_iteration_yields_each_message_once(
    monkeypatch: pytest.MonkeyPatch, ahead_seconds: float
) -> None:
    monkeypatch.setattr(sync, "AHEAD_SECONDS", ahead_seconds)
    consumer, cluster = reading()
    found: list[sync.ConsumerMessage] = []
    with consumer:
        for message in consumer:
            message.ack()
            found.append(message)
            if len(found) == 8:
                break
        assert sum(consumer.lag().values()) == 0
    assert places(found) == EIGHT
    assert [cluster.committed["g", "a", "T", queue_id] for queue_id in (0, 1)] == [4, 4]


def test_a_slow_caller_has_one_message_in_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "AHEAD_SECONDS", 0.01)
    consumer, _ = reading()
    with consumer:
        wait_until_pulled(consumer)
        before = count_in_hand(consumer)
        deadline = time.monotonic() + 10.0
        iteration = iter(consumer)
        for count in (1, 2):
            next(iteration)
            while count_in_hand(consumer) > before + count:
                assert time.monotonic() < deadline, "the others were not given back"


def test_what_an_iteration_has_taken_ahead_is_given_again_at_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sync, "AHEAD_SECONDS", 60.0)
    consumer, _ = reading()
    with consumer:
        wait_until_pulled(consumer)
        before = count_in_hand(consumer)
        found = [next(iter(consumer))]
        while len(found) < 8 - before:
            more = consumer.fetch(8, 5.0)
            assert more
            found += more
    assert len({*places(found)}) == 8 - before
    for queue_id in (0, 1):
        bodies = [each.body for each in found if each.queue.queue_id == queue_id]
        assert bodies == sorted(bodies)


@pytest.mark.parametrize("given", [{"ordered": True}, {"trace": True}], ids=["ordered", "traced"])
def test_nothing_is_taken_ahead_where_that_would_show(given: dict[str, Any]) -> None:
    consumer, _ = reading(**given)
    with consumer:
        for count, message in enumerate(consumer, 1):
            assert count_in_hand(consumer) == 1
            message.ack()
            if count == 4:
                break


def test_after_a_pause_nothing_that_was_taken_ahead_is_yielded() -> None:
    consumer, _ = reading()
    with consumer:
        found: list[sync.ConsumerMessage] = []
        paused: list[object] = []
        for message in consumer:
            assert message.queue not in paused
            if not paused:
                paused.append(message.queue)
                consumer.pause(message.queue)
            message.ack()
            found.append(message)
            if len(found) == 5:
                break
        consumer.resume()
        while len(found) < 8:
            found += consumer.fetch(8, 5.0)
    assert places(found) == EIGHT


def test_an_ack_is_refused_by_a_consumer_that_was_closed() -> None:
    consumer, _ = reading()
    with Blocked(Twin()):  # the loop goes on
        with consumer:
            [message, *_] = consumer.fetch(wait=5.0)
        with pytest.raises(ClientError, match="not open"):
            message.ack()


def test_an_ack_without_a_loop_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a child that was forked, where the consumer's copy says that it is open."""
    consumer, _ = reading()
    with consumer:
        [message, *_] = consumer.fetch(wait=5.0)
        monkeypatch.setattr(sync, "LOOP", LoopThread())
        with pytest.raises(ClientError, match="is not open here"):
            message.ack()
        monkeypatch.undo()


def test_a_tool_that_replaces_the_ack_of_the_twin_sees_every_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[object] = []
    ack = aio_consumer.Consumer.ack

    async def noted(self: Any, *messages: Any) -> None:
        seen.extend(message.body for message in messages)
        await ack(self, *messages)

    consumer, _ = reading()
    with consumer:
        monkeypatch.setattr(aio_consumer.Consumer, "ack", noted)
        [first, *_] = consumer.fetch(wait=5.0)
        first.ack()
        assert seen == [first.body]
        monkeypatch.undo()


def test_a_consumer_without_asyncio_gets_and_settles_messages() -> None:
    cluster = two_queues()
    consumer = sync.Consumer(NAME_SERVER, group="g")
    consumer.twin = aio_consumer.Consumer(
        NAME_SERVER, group="g", topics="T", start="first", retries_max=0, connect=cluster.join
    )
    with consumer:
        found = []
        for message in consumer:
            message.ack()
            found.append(message.body)
            if len(found) == 7:
                break
        found += [last.body for last in consumer.fetch(wait=5.0)]
        assert sorted(found) == sorted(b"%d" % n for n in (0, 1, 2, 3) * 2)
        first, second = consumer.assignment
        assert sum(consumer.lag().values()) == 1
        consumer.seek(first, "last")
        consumer.seek(second, 3)
        consumer.pause(second)
        assert consumer.fetch(wait=0.01) == []
        consumer.resume()
        [again] = consumer.fetch(wait=5.0)
        again.nack()
        [retried] = consumer.fetch(wait=5.0)
        assert (retried.topic, retried.reconsume_times) == ("T", 1)
        consumer.ack(retried)
        consumer.reject(again)  # it does nothing now
        again.reject()
        with pytest.raises(InvalidArgument, match="message is"):
            consumer.reject(None)  # type: ignore[arg-type]
    assert cluster.committed["g", "a", "T", 1] == 4


FORKED = """
import os
import sys
from contextlib import AsyncExitStack

from wakelog.client.sync import Blocking, Producer, blocking


class Twin(AsyncExitStack):
    async def ask(self):
        return 7


class Client(Blocking):
    ask = blocking(Twin.ask)


with Client(Twin()) as client, Producer(sys.argv[1]) as producer:
    producer.send("F", b"the loop's")
    print(client.ask(), producer.send("F", b"the caller's").topic, flush=True)
    child = os.fork()
    if not child:
        for call in (client.ask, lambda: producer.send("F", b"the child's")):
            try:
                call()
            except Exception as error:
                print(error, flush=True)
        with Client(Twin()) as own:
            print(own.ask(), flush=True)
    else:
        os.waitpid(child, 0)
        print(producer.send("F", b"the parent's").topic, flush=True)
"""


def test_a_child_that_was_forked_gets_an_error_and_may_open_its_own(
    broker: EmbeddedBroker,
) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKED, broker.name_server]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    refused = "this client is not open here. Use it inside of `with`"
    assert (done.stdout.split("\n"), done.stderr) == (["7 F", refused, refused, "7", "F", ""], "")


def test_a_check_is_called_in_another_thread_and_may_block() -> None:
    called: list[tuple[object, threading.Thread]] = []

    def check(message: object) -> TransactionState:
        called.append((message, threading.current_thread()))
        return TransactionState.ROLLBACK

    assert sync.Producer(NAME_SERVER).twin._ends._check is None
    asked: Any = sync.Producer(NAME_SERVER, check=check).twin._ends._check
    assert asyncio.run(asked("half")) is TransactionState.ROLLBACK
    [(message, thread)] = called
    assert message == "half" and thread is not threading.current_thread()


def alone_count(producer: sync.Producer, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list of what goes without the loop from now on."""
    assert producer._lone is not None
    found: list[object] = []
    send = producer._lone.send

    def note(message: Message) -> Receipt | None:
        receipt = send(message)
        if receipt is not None:
            found.append(message.body)
        return receipt

    monkeypatch.setattr(producer._lone, "send", note)
    return found


def test_after_the_first_message_a_send_needs_no_loop(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = [b"%d" % n for n in range(8)]
    with sync.Producer(broker.name_server, group="p") as producer:
        alone = alone_count(producer, monkeypatch)
        receipts = [producer.send("T", body, queue=("", 0)) for body in bodies]
        assert alone == bodies[1:]
        assert [each.queue_offset for each in receipts] == list(range(8))
        assert len({each.message_id for each in receipts}) == 8
    with pytest.raises(ClientError, match="is not open"):
        producer.send("T", b"after the end")
    with sync.Consumer(broker.name_server, group="g", topics="T", start="first") as consumer:
        found: list[bytes] = []
        while len(found) < 8:
            found += [each.body for each in consumer.fetch(8, 10.0)]
    assert found == bodies


def test_threads_that_send_together_lose_nothing(broker: EmbeddedBroker) -> None:
    with sync.Producer(broker.name_server, group="p") as producer, ThreadPoolExecutor(8) as pool:
        receipts = list(pool.map(lambda n: producer.send("U", b"%d" % n), range(400)))
    assert len({each.message_id for each in receipts}) == 400
    assert len({(each.queue_id, each.queue_offset) for each in receipts}) == 400


def test_a_tool_that_replaces_the_send_of_the_twin_sees_every_message(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bytes | str] = []
    send = aio.Producer.send

    async def noted(self: Any, topic: str, body: bytes | str, **fields: Any) -> Receipt:
        seen.append(body)
        return await send(self, topic, body, **fields)

    with sync.Producer(broker.name_server, group="p") as producer:
        producer.send("V", b"1")
        monkeypatch.setattr(aio.Producer, "send", noted)
        for body in (b"2", b"3"):
            producer.send("V", body)
        monkeypatch.undo()
        producer.send("V", b"4")
    assert seen == [b"2", b"3"]


def test_its_own_connections_read_no_certificate_again(monkeypatch: pytest.MonkeyPatch) -> None:
    twin = aio.Producer(NAME_SERVER, tls=True)
    monkeypatch.setattr(ssl, "SSLContext", None)
    lone = twin._lone_sender(LOOP.run)
    connections = twin._instance.connections
    assert lone is not None and isinstance(connections, RemotingClient)
    assert lone._client._tls is connections.tls is not None


def test_an_interruption_of_its_close_closes_the_twin(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with (
        pytest.raises(KeyboardInterrupt),
        sync.Producer(broker.name_server, group="p") as producer,
    ):
        monkeypatch.setattr(producer._lone, "close", interrupted)
    assert not producer.twin.is_open and not threads()


@pytest.mark.parametrize("more", [{"trace": True}, {"namespace": "N"}])
def test_traces_and_namespaces_go_by_the_loop(broker: EmbeddedBroker, more: Any) -> None:
    with sync.Producer(broker.name_server, group="p", **more) as producer:
        assert producer._lone is None
        for _ in range(2):
            assert producer.send("W", b"x").topic.endswith("W")


def test_a_broker_that_starts_again_gets_the_next_message(monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedBroker() as broker, sync.Producer(broker.name_server, group="p") as producer:
        alone = alone_count(producer, monkeypatch)
        for body in (b"1", b"2"):
            producer.send("T", body)
        broker.restart()
        for body in (b"3", b"4"):
            producer.send("T", body)
        found = sorted(each.body for each in broker.messages("T"))
    assert found == [b"1", b"2", b"3", b"4"]
    assert alone == [b"2", b"3", b"4"]
