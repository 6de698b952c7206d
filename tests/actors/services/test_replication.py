"""Replication's shell: slaves over real sockets; what it reports by watermark and by reference."""

import socket
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.actors.bounded import on_loop
from tests.actors.plans import SEGMENT_BYTES, service_plan
from tests.actors.services.fakes import (
    EPOCH,
    attach_request,
)
from tests.actors.stores import attached_service, fill, known_of, make_service
from tests.compat.processes import free_port
from wakelog.actors.services import replication
from wakelog.actors.services.replication import ReplicationService
from wakelog.actors.services.service import ServiceHost
from wakelog.actors.services.session import Refused
from wakelog.protocol.ha_frames import FrameReader, encode_report
from wakelog.storage.message_store import MessageStore

WAIT_SECONDS_MAX = 30.0

HELD_BYTES_MAX = 16 << 10
"""What a connection may cost before it is a slave's, and the test's end of it."""


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_SECONDS_MAX
    while not true():
        assert time.monotonic() < end
        time.sleep(0.002)


class Master:
    """An attached service over a store, by reference."""

    def __init__(
        self, service: ServiceHost[ReplicationService], store: MessageStore, port: int
    ) -> None:
        self.service, self.store, self._port = service, store, port

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._port), WAIT_SECONDS_MAX)

    def exchange(self, durable: int, *known: int, wait_seconds: float = 0.0) -> tuple[int, ...]:
        known = known or (0, 0)
        found = self.service.call(EPOCH, "exchange", durable, *known, wait_seconds)
        return tuple(found)

    def log(self, end: int) -> bytes:
        files = self.store.log.files.files
        return b"".join(file.read(0, SEGMENT_BYTES) for file in files)[:end]


@pytest.fixture
def master(tmp_path: Path) -> Iterator[Master]:
    with started(tmp_path) as found:
        yield found


@contextmanager
def started(folder: Path, trusted: str = "", **settings: Any) -> Iterator[Master]:
    port = free_port(-2, 1)
    plan = service_plan(folder, listenPort=port, replicationEnable="true", **settings)
    plan = msgspec.structs.replace(plan, trusted_addresses=trusted)
    with attached_service(ReplicationService, plan) as (service, store):
        yield Master(service, store, port + 1)


def receive(slave: socket.socket, size_bytes: int) -> bytes:
    """Return so much of the log."""
    reader, found = FrameReader(), b""
    while len(found) < size_bytes:
        data = slave.recv(1 << 16)
        assert data, "closed"
        for frame in reader.read(data):
            found += frame.data
    return found


def test_a_slave_gets_what_is_durable_and_acknowledges_it(master: Master) -> None:
    end = fill(master.store, 1400)
    assert end > 2 * SEGMENT_BYTES
    part = 2 * SEGMENT_BYTES + 5
    assert master.exchange(part) == (0, 0)
    with closing(master.connect()) as slave:
        slave.sendall(encode_report(1))
        assert receive(slave, part - 1) == master.log(part)[1:]
        assert master.exchange(part) == (1, 1)
        master.exchange(end)
        assert receive(slave, end - part) == master.log(end)[part:]
        slave.sendall(encode_report(end))
        until(lambda: master.exchange(end) == (end, 1))
        assert master.service.statistics()["behind_bytes_max"] == 0
    until(lambda: master.exchange(end) == (end, 0))
    statistics = master.service.statistics()
    assert (statistics["slaves_count"], statistics["accepted_count"]) == (0, 1)


def test_a_bare_connection_and_a_liar_count_for_nothing(master: Master) -> None:
    end = fill(master.store, 5)
    master.exchange(end)
    with closing(master.connect()) as bare, closing(master.connect()) as liar:
        liar.sendall(encode_report(10**12))
        until(lambda: master.service.statistics()["refused_count"] == 1)
        assert master.exchange(end) == (0, 0)
        with closing(master.connect()) as slave:
            slave.sendall(encode_report(0))
            receive(slave, end)
            assert master.exchange(end) == (0, 1)
            liar.sendall(encode_report(end))
            slave.sendall(encode_report(7))
            until(lambda: master.exchange(end) == (7, 1))
        liar.setblocking(False)
        with pytest.raises(BlockingIOError):
            liar.recv(1)  # nothing, and it is not closed: a 4.9.3 slave would come back at once
        bare.setblocking(False)
        with pytest.raises(BlockingIOError):
            bare.recv(1)


