"""One connection over a transport driven by hand: decoding, pausing, bounds, closing."""

import asyncio
import tracemalloc
from collections.abc import Sequence
from concurrent.futures import Future

import pytest

from tests.network.fakes import FakeClock, FakeTransport, connect
from wakelog.network.activity import CloseReason, verdict
from wakelog.network.connection import (
    BODY_BYTES_COPIED_MAX,
    PAUSED_BY_LANE,
    READ_BYTES_MAX,
    BufferedConnection,
    Connection,
    ReadBuffer,
)
from wakelog.network.errors import SendFailed
from wakelog.network.limits import ServerLimits
from wakelog.protocol.command import ONEWAY_FLAG, RemotingCommand, answer
from wakelog.protocol.frame import encode_frame

LIMITS = ServerLimits(write_buffer_bytes_high=1_000, write_buffer_bytes_max=10_000)


class FakeOwner:
    """Records the calls of a connection."""

    def __init__(self, verdict: CloseReason | None = None) -> None:
        self.verdict = verdict
        self.delivered: list[tuple[list[int], int]] = []
        self.ended: list[tuple[CloseReason, str]] = []
        self.noted_bytes = 0

    def opened(self, connection: Connection) -> CloseReason | None:
        return self.verdict

    def deliver(
        self, connection: Connection, requests: Sequence[RemotingCommand], size_bytes: int
    ) -> None:
        self.delivered.append(([request.opaque for request in requests], size_bytes))

    def send(self, connection: Connection, command: RemotingCommand) -> bool:
        connection.buffer(command)
        return connection.flush() > 0

    def closed(self, connection: Connection, reason: CloseReason, detail: str) -> None:
        self.ended.append((reason, detail))

    def defers(self, connection: Connection) -> bool:
        return False

    def on_held(self, size_bytes: int) -> None:
        self.noted_bytes += size_bytes


class Bench:
    """A connection, its owner, its clock and its transport."""

    def __init__(self, peer: tuple[str, int] = ("10.0.0.9", 4711)) -> None:
        self.owner = FakeOwner()
        self.clock = FakeClock()
        self.connection = Connection(self.owner, LIMITS, refused_codes=(), clock_seconds=self.clock)
        self.transport: FakeTransport = connect(self.connection, peer)

    def verdict_after(self, seconds: float) -> CloseReason | None:
        self.clock.seconds += seconds
        self.connection.observe(self.clock())
        return verdict(self.connection.activity, self.clock(), LIMITS)


def frame(opaque: int, body: bytes = b"") -> bytes:
    return encode_frame(RemotingCommand(10, opaque, body=body))


@pytest.mark.parametrize("step", [1, 3, 7, 64, 1000])
def test_frames_are_delivered_from_chunks_of_any_size(step: int) -> None:
    bench = Bench()
    data = frame(1) + frame(2, b"x" * 50) + frame(3)
    for begin in range(0, len(data), step):
        bench.connection.data_received(data[begin : begin + step])
    assert [opaque for opaques, _ in bench.owner.delivered for opaque in opaques] == [1, 2, 3]
    assert sum(size for _, size in bench.owner.delivered) == len(data)


@pytest.mark.parametrize(
    ("address", "host"),
    [("10.0.0.9", "10.0.0.9"), ("::ffff:10.0.0.9", "10.0.0.9"), ("fe80::1", "fe80::1")],
)
def test_the_address_of_the_peer_is_numeric(address: str, host: str) -> None:
    bench = Bench((address, 80))
    assert (bench.connection.remote_host, bench.connection.remote_port) == (host, 80)
    assert bench.connection.address == f"{host}:80"


def test_ids_are_never_used_twice() -> None:
    assert Bench().connection.id != Bench().connection.id


def test_a_bad_frame_closes_the_connection_after_the_frames_before_it() -> None:
    bench = Bench()
    bench.connection.data_received(frame(1) + b"\xff\xff\xff\xff" + frame(2))
    assert [opaques for opaques, _ in bench.owner.delivered] == [[1]]
    ((reason, detail),) = bench.owner.ended
    assert reason is CloseReason.BAD_FRAME
    assert "malformed frame" in detail
    assert bench.connection.closed


def test_a_connection_that_the_owner_refuses_is_aborted() -> None:
    owner = FakeOwner(CloseReason.TOO_MANY)
    connection = Connection(owner, LIMITS, refused_codes=(), clock_seconds=FakeClock())
    transport = connect(connection)
    assert transport.is_closing()
    assert owner.ended == [(CloseReason.TOO_MANY, "")]


