"""A connection of a server: what is decoded at once, and what is put off."""

import asyncio

import pytest

from tests.network.fakes import FakeClock, FakeHandler, FakeLoop, FakeTransport
from tests.network.test_connection import LIMITS, FakeOwner, frame
from tests.network.test_server import Peer, Run, run, serving
from wakelog.network import read_share
from wakelog.network.accepted_connection import AcceptedConnection
from wakelog.network.activity import CloseReason
from wakelog.network.read_share import SHARE_SECONDS, SLICE_BYTES, SMALL_BYTES, ReadShare
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.frame import encode_frame

__all__ = ["run"]


class Bench:
    """A connection of a server whose share is over."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.share = ReadShare(self.loop.call_soon)
        self.owner = FakeOwner()
        self.connection = AcceptedConnection(
            self.owner,
            LIMITS,
            self.share,
            refused_codes=(),
            clock_seconds=FakeClock(),
            body_bytes_max=None,
        )
        self.transport = FakeTransport(self.connection)
        self.connection.connection_made(self.transport)
        self.share.note_spent(SHARE_SECONDS)

    def opaques(self) -> list[int]:
        return [opaque for opaques, _ in self.owner.delivered for opaque in opaques]


LARGE = [frame(number) for number in range(2_000)]
assert len(b"".join(LARGE)) > 3 * SLICE_BYTES


def test_a_large_chunk_waits_for_the_next_turn_and_keeps_its_order() -> None:
    bench = Bench()
    data = b"".join(LARGE)
    bench.connection.data_received(data[:-5])
    bench.connection.data_received(data[-5:])
    assert bench.opaques() == [] and not bench.transport.reading
    assert bench.connection.held_bytes == bench.owner.noted_bytes == len(data)
    bench.loop.run_until_quiet()
    assert bench.opaques() == list(range(2_000))
    assert bench.transport.reading and not bench.connection.held_bytes
    assert sum(size for _, size in bench.owner.delivered) == len(data)


def test_a_small_chunk_does_not_wait_but_behind_a_large_one_of_its_connection() -> None:
    bench = Bench()
    bench.connection.data_received(LARGE[0])
    assert bench.opaques() == [0] and len(LARGE[0]) <= SMALL_BYTES
    bench.connection.data_received(b"".join(LARGE[1:]))
    bench.connection.data_received(frame(9_999))
    assert bench.opaques() == [0]
    bench.loop.run_until_quiet()
    assert bench.opaques() == [*range(2_000), 9_999]


@pytest.mark.parametrize("end", ["lost", "bad frame"])
def test_nothing_is_read_behind_the_end(end: str) -> None:
    bench = Bench()
    bad = b"\xff\xff\xff\xff" if end == "bad frame" else b""
    bench.connection.data_received(frame(1) + bad + b"".join(LARGE))
    if end == "lost":
        bench.connection.abort(CloseReason.REQUESTED)
    bench.loop.run_until_quiet()
    assert bench.opaques() == ([] if end == "lost" else [1])
    assert bench.connection.closed and not bench.connection.held_bytes


def test_all_requests_of_many_that_send_much_at_once_are_answered_in_order(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_share, "SHARE_SECONDS", 0.0001)
    count = 3_000

    async def ask(port: int) -> None:
        peer = await Peer.connect(port)
        sent = b"".join(encode_frame(RemotingCommand(1, opaque)) for opaque in range(count))
        peer.writer.write(sent)
        assert [(await peer.receive()).opaque for _ in range(count)] == list(range(count))
        await peer.close()

    async def main() -> None:
        async with serving(FakeHandler()) as (_, port):
            await asyncio.gather(*(ask(port) for _ in range(8)))

    run(main)
