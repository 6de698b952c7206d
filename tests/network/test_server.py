"""A server on real loopback sockets, on both loops: ports, bad peers, caps, ordered stop."""

import asyncio
import contextlib
import struct
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from tests.network.conftest import Run
from tests.network.fakes import FakeClock, FakeHandler
from wakelog.broker.effects import Work
from wakelog.nameserver.lane_table import DEFAULT_LANE, name_server_lanes
from wakelog.network.bound_ports import BoundPorts
from wakelog.network.client import RemotingClient
from wakelog.network.connection import Connection
from wakelog.network.errors import CallTimeout, SendFailed
from wakelog.network.lanes import Lanes
from wakelog.network.limits import ServerLimits
from wakelog.network.server import GRACE_SECONDS, LAST_TURNS_SECONDS, Server
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import SERIALIZE_ROCKETMQ, RemotingCommand, answer
from wakelog.protocol.frame import FrameDecoder, encode_frame

HOST = "127.0.0.1"


def make_server(handler: FakeHandler, limits: ServerLimits | None = None, **options: Any) -> Server:
    limits = limits or ServerLimits()
    lanes: Lanes[Connection] = Lanes(
        name_server_lanes(),
        lane_of_code={},
        default_lane=DEFAULT_LANE,
        bytes_max=limits.lane_bytes_max,
    )
    given: dict[str, Any] = {"descriptors_max": 1_024, "executors": {}}
    return Server(handler, lanes, limits=limits, **given | options)


async def listening_port(server: Server) -> int:
    """Have a server listen, and return its port."""
    ports = BoundPorts()
    port = ports.bind(HOST, 0)
    await server.listen(ports)
    return port


@contextlib.asynccontextmanager
async def serving(
    handler: FakeHandler, limits: ServerLimits | None = None, **options: Any
) -> AsyncIterator[tuple[Server, int]]:
    """A listening server and its port, closed in order at the end."""
    server = make_server(handler, limits, **options)
    port = await listening_port(server)
    try:
        yield server, port
    finally:
        await server.close(grace_seconds=1)


