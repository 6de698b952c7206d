"""The light clients, against a broker of a few lines."""

import os
import socket
import threading
from collections.abc import Iterator

import pytest

from benchmarks.paced import BATCH_MESSAGES, QUEUES_COUNT, Connection, drain, fill, send
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.frame import FrameDecoder, encode_frame

QUEUE_LENGTH = 50
REFUSED_EVERY = 10


@pytest.fixture(autouse=True)
def same_priority() -> Iterator[None]:
    """Take back what the sender takes: a process of its own is what it expects to be."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    yield
    os.setpriority(os.PRIO_PROCESS, 0, before)


class SmallBroker:
    """Answers one connection: refuses each tenth message; each queue holds 50 of 7 bytes."""

    def __init__(self) -> None:
        self.requests: list[RemotingCommand] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def __enter__(self) -> "SmallBroker":
        return self

    def __exit__(self, *exception: object) -> None:
        self._thread.join(10)
        self._listening.close()

    def _serve(self) -> None:
        connection, _ = self._listening.accept()
        decoder = FrameDecoder()
        with connection:
            while data := connection.recv(1 << 16):
                for request in decoder.feed(data):
                    self.requests.append(request)
                    connection.sendall(encode_frame(self._answer(request)))

    def _answer(self, request: RemotingCommand) -> RemotingCommand:
        if request.code == RequestCode.PULL_MESSAGE:
            begin = int(request.ext_fields["queueOffset"])
            end = min(QUEUE_LENGTH, begin + int(request.ext_fields["maxMsgNums"]))
            fields = {"nextBeginOffset": str(end), "maxOffset": str(QUEUE_LENGTH)}
            return answer(request, 0, "", fields, bytes(7 * (end - begin)))
        refused = len(self.requests) % REFUSED_EVERY == 0
        if refused and request.code == RequestCode.SEND_MESSAGE_V2:
            return answer(request, 2, "busy")
        return answer(request, 0, "", {"msgId": f"7F00000100002A9F{len(self.requests):016X}"})


def test_the_sender_keeps_count_of_every_send() -> None:
    with SmallBroker() as broker, Connection(broker.address) as connection:
        samples = send(connection, "topic", 1000.0, 0.1)["samples"]
    assert len(samples) == len(broker.requests) == 100
    assert [sample.physical_offset for sample in samples] == [
        -1 if number % REFUSED_EVERY == 0 else number for number in range(1, 101)
    ]
    assert all(sample.latency_ms > 0 for sample in samples)
    queues = [request.ext_fields["e"] for request in broker.requests]
    assert queues == [str(number % QUEUES_COUNT) for number in range(100)]


def test_the_filler_sends_small_messages_in_batches() -> None:
    with SmallBroker() as broker, Connection(broker.address) as connection:
        assert fill(connection, "topic", 10, 10 * BATCH_MESSAGES)["messages"] == 320
    assert [request.code for request in broker.requests] == [RequestCode.SEND_BATCH_MESSAGE] * 10


@pytest.mark.parametrize("pace", [(), (5_000.0,)])
def test_what_a_busy_broker_refuses_is_sent_again(pace: tuple[float, ...]) -> None:
    with SmallBroker() as broker, Connection(broker.address) as connection:
        filled = fill(connection, "topic", 2_000, 27, *pace)
    assert (filled["messages"], filled["refused"]) == (27, 2)
    assert len(broker.requests) == 29


def test_a_drain_reads_every_queue_to_its_end() -> None:
    with SmallBroker() as broker, Connection(broker.address) as connection:
        drained = drain(connection, "topic")
    assert drained["messages"] == QUEUES_COUNT * QUEUE_LENGTH
    assert drained["bytes"] == 7 * QUEUES_COUNT * QUEUE_LENGTH
