"""One connection of a slave: a full socket, a closed one, and the way to another process."""

import asyncio
import errno
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from unittest import mock

import pytest

from tests.actors.bounded import on_loop
from wakelog.actors.services.slave_connection import (
    Handover,
    SlaveConnection,
    adopt_slave,
    shipping_buffer,
)
from wakelog.actors.transport.descriptors import DescriptorReceiver, descriptor_path
from wakelog.broker.replication.shipping import LogRange, ShippingSettings, ShippingState
from wakelog.protocol.ha_frames import FrameReader, encode_report
from wakelog.storage.errors import StoreFailed
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.mapped_file import MappedFile

SEGMENT_BYTES = 1 << 22


class Host:
    """A log of one segment, and what a connection has reported of itself."""

    settings = ShippingSettings()
    buffer = shipping_buffer(1)

    def __init__(self, folder: Path) -> None:
        self.bytes = bytes(range(251)) * (SEGMENT_BYTES // 251 + 1)
        path = folder / "segment"
        path.write_bytes(self.bytes[:SEGMENT_BYTES])
        self.file: MappedFile | None = MappedFile(
            FileSystem(), str(path), start_offset=0, size_bytes=SEGMENT_BYTES
        )
        self.reading = ThreadPoolExecutor(1)
        self.end = SEGMENT_BYTES
        self.said: list[str] = []
        self.sent_bytes = 0

    def log_range(self) -> LogRange:
        return LogRange(0, self.end, SEGMENT_BYTES)

    def find(self, offset: int) -> MappedFile | None:
        return self.file

    def note_sent(self, size_bytes: int) -> None:
        self.sent_bytes += size_bytes

    def note_gone(self) -> None:
        self.said.append("gone")

    def note_refused(self, slave: SlaveConnection) -> None:
        self.said.append("refused")

    def note_reported(self, slave: SlaveConnection) -> None:
        self.said.append("reported")

    def settle(self, slave: SlaveConnection, log: LogRange) -> None:
        assert log == self.log_range()

    def forget(self, slave: SlaveConnection) -> None:
        self.said.append("closed")


class Slave:
    """The other end of a connection."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        end.setblocking(False)
        self._reader, self.log = FrameReader(), b""

    async def read(self, size_bytes: int) -> None:
        """Read until it has so much of the log."""
        loop = asyncio.get_running_loop()
        while len(self.log) < size_bytes:
            data = await loop.sock_recv(self.end, 1 << 18)
            assert data, "closed"
            self.log += b"".join(bytes(frame.data) for frame in self._reader.read(data))


@contextmanager
def connected(host: Host) -> Iterator[tuple[Slave, SlaveConnection]]:
    """Yield both ends of a connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        other = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
    with closing(other):
        yield Slave(other), SlaveConnection(host, accepted, "slave")


@pytest.mark.parametrize("frames_count", [1, 3, 8])
@on_loop
async def test_a_slow_slave_gets_everything(tmp_path: Path, frames_count: int) -> None:
    host = Host(tmp_path)
    host.buffer = shipping_buffer(frames_count)
    with connected(host) as (slave, connection):
        connection.begin()
        slave.end.send(encode_report(1))
        while not connection.is_full:
            await asyncio.sleep(0)
        assert host.sent_bytes < host.end - 1
        await slave.read(host.end - 1)
        assert slave.log == host.bytes[1:SEGMENT_BYTES] and host.sent_bytes == host.end - 1
        connection.close()
        connection.close()
        connection.ship()
        assert host.said == ["reported", "closed"]
        assert slave.end.recv(1) == b""


@on_loop
async def test_a_refused_slave_gets_nothing_and_is_closed_late(tmp_path: Path) -> None:
    host = Host(tmp_path)
    with connected(host) as (slave, connection):
        connection.begin()
        slave.end.send(encode_report(SEGMENT_BYTES + 1))
        while not host.said:
            await asyncio.sleep(0)
        assert host.said == ["refused", "reported"] and host.sent_bytes == 0
        connection.core = connection.core.resumed(
            host.settings, connection.core.state._replace(refused_ms=0)
        )
        connection.ship()
        assert host.said[-1] == "closed"


@on_loop
async def test_a_connection_ends_with_its_slave_or_its_segment(tmp_path: Path) -> None:
    host = Host(tmp_path)
    with connected(host) as (slave, connection):
        connection.begin()
        slave.end.close()
        while not host.said:
            await asyncio.sleep(0)
        assert host.said == ["closed"]
    host.said, host.file = [], None
    with connected(host) as (slave, connection):
        connection.begin()
        slave.end.send(encode_report(1))
        while "closed" not in host.said:
            await asyncio.sleep(0)
        assert host.said == ["reported", "gone", "closed"]


@on_loop
async def test_another_process_goes_on_in_the_middle_of_a_frame(
    short_path: Path, tmp_path: Path
) -> None:
    host = Host(tmp_path)
    with connected(host) as (slave, connection):
        connection.begin()
        assert not connection.hand_over(str(short_path), "other"), "nobody is there"
        path = descriptor_path(str(short_path), "other")
        with closing(DescriptorReceiver(path, Handover)) as receiver:
            slave.end.send(encode_report(1))
            while not connection.is_full:
                await asyncio.sleep(0)
            assert connection.hand_over(str(short_path), "other")
            assert not connection.hand_over(str(short_path), "other"), "it has gone"
            [(handover, descriptor)] = receiver.drain()
        assert handover.unsent and handover.state.position < SEGMENT_BYTES
        other = Host(tmp_path)
        taken = adopt_slave(other, handover, descriptor)
        assert taken is not None
        taken.begin()
        await slave.read(SEGMENT_BYTES - 1)
        assert slave.log == host.bytes[1:SEGMENT_BYTES]
        slave.end.send(encode_report(SEGMENT_BYTES))
        while taken.core.acked != SEGMENT_BYTES:
            await asyncio.sleep(0)
        assert host.said == ["reported"], "it was not closed, only handed over"
        taken.close()


@on_loop
async def test_a_connection_that_was_sent_more_than_this_log_has_is_closed(tmp_path: Path) -> None:
    host = Host(tmp_path)
    here, there = socket.socketpair()
    with closing(there):
        handover = Handover(ShippingState(1, host.end + 1, 0, 0), "slave", b"")
        assert adopt_slave(host, handover, here.detach()) is None
        assert there.recv(1) == b""


@on_loop
async def test_a_connection_that_cannot_be_taken_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(tmp_path)
    failed = StoreFailed(str(tmp_path), "list", OSError(errno.EMFILE, "Too many open files"))
    monkeypatch.setattr(host, "log_range", mock.Mock(side_effect=failed))
    here, there = socket.socketpair()
    with closing(there):
        there.setblocking(False)
        handover = Handover(ShippingState(1, 1, 0, 0), "slave", b"")
        assert adopt_slave(host, handover, here.detach()) is None
        assert there.recv(1) == b""