class Peer:
    """A client that speaks frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._decoder = FrameDecoder()
        self._commands: list[RemotingCommand] = []

    @classmethod
    async def connect(cls, port: int) -> "Peer":
        return cls(*await asyncio.open_connection(HOST, port))

    async def receive(self) -> RemotingCommand:
        while not self._commands:
            data = await self.reader.read(65_536)
            assert data, "closed by the server"
            self._commands += self._decoder.feed(data)
        return self._commands.pop(0)

    async def ask(self, code: int, opaque: int) -> RemotingCommand:
        self.writer.write(encode_frame(RemotingCommand(code, opaque)))
        return await self.receive()

    async def is_closed(self) -> bool:
        with contextlib.suppress(ConnectionError):
            return await self.reader.read() == b""
        return True

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


def test_a_bound_port_refuses_connections_until_it_listens(run: Run) -> None:
    async def main() -> None:
        server, ports = make_server(FakeHandler()), BoundPorts()
        port = ports.bind(HOST, 0)
        with pytest.raises(ConnectionRefusedError):
            await Peer.connect(port)
        await server.listen(ports)
        peer = await Peer.connect(port)
        assert (await peer.ask(1, 5)).opaque == 5
        await peer.close()
        await server.close()
        with pytest.raises(ConnectionRefusedError):
            await Peer.connect(port)

    run(main)


def test_pipelined_requests_are_all_answered(run: Run) -> None:
    async def main() -> None:
        handler = FakeHandler()
        async with serving(handler) as (server, port):
            peer = await Peer.connect(port)
            peer.writer.write(
                b"".join(encode_frame(RemotingCommand(7, opaque)) for opaque in range(1_000))
            )
            opaques = [(await peer.receive()).opaque for _ in range(1_000)]
            assert opaques == list(range(1_000))
            assert server.statistics().turn.requests_count == 1_000
            assert handler.turns_ended < 1_000
            await peer.close()

    run(main)


def test_the_second_port_does_not_serve_pulls(run: Run) -> None:
    async def main() -> None:
        server = make_server(FakeHandler())
        bound = BoundPorts()
        ports = [bound.bind(HOST, 0), bound.bind(HOST, 0, refused_codes={11})]
        await server.listen(bound)
        codes = []
        for port in ports:
            peer = await Peer.connect(port)
            codes.append([(await peer.ask(code, 1)).code for code in (10, 11)])
            await peer.close()
        assert codes == [[0, 0], [0, ResponseCode.REQUEST_CODE_NOT_SUPPORTED]]
        await server.close()

    run(main)


def raw_frame(header: bytes, *, kind: int = 0, header_bytes: int | None = None) -> bytes:
    """A frame of exactly these header bytes, honest about its own length."""
    declared = len(header) if header_bytes is None else header_bytes
    return struct.pack(">II", 4 + len(header), kind << 24 | declared) + header


def binary_header(*, remark_bytes: int = 0, ext_bytes: int = 0, tail: bytes = b"") -> bytes:
    """A ROCKETMQ header whose two length fields may lie."""
    fixed = struct.pack(">hBhii", 10, 0, 399, 1, 0)
    return fixed + struct.pack(">i", remark_bytes) + struct.pack(">i", ext_bytes) + tail


MALFORMED = {
    "length over the limit": struct.pack(">I", 16 * 1024 * 1024 + 1) + b"x",
    "length negative": struct.pack(">i", -1) + b"x",
    "length zero": struct.pack(">I", 0) + b"xxxx",
    "length below the header word": struct.pack(">I", 3) + b"xxxx",
    "header longer than the frame": raw_frame(b"{}", header_bytes=100),
    "header of 16 MiB in a small frame": raw_frame(b"{}", header_bytes=0xFFFFFF),
    "bad JSON": raw_frame(b'{"code":'),
    "JSON that is no object": raw_frame(b"[1,2]"),
    "JSON code of a wrong type": raw_frame(b'{"code":{},"opaque":1}'),
    "invalid UTF-8 for JSON": raw_frame(b'{"code":10,\xff\xfe}'),
    "unknown serialise type": raw_frame(b"{}", kind=7),
    "binary header cut": raw_frame(b"\x00\x0a\x00", kind=SERIALIZE_ROCKETMQ),
    "binary remark negative": raw_frame(binary_header(remark_bytes=-5), kind=SERIALIZE_ROCKETMQ),
    "binary remark too long": raw_frame(
        binary_header(remark_bytes=2_000_000_000), kind=SERIALIZE_ROCKETMQ
    ),
    "binary extFields negative": raw_frame(binary_header(ext_bytes=-1), kind=SERIALIZE_ROCKETMQ),
    "binary value of 2 GiB": raw_frame(
        binary_header(ext_bytes=7, tail=b"\x00\x01k\x7f\xff\xff\xff"), kind=SERIALIZE_ROCKETMQ
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_frame_closes_that_one_connection(name: str, run: Run) -> None:
    async def main() -> None:
        async with serving(FakeHandler()) as (server, port):
            bad, good = await Peer.connect(port), await Peer.connect(port)
            assert (await good.ask(1, 1)).opaque == 1
            bad.writer.write(MALFORMED[name])
            assert await bad.is_closed()
            assert (await good.ask(1, 2)).opaque == 2
            closed = server.statistics().connections.closed_count
            assert closed["badFrame"] == 1
            await bad.close()
            await good.close()

    run(main)


def test_a_lie_about_length_allocates_nothing() -> None:
    async def main() -> None:
        async with serving(FakeHandler()) as (_, port):
            peers = [await Peer.connect(port) for _ in range(20)]
            tracemalloc.start()
            for peer in peers:
                peer.writer.write(struct.pack(">II", 16 * 1024 * 1024 - 8, 0xFFFF) + b"x" * 100)
            watcher = await Peer.connect(port)
            assert (await watcher.ask(1, 1)).code == 0
            _, peak_bytes = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak_bytes < 2_000_000
            for peer in (*peers, watcher):
                await peer.close()

    asyncio.run(main())


def test_a_peer_that_never_reads_is_cut_off(run: Run) -> None:
    async def main() -> None:
        handler = FakeHandler(lambda request: answer(request, 0, body=b"x" * 1_000_000))
        limits = ServerLimits(write_buffer_bytes_high=1 << 20, write_buffer_bytes_max=8 << 20)
        async with serving(handler, limits) as (server, port):
            deaf, good = await Peer.connect(port), await Peer.connect(port)
            deaf.writer.transport.pause_reading()  # type: ignore[attr-defined]
            deaf.writer.write(
                b"".join(encode_frame(RemotingCommand(7, opaque)) for opaque in range(100))
            )
            while not server.statistics().connections.closed_count["writeBuffer"]:
                await asyncio.sleep(0)
            assert len((await good.ask(7, 1)).body) == 1_000_000
            deaf.writer.transport.abort()
            await good.close()

    run(main)


async def abort(peers: list[Peer]) -> None:
    for peer in peers:
        peer.writer.transport.abort()
        with suppress(OSError):
            await peer.writer.wait_closed()


def test_many_peers_that_never_read_are_cut_off_before_they_fill_the_memory(run: Run) -> None:
    """Each stays below the limit of a connection."""

    async def main() -> None:
        handler = FakeHandler(lambda request: answer(request, 0, body=b"x" * 1_000_000))
        limits = ServerLimits(held_bytes_max=20 << 20, held_bytes_step=4 << 20)
        bytes_max = limits.held_bytes_max + limits.held_bytes_step + (12 << 20)
        async with serving(handler, limits) as (server, port):
            deaf = [await Peer.connect(port) for _ in range(8)]
            good = await Peer.connect(port)
            for peer in deaf:
                peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
                peer.writer.write(
                    b"".join(encode_frame(RemotingCommand(7, opaque)) for opaque in range(12))
                )
            while not server.statistics().connections.closed_count["memory"]:
                assert len((await good.ask(7, 1)).body) == 1_000_000
                held_bytes = sum(connection.held_bytes for connection in server._table)
                assert held_bytes <= bytes_max
            await abort(deaf)
            await good.close()

    run(main)


def test_many_unfinished_frames_are_cut_off_before_they_fill_the_memory(run: Run) -> None:
    async def main() -> None:
        limits = ServerLimits(held_bytes_max=20 << 20, held_bytes_step=4 << 20)
        async with serving(FakeHandler(), limits) as (server, port):
            peers = [await Peer.connect(port) for _ in range(10)]
            good = await Peer.connect(port)
            for peer in peers:
                peer.writer.write(struct.pack(">II", 8 << 20, 0) + b"x" * (5 << 20))
            while not server.statistics().connections.closed_count["memory"]:
                assert (await good.ask(1, 1)).code == 0
            await abort(peers)
            await good.close()

    run(main)


def test_connections_over_the_cap_are_closed_at_once(run: Run) -> None:
    async def main() -> None:
        limits = ServerLimits(connections_max=2, connections_per_host_max=2)
        async with serving(FakeHandler(), limits) as (server, port):
            first, second = await Peer.connect(port), await Peer.connect(port)
            assert (await second.ask(1, 1)).code == 0
            third = await Peer.connect(port)
            assert await third.is_closed()
            assert (await first.ask(1, 2)).code == 0
            assert server.statistics().connections.closed_count["tooMany"] == 1
            for peer in (first, second, third):
                await peer.close()

    run(main)


def test_a_sweep_closes_idle_connections_and_reports_them_to_the_handler(run: Run) -> None:
    async def main() -> None:
        clock = FakeClock()
        handler = FakeHandler()
        async with serving(handler, clock_seconds=clock) as (server, port):
            peer = await Peer.connect(port)
            await peer.ask(1, 1)
            clock.seconds += 119
            server.sweep()
            await peer.ask(1, 2)
            clock.seconds += 120
            server.sweep()
            assert await peer.is_closed()
            while not handler.closed:
                await asyncio.sleep(0)
            assert handler.closed == [handler.channels[0].id]
            assert server.statistics().connections.closed_count["idle"] == 1
            await peer.close()

    run(main)


def test_a_channel_is_reached_by_its_number(run: Run) -> None:
    async def main() -> None:
        handler = FakeHandler()
        async with serving(handler) as (server, port):
            peer = await Peer.connect(port)
            await peer.ask(1, 1)
            number = handler.channels[0].id
            assert handler.channels[0].remote_host == HOST
            assert server.push(number, RemotingCommand(40, 77))
            assert (await peer.receive()).code == 40
            assert not server.push(number + 1_000_000, RemotingCommand(40, 78))
            server.close_channel(number)
            assert await peer.is_closed()
            await peer.close()

    run(main)


def test_the_server_asks_its_clients(run: Run) -> None:
    async def main() -> None:
        handler = FakeHandler()
        async with serving(handler) as (server, port):

            async def execute(address: str, request: RemotingCommand) -> RemotingCommand:
                assert address == f"{HOST}:{port}"
                if request.code == 220:
                    await asyncio.Event().wait()
                return answer(request, 0, body=b"ran %d" % request.code)

            client = RemotingClient(on_request=execute)
            await client.invoke(f"{HOST}:{port}", RemotingCommand(34), timeout_ms=5000)
            number = handler.channels[0].id
            asked = [
                server.request(number, RemotingCommand(code), timeout_seconds=5)
                for code in (307, 309)
            ]
            assert [one.body for one in await asyncio.gather(*asked)] == [b"ran 307", b"ran 309"]
            with pytest.raises(CallTimeout, match="no answer within 20 ms"):
                await server.request(number, RemotingCommand(220), timeout_seconds=0.02)
            await client.close()
            while not handler.closed:
                await asyncio.sleep(0)
            with pytest.raises(SendFailed, match="the connection is closed"):
                await server.request(number, RemotingCommand(307), timeout_seconds=5)

    run(main)


def test_close_answers_what_waits_and_closes_everything(run: Run) -> None:
    async def main() -> None:
        handler = FakeHandler()
        server = make_server(handler)
        port = await listening_port(server)
        busy, idle = await Peer.connect(port), await Peer.connect(port)
        await idle.ask(1, 1)
        busy.writer.write(b"".join(encode_frame(RemotingCommand(7, n)) for n in range(50)))
        assert (await busy.receive()).opaque == 0
        await server.close()
        assert len(handler.closed) == 2
        assert server.statistics().connections.open_count == 0
        for peer in (busy, idle):
            await peer.close()

    run(main)


def test_close_waits_for_long_work_and_what_waits_behind_it(run: Run) -> None:
    async def main() -> None:
        done: list[int] = []
        clock = FakeClock()

        def work() -> Work:
            for _ in range(50):
                clock.seconds += 0.001  # as much as a turn does of them
                yield
            done.append(1)
            return answer(RemotingCommand(10, 1), 0)

        def rule(request: RemotingCommand) -> Any:
            if request.opaque == 1:
                return work()
            done.append(request.opaque)
            return answer(request, 0)

        server = make_server(FakeHandler(rule), clock_seconds=clock, in_order_codes={10})
        port = await listening_port(server)
        peer = await Peer.connect(port)
        peer.writer.write(b"".join(encode_frame(RemotingCommand(10, n)) for n in (1, 2)))
        while not server.statistics().turn.requests_count:
            await asyncio.sleep(0)
        assert not done
        await server.close()
        assert [(await peer.receive()).opaque for _ in range(2)] == [1, 2] == done
        await peer.close()

    run(main)


def test_close_leaves_work_that_does_not_end(run: Run) -> None:
    async def main() -> None:
        clock = FakeClock()
        began_seconds = clock.seconds

        def work() -> Work:
            while (
                clock.seconds < began_seconds + 100 * GRACE_SECONDS
            ):  # in order: it outlives its connection
                clock.seconds += 0.1
                yield
            return None

        server = make_server(
            FakeHandler(lambda _request: work()), clock_seconds=clock, in_order_codes={10}
        )
        peer = await Peer.connect(await listening_port(server))
        peer.writer.write(encode_frame(RemotingCommand(10, 1)))
        while not server.statistics().turn.requests_count:
            await asyncio.sleep(0)
        await server.close(grace_seconds=1.0)
        assert 1.0 + LAST_TURNS_SECONDS <= clock.seconds - began_seconds < GRACE_SECONDS
        await peer.close()

    run(main)


@pytest.mark.parametrize("how", ["idle", "requested"])
def test_many_connections_are_closed_in_pieces(run: Run, how: str) -> None:
    """9,000 that were cut at once held up everybody for 150 ms."""

    class SlowClock(FakeClock):
        """Each look at it takes a millisecond."""

        def __call__(self) -> float:
            self.seconds += 0.001
            return self.seconds

    async def main() -> None:
        clock = SlowClock()
        handler = FakeHandler()
        async with serving(handler, clock_seconds=clock) as (server, port):
            peers = [await Peer.connect(port) for _ in range(20)]
            for number, peer in enumerate(peers):
                await peer.ask(1, number)
            channels = [channel.id for channel in handler.channels]
            clock.seconds += 200
            if how == "idle":
                server.sweep()
            else:
                for number in channels:
                    server.close_channel(number)
            counts = {20}
            while (count := server.statistics().connections.open_count) > 0:
                counts.add(count)
                await asyncio.sleep(0)
            assert len(counts) > 3
            for peer in peers:
                assert await peer.is_closed()
                await peer.close()
            assert server.statistics().connections.closed_count[how] == 20

    run(main)