def test_buffered_frames_are_one_write() -> None:
    bench = Bench()
    assert bench.connection.buffer(RemotingCommand(0, 1))
    assert not bench.connection.buffer(RemotingCommand(0, 2))
    written_bytes = bench.connection.flush()
    assert bench.transport.write_calls == 1
    assert written_bytes == len(bench.transport.taken)
    assert [one.opaque for one in bench.transport.answers()] == [1, 2]
    assert bench.connection.buffer(RemotingCommand(0, 3))


def test_a_large_body_arrives_whole() -> None:
    limits = ServerLimits()
    connection = Connection(FakeOwner(), limits, refused_codes=(), clock_seconds=FakeClock())
    transport = connect(connection)
    connection.buffer(RemotingCommand(0, 1, body=b"a" * 100_000))
    connection.buffer(RemotingCommand(0, 2, body=b"b"))
    connection.flush()
    assert transport.write_calls == 1
    assert [(one.opaque, len(one.body)) for one in transport.answers()] == [(1, 100_000), (2, 1)]


def test_an_unfinished_frame_is_noted_as_held_and_counted() -> None:
    bench = Bench()
    whole = frame(1, b"x" * 5_000)
    bench.connection.data_received(whole[:3_000])
    assert bench.owner.noted_bytes == bench.connection.held_bytes == 3_000
    bench.connection.data_received(whole[3_000:])
    assert bench.connection.held_bytes == 0
    assert bench.owner.noted_bytes == 3_000


def test_a_peer_that_does_not_read_is_not_read_and_then_closed() -> None:
    bench = Bench()
    bench.transport.peer_reads = False
    bench.connection.buffer(RemotingCommand(0, 1, body=b"x" * 2_000))
    bench.connection.flush()
    assert not bench.transport.reading
    bench.connection.buffer(RemotingCommand(0, 2, body=b"x" * 9_000))
    assert bench.connection.flush() == 0
    assert bench.owner.ended[0][0] is CloseReason.WRITE_BUFFER


def test_reading_resumes_when_every_reason_to_pause_is_gone() -> None:
    bench = Bench()
    bench.transport.peer_reads = False
    bench.connection.pause_reading(PAUSED_BY_LANE)
    bench.connection.buffer(RemotingCommand(0, 1, body=b"x" * 2_000))
    bench.connection.flush()
    bench.transport.let_peer_read()
    assert not bench.transport.reading
    bench.connection.resume_reading(PAUSED_BY_LANE)
    assert bench.transport.reading
    bench.connection.resume_reading(PAUSED_BY_LANE)
    assert bench.transport.reading


def test_a_stalled_peer_is_closed_and_a_slow_one_stays() -> None:
    bench = Bench()
    bench.connection.data_received(frame(1))
    bench.transport.peer_reads = False
    bench.connection.buffer(RemotingCommand(0, 1, body=b"x" * 5_000))
    bench.connection.flush()
    assert bench.verdict_after(29) is None
    bench.transport.let_peer_read(1)
    assert bench.verdict_after(29) is None
    assert bench.verdict_after(30) is CloseReason.WRITE_STALL


def test_an_unfinished_frame_is_limited_in_time() -> None:
    bench = Bench()
    bench.connection.data_received(frame(1) + frame(2)[:5])
    assert bench.verdict_after(15) is None
    bench.connection.data_received(frame(2)[5:7])
    assert bench.verdict_after(5) is CloseReason.SLOW_FRAME


def test_a_large_frame_may_come_slowly() -> None:
    """Of 4 MiB at 0.5 Mbit/s 1.2 MB come in 20 s. It takes longer than a minute."""
    bench = Bench()
    whole = frame(1, bytes(4 << 20))
    for begin in range(0, len(whole), 64_000):
        bench.connection.data_received(whole[begin : begin + 64_000])
        assert bench.verdict_after(1) is None
    assert bench.owner.delivered == [([1], len(whole))]
    bench.connection.data_received(whole[:1_000])
    assert bench.verdict_after(19) is None
    bench.connection.data_received(whole[1_000:60_000])
    assert bench.verdict_after(1) is CloseReason.SLOW_FRAME


def test_a_body_that_is_dropped_is_not_held_and_limited_in_time() -> None:
    owner, clock = FakeOwner(), FakeClock()
    connection = Connection(owner, LIMITS, clock_seconds=clock, body_bytes_max=lambda _: 1 << 20)
    connect(connection)
    whole = frame(1, bytes(3 << 20))
    connection.data_received(whole[: 1 << 20])
    assert connection.held_bytes == 0
    clock.seconds += 20
    assert verdict(connection.activity, clock(), LIMITS) is CloseReason.SLOW_FRAME
    connection.data_received(whole[1 << 20 :])
    assert owner.delivered == [([1], len(whole))]
    assert verdict(connection.activity, clock(), LIMITS) is None


