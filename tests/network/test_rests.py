"""Rests: which connections are read once a millisecond, and that each of them is read again."""

import pytest

from tests.broker.harness import send_fields
from tests.broker.processors.send_side import Side
from tests.network.fakes import connect
from tests.twins import twins, use_twin
from wakelog.network.connection import Connection
from wakelog.network.limits import ServerLimits
from wakelog.network.rests import CHUNK_BYTES_MAX, CHUNKS_MIN, NEAR_SECONDS, REST_SECONDS
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import ONEWAY_FLAG, make_request
from wakelog.protocol.frame import encode_frame


@pytest.fixture(params=twins(), autouse=True)
def _twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    use_twin(request.param, monkeypatch)


def send(*, oneway: bool = True, code: int = 310, size: int = 10, **changes: str) -> bytes:
    request = make_request(code, send_fields(**changes), b"x" * size, opaque=1)
    request.flag = ONEWAY_FLAG if oneway else 0
    return encode_frame(request)


class Sender:
    """A connection to a broker, and a clock that moves on between its chunks."""

    def __init__(self, side: Side | None = None) -> None:
        self.side = side or Side()
        self.connection = Connection(
            self.side, ServerLimits(), clock_seconds=self.side.clock, gathers_sends=True
        )
        self.transport = connect(self.connection)

    def receive(self, chunk: bytes, gap_seconds: float = NEAR_SECONDS / 2) -> None:
        self.side.clock.spend(gap_seconds)
        self.connection.data_received(chunk)
        self.side.loop.run_until_quiet()

    def receive_many(self, count: int = CHUNKS_MIN) -> None:
        """Receive one-way messages, the first of which is near to none."""
        for _ in range(count):
            self.receive(send())


def test_a_connection_rests_once_it_has_sent_one_way_messages_close_together() -> None:
    sender = Sender()
    sender.receive_many()
    assert sender.transport.reading and not sender.side.loop.timers
    for _ in range(3):
        sender.receive(send())
        assert not sender.transport.reading
        assert [seconds for seconds, _ in sender.side.loop.timers] == [REST_SECONDS]
        sender.side.loop.end_timers()
        assert sender.transport.reading and not sender.side.loop.timers
    assert sender.side.store.log.queue_offsets.get(("T", 0)) == 1 + CHUNKS_MIN + 3
    assert not sender.transport.taken


@pytest.mark.parametrize(
    "chunk",
    [
        send(oneway=False),
        send() + send(oneway=False),
        send(code=RequestCode.SEND_MESSAGE, oneway=False),
        send() + send(oneway=False, i="DELAY\x011"),
        send(code=999, oneway=False),
    ],
)
def test_what_wants_an_answer_or_more_than_a_run_ends_the_row(chunk: bytes) -> None:
    sender = Sender()
    sender.receive_many()
    sender.receive(chunk)
    sender.receive_many(CHUNKS_MIN - 1)
    assert sender.transport.reading and not sender.side.loop.timers


def test_messages_at_longer_intervals_are_read_as_they_come() -> None:
    sender = Sender()
    sender.receive_many()
    for _ in range(2 * CHUNKS_MIN):
        sender.receive(send(), NEAR_SECONDS)
    assert sender.transport.reading and not sender.side.loop.timers


def test_after_a_long_chunk_the_next_one_is_read_at_once() -> None:
    sender = Sender()
    sender.receive_many()
    sender.receive(send(size=1_000) * (CHUNK_BYTES_MAX // 1_000))
    assert sender.transport.reading
    sender.receive(send())
    assert not sender.transport.reading


def test_many_messages_of_one_chunk_are_one_step_of_the_row() -> None:
    sender = Sender()
    sender.receive(send() * 200)
    sender.receive(send() * 200)
    assert sender.transport.reading and not sender.side.loop.timers


def test_connections_that_rest_are_read_again_together_and_closed_ones_not() -> None:
    first = Sender()
    second, closed = Sender(first.side), Sender(first.side)
    senders = (first, second, closed)
    for _ in range(CHUNKS_MIN + 1):
        for sender in senders:
            sender.receive(send(), gap_seconds=0.0001)
    assert not any(sender.transport.reading for sender in senders)
    assert len(first.side.loop.timers) == 1
    closed.transport.abort()
    first.side.loop.end_timers()
    assert first.transport.reading and second.transport.reading
    assert not first.side.loop.timers
