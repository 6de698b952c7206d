"""The Broker's client for Replication: what it is told, and the slaves that it sends to itself."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, closing
from functools import partial
from pathlib import Path

import pytest

from tests.actors.bounded import SECONDS_MAX, on_loop
from tests.actors.plans import notified_plan
from tests.actors.replicas import wait_until
from tests.actors.services.fakes import (
    EPOCH,
    Events,
    FakeCalls,
    attached,
    broker_context,
    make_watermarks,
    stop_clients,
)
from tests.actors.stores import attached_service, fill
from tests.compat.processes import free_port
from wakelog.actors.services import replication_client
from wakelog.actors.services.client import BrokerContext, ServiceHandle
from wakelog.actors.services.replication import ReplicationService
from wakelog.actors.services.replication_client import TAKEN_MAX, ReplicationClient
from wakelog.actors.services.service import ServiceHost
from wakelog.actors.transport.notifications import NotificationSocket
from wakelog.actors.transport.shared_watermarks import SharedWatermark, SharedWatermarks
from wakelog.protocol.ha_frames import FrameReader, encode_report
from wakelog.storage.file_system import FileSystem
from wakelog.storage.message_store import MessageStore


@on_loop
async def test_the_client_asks_by_reference_and_counts_none_when_the_service_is_lost() -> None:
    asked: list[tuple[object, ...]] = []

    def exchange(_epoch: int, *known: object) -> tuple[int, int]:
        asked.append(known)
        return (60, 1) if len(asked) < 3 else (100, 1)

    events = Events()
    context = broker_context()
    client = await attached(client_of(FakeCalls(exchange=exchange), context, events))
    client.note_shippable(100)
    while (100, 1) not in events.replicas:
        await asyncio.sleep(0.001)
    assert asked[-1] == (100, 60, 1, replication_client.EXCHANGE_SECONDS)
    client.on_lost()
    assert events.replicas[-1] == (100, 0)
    await client.stop_work()
    await client.stop()


@on_loop
async def test_progress_comes_by_watermark(tmp_path: Path) -> None:
    shared = make_watermarks(tmp_path / "watermarks")
    with closing(shared):
        events = Events()
        context = broker_context(directory=tmp_path, watermarks=shared)
        client = await attached(client_of(FakeCalls(), context, events))
        shared.set(SharedWatermark.REPLICATED, 70)
        shared.replace(SharedWatermark.SLAVES, 2)
        for read in context.watermark_readers:
            read()
        shared.replace(SharedWatermark.SLAVES, 0)
        for read in context.watermark_readers:
            read()
        assert events.replicas == [(70, 2), (70, 0)]
        await stop_clients(context, client)


def client_of(calls: FakeCalls, context: BrokerContext, events: Events) -> ReplicationClient:
    return ReplicationClient(
        ServiceHandle("replication", calls, context), on_replicated=events.replicated
    )


class Master:
    """A Broker's client with the service, each on a loop of its own, over one store."""

    def __init__(
        self,
        service: ServiceHost[ReplicationService],
        store: MessageStore,
        page: SharedWatermarks,
        port: int,
    ) -> None:
        self.service, self.store, self.page, self.port = service, store, page, port
        self.events = Events()
        plan = service.plan
        self.context = BrokerContext(plan, FileSystem(), store, epoch=EPOCH, watermarks=page)

    async def start(self) -> None:
        self.client = await attached(client_of(FakeCalls(), self.context, self.events))

    async def until(self, true: Callable[[], bool]) -> None:
        """Read what the service reports until something is so; it is noted at every look."""
        while not true():
            for read in self.context.watermark_readers:
                read()
            await asyncio.sleep(0.001)

    def put(self, count: int) -> int:
        """Have more in the log, and ship it."""
        end = fill(self.store, count)
        self.page.set(SharedWatermark.APPENDED, end)
        self.page.set(SharedWatermark.COMMITTED, end)
        self.client.note_shippable(end)
        return end

    async def connect(self, report: int) -> "Slave":
        slave = Slave(socket.create_connection(("127.0.0.1", self.port)))
        slave.report(report)
        return slave

    def has_taken_all(self, count: int) -> bool:
        """Return whether the Broker has so many slaves, and knows that the service has none."""
        left_count = self.page.get(SharedWatermark.SLAVES)
        return not left_count and self.taken_count == count == self.events.replicas[-1][1]

    @property
    def taken_count(self) -> int:
        return self.page.get(SharedWatermark.TAKEN)