def test_the_time_of_a_frame_does_not_pass_while_reading_is_paused() -> None:
    bench = Bench()
    bench.connection.data_received(frame(1) + frame(2)[:5])
    bench.connection.pause_reading(PAUSED_BY_LANE)
    assert bench.verdict_after(25) is None
    bench.connection.resume_reading(PAUSED_BY_LANE)
    assert bench.verdict_after(19) is None
    assert bench.verdict_after(1) is CloseReason.SLOW_FRAME


def test_idle_is_neither_read_nor_written() -> None:
    bench = Bench()
    bench.connection.data_received(frame(1))
    assert bench.verdict_after(119) is None
    bench.connection.buffer(RemotingCommand(0, 1))
    bench.connection.flush()
    assert bench.verdict_after(119) is None
    assert bench.verdict_after(1) is CloseReason.IDLE


def test_close_writes_buffered_commands_and_abort_does_not() -> None:
    closed, aborted = Bench(), Bench()
    for bench in (closed, aborted):
        bench.connection.buffer(RemotingCommand(0, 1))
    closed.connection.close(CloseReason.REQUESTED)
    aborted.connection.abort(CloseReason.SERVER_STOPPED)
    assert [one.opaque for one in closed.transport.answers()] == [1]
    assert aborted.transport.taken == b""
    assert closed.owner.ended == [(CloseReason.REQUESTED, "")]
    assert aborted.owner.ended == [(CloseReason.SERVER_STOPPED, "")]
    assert aborted.connection.flush() == 0


def waiting() -> Future[RemotingCommand]:
    return Future()


def response(opaque: int) -> bytes:
    return encode_frame(answer(RemotingCommand(0, opaque), 0, body=b"done"))


def test_a_connection_sends_a_request_and_returns_its_response() -> None:
    async def scenario() -> None:
        bench = Bench()
        asked = asyncio.ensure_future(bench.connection.request(RemotingCommand(39)))
        await asyncio.sleep(0)
        [sent] = bench.transport.answers()
        assert (sent.code, sent.is_response) == (39, False)
        bench.connection.data_received(response(sent.opaque) + frame(7))
        assert (await asked).body == b"done"
        assert bench.owner.delivered == [([7], len(response(sent.opaque) + frame(7)))]

    asyncio.run(scenario())


def test_a_connection_that_was_made_reads_into_one_buffer_and_keeps_nothing_of_it() -> None:
    owner, first, second = FakeOwner(), waiting(), waiting()
    connection = BufferedConnection(owner, LIMITS, ReadBuffer(), "a:1")
    connect(connection)
    for waiter in (first, second):
        connection.peer.begin_request(RemotingCommand(11), waiter)
    whole = response(1) + response(2) + frame(7, b"x" * 100)
    for begin in range(0, len(whole), 9):
        chunk = whole[begin : begin + 9]
        connection.get_buffer(-1)[: len(chunk)] = chunk
        connection.buffer_updated(len(chunk))
        connection.get_buffer(-1)[:] = bytes(len(connection.get_buffer(-1)))
    assert first.result(timeout=0).body == second.result(timeout=0).body == b"done"
    assert [opaques for opaques, _ in owner.delivered] == [[7]]


def test_a_long_response_is_read_to_where_it_stays() -> None:
    waiter = waiting()
    connection = BufferedConnection(FakeOwner(), LIMITS, ReadBuffer(), "a:1")
    connect(connection)
    connection.peer.begin_request(RemotingCommand(11), waiter)
    body = b"0123456789" * 30_000
    whole = encode_frame(RemotingCommand(0, opaque=1, flag=1, body=body)) + frame(7)
    read_to = []
    while whole:
        place = connection.get_buffer(-1)
        chunk, whole = whole[: len(place)], whole[len(place) :]
        place[: len(chunk)] = chunk
        read_to.append(place.obj)
        connection.buffer_updated(len(chunk))
    found = waiter.result(timeout=0).body
    assert found == body
    assert isinstance(found, memoryview)
    assert [each is found.obj for each in read_to] == [False, True, False]


