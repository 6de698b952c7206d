"""The transport that calls carry: numbers, pauses, ends."""

import asyncio

import pytest

from wakelog.network.call_transport import (
    CHUNK_BYTES_MAX,
    CHUNKS_AHEAD_MAX,
    NO_CHUNK,
    CallTransport,
    OutOfOrder,
)


class Recorder(asyncio.Protocol):
    """What a transport told its protocol."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.events: list[str] = []

    def data_received(self, data: bytes) -> None:
        self.received.append(data)

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append(f"lost {exc}")


async def made() -> tuple[CallTransport, Recorder]:
    recorder = Recorder()
    transport = CallTransport(
        recorder,
        on_change=lambda: recorder.events.append("change"),
        on_close=lambda: recorder.events.append("close"),
    )
    return transport, recorder


def test_chunks_that_overtake_each_other_are_delivered_in_order() -> None:
    async def main() -> None:
        transport, recorder = await made()
        for number in (2, 0, 1, 1):
            transport.accept(number, b"%d" % number)
        assert recorder.received == [b"0", b"1", b"2"]

    asyncio.run(main())


def test_a_missing_chunk_ends_after_a_bound() -> None:
    async def main() -> None:
        transport, _ = await made()
        with pytest.raises(OutOfOrder):
            for number in range(1, CHUNKS_AHEAD_MAX + 2):
                transport.accept(number, b"x")

    asyncio.run(main())


def test_what_was_written_is_taken_in_numbered_chunks() -> None:
    async def main() -> None:
        transport, _ = await made()
        transport.writelines([b"a", b"b"])
        transport.write(b"c" * CHUNK_BYTES_MAX)
        assert transport.get_write_buffer_size() == CHUNK_BYTES_MAX + 2
        assert transport.take() == (0, b"ab")
        assert transport.take() == (1, b"c" * CHUNK_BYTES_MAX)
        assert transport.take() == (NO_CHUNK, b"")

    asyncio.run(main())


def test_a_peer_that_takes_nothing_pauses_the_writer() -> None:
    async def main() -> None:
        transport, recorder = await made()
        transport.set_write_buffer_limits(high=10)
        transport.write(b"x" * 11)
        transport.take()
        assert recorder.events == ["change", "pause", "resume"]

    asyncio.run(main())


def test_a_paused_reader_gets_the_chunks_when_it_reads_again() -> None:
    async def main() -> None:
        transport, recorder = await made()
        transport.pause_reading()
        transport.accept(0, b"a")
        assert recorder.received == []
        transport.resume_reading()
        await asyncio.sleep(0)
        assert recorder.received == [b"a"]

    asyncio.run(main())


def test_the_end_is_reported_once() -> None:
    async def main() -> None:
        transport, recorder = await made()
        transport.write(b"left")
        transport.close()
        transport.close()
        assert transport.is_closing() and transport.has_written
        transport.abort()
        transport.end(None)
        await asyncio.sleep(0)
        assert recorder.events == ["change", "close", "lost None"]
        assert not transport.has_written

    asyncio.run(main())
