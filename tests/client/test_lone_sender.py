"""A sender whose caller waits: what it sends, and what it leaves to the loop."""

import asyncio
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from types import FrameType
from typing import Any

import pytest

from tests.client.clusters import NAME_SERVER, FakeCluster
from wakelog.client import lone_sender
from wakelog.client.errors import ClientError, InvalidArgument, NotAcknowledged
from wakelog.client.lone_sender import LoneSender
from wakelog.client.messages import Message, SendRequest
from wakelog.client.options import ClientOptions
from wakelog.client.receipts import Receipt
from wakelog.client.route import QueueAt, Routes
from wakelog.client.send_command import Stored
from wakelog.client.unique_ids import UniqueIds
from wakelog.network.blocking_client import BlockingClient
from wakelog.network.errors import CallTimeout
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer

AGAIN = Stored(QueueAt("b", "T", 7, "b:10911"), 9, "id of another attempt")


class FakeClient(BlockingClient):
    """Calls a cluster without sockets, whose coroutines never wait."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.meanwhile: Callable[[], None] = lambda: None
        self.is_closed = self.has_ended_call = False

    def invoke(self, address: str, command: RemotingCommand, *, timeout_ms: int) -> RemotingCommand:
        self.meanwhile()
        try:
            self.cluster.invoke(address, command, timeout_ms=timeout_ms).send(None)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        raise AssertionError("it waits")

    def close(self) -> None:
        self.is_closed = True

    def end_call(self) -> None:
        self.has_ended_call = True


class Sending:
    """A sender of a topic T that its brokers know, and what it gave to the loop."""

    def __init__(self, *known: str, **queues: int) -> None:
        self.cluster = FakeCluster(routes={"T": queues or {"a": 2}})
        self.client = FakeClient(self.cluster)
        options = ClientOptions((NAME_SERVER,), "g")
        self.routes = Routes(self.cluster, options)
        for topic in known or ("T",):
            asyncio.run(self.routes.writable(topic))
        self.again: list[tuple[SendRequest, QueueAt | None, ClientError]] = []
        ids = UniqueIds("127.0.0.1")
        self.sender = LoneSender(
            self.client, options, self.routes, {"T": "T", "U": "U"}, ids, self.send_again
        )

    def send_again(self, *given: Any) -> Stored:
        self.again.append(given)
        return AGAIN

    def send(self, body: Any = b"x", topic: str = "T", **fields: Any) -> Receipt | None:
        return self.sender.send(Message(topic, body, **fields))


def test_messages_go_to_the_queues_in_turn_and_have_receipts() -> None:
    sending = Sending()
    receipts = [sending.send(b"%d" % n) for n in range(4)]
    assert [body for _, _, body in sending.cluster.stored] == [b"0", b"1", b"2", b"3"]
    found = [(each.topic, each.broker, each.queue_offset) for each in receipts if each]
    assert found == [("T", "a", n) for n in range(4)]
    assert {each.queue_id for each in receipts if each} == {0, 1}
    assert len({each.message_id for each in receipts if each}) == 4
    assert not sending.again


def test_the_fields_of_a_message_go_with_it() -> None:
    sending = Sending()
    sending.send("text", tags="paid", keys="k", queue=("a", 1), delay_level=3)
    [command] = sending.cluster.sent
    properties = command.ext_fields["i"]
    assert "TAGS\x01paid" in properties and "KEYS\x01k" in properties and "DELAY\x013" in properties
    assert (command.ext_fields["a"], command.ext_fields["e"], command.body) == ("g", "1", b"text")


@pytest.mark.parametrize(
    "given",
    [
        {"topic": "V"},
        {"topic": "U"},
        {"delay": timedelta(seconds=1)},
        {"topic": []},
    ],
    ids=["not met yet", "no route", "delay", "bad topic"],
)
def test_what_needs_the_loop_is_left_to_it(given: dict[str, Any]) -> None:
    sending = Sending()
    assert sending.send(**given) is None
    assert not sending.cluster.stored


def test_a_second_send_meanwhile_is_left_to_the_loop() -> None:
    sending = Sending()
    meanwhile: list[object] = []
    sending.client.meanwhile = lambda: meanwhile.append(sending.send(b"second"))
    assert sending.send(b"first") is not None
    assert meanwhile == [None]
    assert [body for _, _, body in sending.cluster.stored] == [b"first"]


def test_a_first_attempt_that_fails_is_continued_by_the_loop() -> None:
    for fail in (busy, lost):
        sending = Sending()
        sending.cluster.fail = fail
        receipt = sending.send()
        assert receipt is not None
        assert (receipt.broker, receipt.queue_id, receipt.queue_offset) == ("b", 7, 9)
        [(request, queue, error)] = sending.again
        assert request.first.body == b"x" and queue is not None and queue.broker == "a"
        assert error.broker == "a"


def busy(address: str, command: RemotingCommand) -> RemotingCommand:
    return answer(command, ResponseCode.SYSTEM_BUSY, "busy")


def lost(address: str, command: RemotingCommand) -> RemotingCommand:
    raise CallTimeout(address, "no answer within 3000 ms")


def test_a_queue_whose_broker_has_no_master_is_waited_for_by_the_loop() -> None:
    sending = Sending(a=1, b=1)
    sending.cluster.addresses["b"] = {1: "b:10911"}
    asyncio.run(sending.routes.writable("T", refresh=True))
    assert sending.send(queue=("b", 0)) is not None
    [(_, queue, error)] = sending.again
    assert queue is None and error.passes


def test_a_queue_that_the_route_lacks_is_left_to_the_loop_which_asks_again() -> None:
    sending = Sending(a=1)
    assert sending.send(queue=("", 5)) is None
    assert not sending.again and not sending.cluster.stored
    assert sending.send(queue=("", 0)) is not None, "the lock was given back"


def test_what_another_attempt_cannot_change_is_raised() -> None:
    sending = Sending()
    with pytest.raises(InvalidArgument, match="told apart"):
        sending.send(tags="a\x01b")
    sending.cluster.fail = lambda _, command: answer(command, ResponseCode.SUCCESS)
    with pytest.raises(NotAcknowledged, match="without its place"):
        sending.send()
    assert not sending.again
    sending.cluster.fail = lambda *_: None
    assert sending.send() is not None, "the lock was given back"


def test_close_waits_for_a_message_under_way_and_ends_it_all() -> None:
    sending = Sending()
    closing = threading.Thread(target=sending.sender.close)
    is_under_way, may_end = threading.Event(), threading.Event()

    def wait() -> None:
        is_under_way.set()
        assert may_end.wait(10)

    sending.client.meanwhile = wait
    receipts: list[object] = []
    sender = threading.Thread(target=lambda: receipts.append(sending.send()))
    sender.start()
    assert is_under_way.wait(10)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive() and not sending.client.is_closed
    may_end.set()
    sender.join()
    closing.join()
    assert sending.client.is_closed and receipts != [None]
    assert sending.send() is None


def test_close_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lone_sender, "CLOSE_SECONDS_MAX", 0.01)
    sending = Sending()
    sending.client.meanwhile = sending.sender.close
    assert sending.send() is not None
    assert sending.client.has_ended_call and sending.client.is_closed
    assert sending.send() is None


def test_a_message_that_close_has_ended_may_be_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lone_sender, "CLOSE_SECONDS_MAX", 0.01)
    sending = Sending()
    sending.client.meanwhile = sending.sender.close
    sending.cluster.fail = lost
    with pytest.raises(NotAcknowledged, match=r"closed while .* may be stored") as raised:
        sending.send()
    assert "no answer" in str(raised.value.__cause__)
    assert sending.client.is_closed and not sending.again


def test_a_message_whose_loop_has_ended_may_be_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    sending = Sending()
    sending.cluster.fail = lost

    def ended(*_: Any) -> Stored:
        raise ClientError("this client is not open here", "Use it inside of `with`")

    monkeypatch.setattr(sending.sender, "_send_again", ended)
    with pytest.raises(NotAcknowledged, match=r"may be stored"):
        sending.send()


def test_an_interruption_anywhere_leaves_the_next_send_free() -> None:
    """An exception of a handler of signals may come after each call that Python makes."""
    sending = Sending()
    places = 0
    while True:
        left = places

        def interrupt(frame: FrameType, event: str, what: Any) -> None:
            nonlocal left
            if event == "c_return" and frame.f_code is LoneSender.send.__code__:
                left -= 1
                if left < 0:
                    sys.setprofile(None)
                    raise KeyboardInterrupt

        sys.setprofile(interrupt)
        try:
            assert sending.send() is not None
        except KeyboardInterrupt:
            places += 1
        else:
            break
        finally:
            sys.setprofile(None)
        assert sending.send() is not None
    assert places


def test_only_a_first_attempt_is_made_here() -> None:
    sending = Sending()
    sending.cluster.fail = busy
    sending.send()
    codes = [code for _, code in sending.cluster.asked]
    assert codes.count(RequestCode.SEND_MESSAGE_V2) == 1