def test_a_client_writes_a_long_body_without_a_copy_and_no_header_alone() -> None:
    connection = BufferedConnection(FakeOwner(), ServerLimits(), ReadBuffer(), "a:1")
    transport, written = connect(connection), list[bytes | memoryview]()
    transport.write = written.append  # type: ignore[method-assign, assignment]
    bodies = [b"0123456789" * 30_000, b"short", bytes(BODY_BYTES_COPIED_MAX), b"end"]
    commands = [RemotingCommand(310, opaque=index, body=each) for index, each in enumerate(bodies)]
    for command in commands:
        connection.buffer(command)
    assert connection.flush() == sum(map(len, written))
    assert b"".join(written) == b"".join(map(encode_frame, commands))
    assert [type(each) for each in written] == [bytes, memoryview, bytes]
    assert isinstance(written[1], memoryview) and written[1].obj is bodies[0]
    assert len(written[0]) > BODY_BYTES_COPIED_MAX


def test_connections_of_one_client_share_a_buffer_that_is_made_at_the_first_read() -> None:
    owners = [FakeOwner() for _ in range(20)]
    tracemalloc.start()
    try:
        buffer = ReadBuffer()
        made = [BufferedConnection(owner, LIMITS, buffer, "a:1") for owner in owners]
        for connection in made:
            connect(connection)
        assert tracemalloc.get_traced_memory()[0] < READ_BYTES_MAX
        whole = frame(7, b"x" * 100)
        for chunk in (whole[:60], whole[60:]):
            for connection in made:
                connection.get_buffer(-1)[: len(chunk)] = chunk
                connection.buffer_updated(len(chunk))
        assert tracemalloc.get_traced_memory()[0] < 2 * READ_BYTES_MAX
    finally:
        tracemalloc.stop()
    assert [owner.delivered for owner in owners] == [[([7], len(whole))]] * 20


def test_a_caller_may_end_its_wait_itself() -> None:
    async def scenario() -> None:
        bench = Bench()
        waiter: asyncio.Future[RemotingCommand] = asyncio.get_running_loop().create_future()
        opaque = bench.connection.begin_request(RemotingCommand(39), waiter)
        assert bench.connection.peer.waiting_count == 1
        bench.connection.peer.end_request(opaque)
        assert bench.connection.peer.waiting_count == 0
        bench.connection.abort(CloseReason.IDLE)
        with pytest.raises(SendFailed, match="the connection is closed"):
            bench.connection.begin_request(RemotingCommand(39), waiter)
        assert bench.connection.peer.waiting_count == 0

    asyncio.run(scenario())


def test_a_request_without_a_response_ends_with_its_caller_or_with_the_connection() -> None:
    async def scenario() -> None:
        bench = Bench()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await bench.connection.request(RemotingCommand(39))
        asked = asyncio.ensure_future(bench.connection.request(RemotingCommand(39)))
        await asyncio.sleep(0)
        bench.connection.abort(CloseReason.IDLE)
        with pytest.raises(SendFailed, match="the connection was closed"):
            await asked
        with pytest.raises(SendFailed, match="the connection is closed"):
            await bench.connection.request(RemotingCommand(39))
        assert bench.connection.peer.waiting_count == 0

    asyncio.run(scenario())


def test_responses_end_the_time_of_a_frame_and_are_not_delivered() -> None:
    bench = Bench()
    bench.connection.data_received(response(1))
    assert bench.owner.delivered == []
    assert bench.verdict_after(119) is None
    bench.connection.data_received(response(1) + response(1)[:9])
    assert bench.verdict_after(19) is None
    assert bench.verdict_after(1) is CloseReason.SLOW_FRAME


def test_a_request_with_a_header_that_is_too_long_is_answered() -> None:
    bench = Bench()
    fields = {"properties": "p" * 300_000}
    bench.connection.data_received(frame(1) + encode_frame(RemotingCommand(10, 2, 0, fields)))
    [refusal] = bench.transport.answers()
    assert (refusal.code, refusal.opaque) == (13, 2)
    assert [opaques for opaques, _ in bench.owner.delivered] == [[1]]
    assert not bench.owner.ended
    assert bench.connection.activity.frame_begun_seconds is None


@pytest.mark.parametrize("step", [50_000, 1 << 20])
def test_each_request_with_a_header_that_is_too_long_is_answered_once(step: int) -> None:
    bench, fields = Bench(), {"properties": "p" * 300_000}
    for opaque in range(1, 8):
        flag = ONEWAY_FLAG if opaque == 4 else 0
        command = RemotingCommand(10, opaque, flag, fields if opaque in (2, 3, 4, 6) else {})
        data = encode_frame(command)
        for begin in range(0, len(data), step):
            bench.connection.data_received(data[begin : begin + step])
    assert [each.opaque for each in bench.transport.answers()] == [2, 3, 6]
    assert [opaques for opaques, _ in bench.owner.delivered] == [[1], [5], [7]]
    assert bench.connection.activity.frame_begun_seconds is None