def test_a_slave_that_falls_behind_counts_no_more(tmp_path: Path) -> None:
    with (
        started(tmp_path, haSlaveFallbehindMax=300) as master,
        closing(master.connect()) as slave,
    ):
        slave.sendall(encode_report(0))
        until(lambda: master.exchange(0) == (0, 1))
        end = fill(master.store, 10)
        until(lambda: master.exchange(end) == (0, 0))
        slave.sendall(encode_report(end - 299))
        until(lambda: master.exchange(end) == (end - 299, 1))


def test_an_exchange_waits_for_an_acknowledgement_and_not_for_long(master: Master) -> None:
    end = fill(master.store, 1)
    assert master.exchange(end, wait_seconds=0.01) == (0, 0)
    with closing(master.connect()) as slave:
        slave.sendall(encode_report(0))
        receive(slave, end)
        until(lambda: master.exchange(end) == (0, 1))
        slave.sendall(encode_report(end))
        assert master.exchange(end, 0, 1, wait_seconds=WAIT_SECONDS_MAX) == (end, 1)


def test_a_release_closes_every_connection_and_the_port(master: Master) -> None:
    with closing(master.connect()) as slave:
        slave.sendall(encode_report(0))
        until(lambda: master.exchange(0) == (0, 1))
        master.service.release()
        with pytest.raises(ConnectionError):
            while slave.recv(1 << 16):
                pass
            raise ConnectionError
        with pytest.raises(ConnectionError):
            master.connect()
        master.service.attach(known_of(master.store))
        master.connect().close()


@on_loop
async def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    port = free_port(-2, 1)
    plan = service_plan(tmp_path, listenPort=port, replicationEnable="true")
    service = make_service(ReplicationService, plan)
    with (
        socket.create_server(("127.0.0.1", port + 1)),
        pytest.raises(Refused, match=f"port {port + 1} for slaves"),
    ):
        service.attach(dict(msgspec.to_builtins(attach_request())))
    assert service.statistics() == {}


def test_more_slaves_than_there_may_be_are_refused(
    master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replication, "SLAVES_MAX", 1)
    with closing(master.connect()) as first:
        first.sendall(encode_report(0))
        until(lambda: master.exchange(0) == (0, 1))
        with closing(master.connect()) as second:
            second.sendall(encode_report(0))
            until(lambda: master.service.statistics()["refused_count"] == 1)
            assert master.exchange(0) == (0, 1)


def test_refused_connections_take_no_slaves_place_and_few_are_held(
    master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replication, "SLAVES_MAX", 1)
    monkeypatch.setattr(replication, "REFUSED_MAX", 2)
    monkeypatch.setattr(replication, "is_this_host", lambda host, local_host: False)
    with ExitStack() as stack:
        strangers = [stack.enter_context(closing(master.connect())) for _ in range(3)]
        until(lambda: master.service.statistics()["refused_count"] == 3)
        strangers[2].settimeout(WAIT_SECONDS_MAX)
        with suppress(ConnectionResetError):
            assert strangers[2].recv(1) == b""
        monkeypatch.setattr(replication, "is_this_host", lambda host, local_host: True)
        slave = stack.enter_context(closing(master.connect()))
        slave.sendall(encode_report(0))
        until(lambda: master.exchange(0) == (0, 1))
        for held in strangers[:2]:
            held.setblocking(False)
            with pytest.raises(BlockingIOError):
                held.recv(1)


def test_connections_that_are_held_cost_little_memory(
    master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replication, "is_this_host", lambda host, local_host: False)
    count = replication.REFUSED_MAX
    with ExitStack() as stack:
        tracemalloc.start()
        stack.callback(tracemalloc.stop)
        for _ in range(count):
            stack.enter_context(closing(master.connect()))
        until(lambda: master.service.statistics()["refused_count"] == count)
        held_bytes, _ = tracemalloc.get_traced_memory()
    assert held_bytes < count * HELD_BYTES_MAX


@pytest.mark.parametrize(("trusted", "is_let_in"), [("", False), ("127.0.0.*", True)])
def test_another_host_reads_the_log_only_if_it_is_trusted(
    tmp_path: Path, trusted: str, is_let_in: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replication, "is_this_host", lambda host, local_host: False)
    with started(tmp_path, trusted) as master:
        end = fill(master.store, 10)
        master.exchange(end)
        with closing(master.connect()) as slave:
            slave.sendall(encode_report(1))
            if is_let_in:
                assert receive(slave, end - 1) == master.log(end)[1:]
            else:
                until(lambda: master.service.statistics()["refused_count"] == 1)
            assert master.exchange(end) == ((1, 1) if is_let_in else (0, 0))
            sent_bytes = master.service.statistics()["sent_bytes"]
            assert sent_bytes == (end - 1 if is_let_in else 0)