class Slave:
    """The other end."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self.end, self.received_bytes = end, 0
        self._reader = FrameReader()

    def report(self, offset: int) -> None:
        self.end.send(encode_report(offset))

    async def read(self, size_bytes: int) -> None:
        loop = asyncio.get_running_loop()
        while self.received_bytes < size_bytes:
            data = await loop.sock_recv(self.end, 1 << 18)
            assert data, "closed"
            self.received_bytes += sum(len(frame.data) for frame in self._reader.read(data))


@asynccontextmanager
async def started(folder: Path, *, ack_durable: str = "false") -> AsyncIterator[Master]:
    port = free_port(-2, 1)
    plan = notified_plan(
        folder, listenPort=port, brokerRole="SYNC_MASTER", haAckDurable=ack_durable
    )
    with (
        closing(make_watermarks(plan.watermarks_path)) as page,
        closing(NotificationSocket(plan.socket_path("broker"))),
        attached_service(ReplicationService, plan) as (service, store),
    ):
        master = Master(service, store, page, port + 1)
        await master.start()
        try:
            yield master
        finally:
            await stop_clients(master.context, master.client)


@on_loop
async def test_a_slave_at_the_end_is_sent_to_by_the_broker_and_never_counts_as_gone(
    short_path: Path,
) -> None:
    async with started(short_path) as master:
        end = master.put(20)
        slave = await master.connect(1)
        with closing(slave.end):
            await slave.read(end - 1)
            await master.until(lambda: master.has_taken_all(1))
            end = master.put(5)
            await slave.read(end - 1)
            slave.report(end)
            await master.until(lambda: master.events.replicas[-1] == (end, 1))
            counts = [near_count for _, near_count in master.events.replicas]
            assert 0 not in counts[counts.index(1) :]
            counters = master.service.statistics()
            assert counters["slaves_count"] == 1 and counters["behind_bytes_max"] == 0
            assert counters["sent_bytes"] == end - 1
        await master.until(lambda: master.events.replicas[-1] == (end, 0))
        assert master.taken_count == 0 and master.service.statistics()["slaves_count"] == 0


@on_loop
async def test_a_slow_slave_is_handed_back_and_comes_again(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replication_client, "UNSENT_BYTES_MAX", 1 << 16)
    async with started(short_path) as master:
        slave = await master.connect(0)
        with closing(slave.end):
            await master.until(lambda: master.taken_count == 1)
            while master.taken_count:
                end = master.put(1_000)
            await master.until(lambda: master.events.replicas[-1] == (0, 1))
            await slave.read(end)
            slave.report(end)
            await master.until(lambda: master.events.replicas[-1] == (end, 1))
            await master.until(lambda: master.taken_count == 1)
            counts = [near_count for _, near_count in master.events.replicas]
            assert 0 not in counts[counts.index(1) :]


@on_loop
async def test_a_liar_is_handed_back_and_counts_for_nothing(short_path: Path) -> None:
    async with started(short_path) as master:
        slave = await master.connect(0)
        with closing(slave.end):
            await master.until(lambda: master.taken_count == 1)
            slave.report(10**12)
            await master.until(lambda: master.events.replicas[-1] == (0, 0))
            assert master.taken_count == 0
            await master.until(lambda: master.service.statistics()["refused_count"] == 1)


@on_loop
async def test_slaves_that_come_at_once_are_handed_back_if_they_are_too_many(
    short_path: Path,
) -> None:
    count = TAKEN_MAX + 2
    async with started(short_path) as master:
        end = master.put(20)
        with ExitStack() as stack:
            slaves = [await master.connect(1) for _ in range(count)]
            for slave in slaves:
                stack.enter_context(closing(slave.end))
            counters = master.service.statistics
            wait_until(  # while the Broker's loop has no turn
                lambda: (
                    counters()["accepted_count"] == count and not master.service.attached.slaves
                ),
                "all are handed over",
            )
            await master.until(lambda: len(master.service.attached.slaves) == count - TAKEN_MAX)
            await master.until(lambda: master.events.replicas[-1] == (1, count))
            assert master.taken_count == TAKEN_MAX
            end = master.put(5)
            for slave in slaves:
                await slave.read(end - 1)
                slave.report(end)
            await master.until(lambda: master.service.statistics()["behind_bytes_max"] == 0)
            assert master.events.replicas[-1] == (end, count)


@on_loop
async def test_a_broker_that_stops_closes_what_it_has(short_path: Path) -> None:
    async with started(short_path) as master:
        slave = await master.connect(0)
        with closing(slave.end):
            await master.until(lambda: master.taken_count == 1)
            await master.client.stop_work()
            assert master.taken_count == 0
            assert await asyncio.get_running_loop().sock_recv(slave.end, 1) == b""
            master.client.on_lost()
            assert master.events.replicas[-1] == (0, 0)


@on_loop
async def test_a_slave_that_is_on_its_way_back_counts_for_a_while_only(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replication_client, "RETURNED_SECONDS", 0.01)
    monkeypatch.setattr(replication_client, "UNSENT_BYTES_MAX", -1)
    async with started(short_path) as master:
        slave = await master.connect(0)
        with closing(slave.end):
            await master.until(lambda: master.has_taken_all(1))
            page = master.service.attached._watermarks
            master.service.attached._watermarks = None  # it reports nothing any more
            while master.taken_count:
                master.put(1_000)
            assert master.events.replicas[-1] == (0, 1)
            await master.until(lambda: master.events.replicas[-1] == (0, 0))
            master.service.attached._watermarks = page


@on_loop
async def test_a_slave_that_dies_on_its_way_back_counts_no_more(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replication_client, "RETURNED_SECONDS", 10 * SECONDS_MAX)
    monkeypatch.setattr(replication_client, "UNSENT_BYTES_MAX", -1)
    async with started(short_path) as master:
        slave = await master.connect(0)
        with closing(slave.end):
            await master.until(lambda: master.has_taken_all(1))
            slave.end.shutdown(socket.SHUT_WR)
            while master.taken_count:  # the Broker's loop has no turn, and does not see the end
                master.put(1_000)
            assert master.events.replicas[-1] == (0, 1)
            was_taken = partial(master.page.get, SharedWatermark.RETURNED)
            wait_until(lambda: was_taken() and not master.service.attached.slaves, "it has died")
            await master.until(lambda: master.events.replicas[-1] == (0, 0))


@on_loop
async def test_a_slave_is_taken_before_the_broker_knows_what_flush_has_done(
    short_path: Path,
) -> None:
    async with started(short_path, ack_durable="true") as master:
        end = fill(master.store, 20)
        for word in (SharedWatermark.APPENDED, SharedWatermark.COMMITTED, SharedWatermark.FLUSHED):
            master.page.set(word, end)
        slave = await master.connect(1)
        with closing(slave.end):
            await slave.read(end - 1)
            await master.until(lambda: master.taken_count == 1)


@on_loop
async def test_what_the_broker_has_synced_itself_is_sent_once_flush_reports_it(
    short_path: Path,
) -> None:
    async with started(short_path, ack_durable="true") as master:
        slave = await master.connect(0)
        with closing(slave.end):
            await master.until(lambda: master.taken_count == 1)
            end = master.put(20)
            assert master.client.log_range().end == 0
            assert master.page.get(SharedWatermark.TAKEN_SENT) == 0
            master.page.set(SharedWatermark.FLUSHED, end)
            await master.until(lambda: master.page.get(SharedWatermark.TAKEN_SENT) == end)
            await slave.read(end)
            assert master.taken_count == 1


@on_loop
async def test_a_service_that_begins_counts_no_slave_of_the_process_before(
    short_path: Path,
) -> None:
    plan = notified_plan(short_path, listenPort=free_port(-2, 1), brokerRole="SYNC_MASTER")
    with (
        closing(make_watermarks(plan.watermarks_path)) as page,
        closing(NotificationSocket(plan.socket_path("broker"))),
    ):
        page.replace(SharedWatermark.SLAVES, 1)
        with attached_service(ReplicationService, plan):
            assert page.get(SharedWatermark.SLAVES) == 0
