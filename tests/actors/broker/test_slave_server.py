"""A master's end of its slaves, over real sockets: what they get, and what they count for."""

import asyncio
import socket
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, closing, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.actors.bounded import on_loop
from tests.actors.plans import SEGMENT_BYTES, service_plan
from tests.actors.stores import fill, open_plan_store
from tests.compat.processes import free_port
from wakelog.actors.broker import log_connection, slave_server
from wakelog.actors.broker.slave_server import SlaveServer
from wakelog.actors.transport.service_plan import ServicePlan
from wakelog.broker.replication import shipping
from wakelog.broker.replication.replicas import Replicas
from wakelog.protocol.ha_frames import FrameReader, encode_report
from wakelog.storage.message_store import MessageStore

HELD_BYTES_MAX = 16 << 10
"""What a connection may cost before it is a slave's, and the test's end of it."""


class Progress:
    """The `LogProgress` of a broker, as far as slaves need it."""

    replicated = 0
    syncs_every_turn = False

    def on_replicated(self, physical_offset: int) -> None:
        self.replicated = physical_offset

    def sync_every_turn(self, *, wanted: bool) -> None:
        self.syncs_every_turn = wanted


class Master:
    """A server over a store, and what it reports."""

    def __init__(self, plan: ServicePlan, store: MessageStore) -> None:
        self.store, self._port = store, plan.settings.store.ha_listen_port
        self.progress, self.replicas = Progress(), Replicas(1 << 30)
        progress: Any = self.progress
        self.server = SlaveServer(plan, self.replicas, store, progress)

    def put(self, count: int) -> int:
        """Have more in the log, and let it be shipped."""
        end = fill(self.store, count)
        self.server.on_shippable(end)
        return end

    @property
    def reported(self) -> tuple[int, int]:
        assert self.progress.replicated == self.replicas.replicated
        assert self.progress.syncs_every_turn == (self.replicas.near_count > 0)
        return self.replicas.replicated, self.replicas.near_count

    async def connect(self, report: int | None = None) -> "Slave":
        end = socket.socket()
        end.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(end, ("127.0.0.1", self._port))
        except ConnectionError:
            end.close()
            raise
        slave = Slave(end)
        if report is not None:
            slave.report(report)
        return slave

    def log(self, end: int) -> bytes:
        files = self.store.log.files.files
        return b"".join(file.read(0, SEGMENT_BYTES) for file in files)[:end]

    def number(self, name: str) -> int:
        return int(self.server.statistics()[name])

    async def until_reported(self, replicated: int, near_count: int) -> None:
        await until(lambda: self.reported == (replicated, near_count))


class Slave:
    """The other end."""

    def __init__(self, end: socket.socket) -> None:
        self.end, self.log = end, b""
        self._reader = FrameReader()

    def report(self, offset: int) -> None:
        self.end.send(encode_report(offset))

    async def read(self, size_bytes: int) -> None:
        """Read until it has so much of the log."""
        loop = asyncio.get_running_loop()
        while len(self.log) < size_bytes:
            data = await loop.sock_recv(self.end, 1 << 18)
            assert data, "closed"
            self.log += b"".join(bytes(frame.data) for frame in self._reader.read(data))

    def assert_held(self) -> None:
        """Nothing came, and it is not closed: a 4.9.3 slave would come back at once."""
        with pytest.raises(BlockingIOError):
            self.end.recv(1)

    def close(self) -> None:
        self.end.close()


class SimpleSlave:
    """A connection that reports nothing more. core: what is known of its slave."""

    def __init__(self, core: SimpleNamespace) -> None:
        self.core = core


async def until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0.001)


@asynccontextmanager
async def started(folder: Path, trusted: str = "", **settings: Any) -> AsyncIterator[Master]:
    port = free_port(-2, 1)
    plan = service_plan(folder, listenPort=port, replicationEnable="true", **settings)
    plan = msgspec.structs.replace(plan, trusted_addresses=trusted)
    with open_plan_store(plan) as store:
        master = Master(plan, store)
        master.server.open()
        try:
            yield master
        finally:
            await master.server.close()


@on_loop
async def test_a_slave_gets_what_may_be_shipped_and_acknowledges_it(tmp_path: Path) -> None:
    async with started(tmp_path) as master:
        end = fill(master.store, 1400)
        assert end > 2 * SEGMENT_BYTES
        part = 2 * SEGMENT_BYTES + 5
        master.server.on_shippable(part)
        with closing(await master.connect(1)) as slave:
            await slave.read(part - 1)
            assert slave.log == master.log(part)[1:]
            await master.until_reported(1, 1)
            master.server.on_shippable(end)
            await slave.read(end - 1)
            assert slave.log == master.log(end)[1:]
            assert master.number("behind_bytes_max") == end - 1
            slave.report(end)
            await master.until_reported(end, 1)
            assert master.number("behind_bytes_max") == 0
            assert master.number("sent_bytes") == end - 1
        await master.until_reported(end, 0)
        assert (master.number("slaves_count"), master.number("accepted_count")) == (0, 1)


@on_loop
async def test_what_is_shippable_is_sent_in_the_same_turn(tmp_path: Path) -> None:
    """A send that waits for a slave would wait for each turn in between."""
    async with started(tmp_path) as master:
        with closing(await master.connect(0)) as slave:
            await master.until_reported(0, 1)
            end = master.put(3)
            assert len(slave.end.recv(1 << 16)) > end
            master.server.on_shippable(end)
            slave.assert_held()


@on_loop
async def test_a_bare_connection_and_a_liar_count_for_nothing(tmp_path: Path) -> None:
    async with started(tmp_path) as master:
        end = master.put(5)
        with closing(await master.connect()) as bare, closing(await master.connect(10**12)) as liar:
            await until(lambda: master.number("refused_count") == 1)
            assert master.reported == (0, 0)
            with closing(await master.connect(0)) as slave:
                await slave.read(end)
                await master.until_reported(0, 1)
                liar.report(end)
                slave.report(7)
                await master.until_reported(7, 1)
            liar.assert_held()
            bare.assert_held()


@on_loop
async def test_a_slave_that_lies_later_counts_no_more(tmp_path: Path) -> None:
    async with started(tmp_path) as master:
        with closing(await master.connect(0)) as slave:
            await master.until_reported(0, 1)
            slave.report(10**12)
            await master.until_reported(0, 0)
            master.put(5)
            assert master.number("refused_count") == 1 and master.number("sent_bytes") == 0
            slave.assert_held()


@on_loop
async def test_a_refused_slave_is_closed_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "REFUSAL_HELD_MS", 20)
    async with started(tmp_path) as master:
        with closing(await master.connect(10**12)) as liar:
            with suppress(ConnectionResetError):
                assert await asyncio.get_running_loop().sock_recv(liar.end, 1) == b""
            assert not master.server._slaves


@on_loop
async def test_a_silent_slave_is_closed_and_another_has_heartbeats(tmp_path: Path) -> None:
    async with started(tmp_path, haSendHeartbeatInterval=10, haHousekeepingInterval=300) as master:
        with closing(await master.connect()) as bare, closing(await master.connect(0)) as slave:
            loop = asyncio.get_running_loop()
            assert await loop.sock_recv(slave.end, 12) == bytes(12)
            with suppress(ConnectionResetError):
                assert await loop.sock_recv(bare.end, 1) == b""


@on_loop
async def test_a_slave_that_falls_behind_counts_no_more(tmp_path: Path) -> None:
    async with started(tmp_path, haSlaveFallbehindMax=300) as master:
        with closing(await master.connect(0)) as slave:
            await master.until_reported(0, 1)
            end = master.put(10)
            await master.until_reported(0, 0)
            await slave.read(end)
            slave.report(end - 299)
            await master.until_reported(end - 299, 1)


@on_loop
async def test_a_slave_whose_segment_is_gone_is_closed(tmp_path: Path) -> None:
    async with started(tmp_path) as master:
        master.put(1400)
        first = master.store.log.files.files[0]
        first.release()
        path = Path(first.path)
        path.rename(tmp_path / "aside")
        with closing(await master.connect(1)) as slave:
            with suppress(ConnectionResetError):
                assert await asyncio.get_running_loop().sock_recv(slave.end, 1) == b""
            await until(lambda: not master.server._slaves)
        (tmp_path / "aside").rename(path)


@on_loop
async def test_one_that_fetches_an_old_log_delays_none_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old one's socket is full, and it goes on with what is new by then."""
    monkeypatch.setattr(log_connection, "LOOP_BYTES_MAX", 1 << 12)
    async with started(tmp_path) as master:
        while (end := master.put(1_000)) < 8 << 20:
            pass
        with closing(await master.connect(1)) as old, closing(await master.connect(end)) as near:
            await master.until_reported(end, 2)
            sent_bytes = master.number("sent_bytes")
            assert 0 < sent_bytes < end
            last = master.put(1)
            await near.read(last - end)
            near.report(last)
            await master.until_reported(last, 2)
            await old.read(last - 1)
            assert old.log == master.log(last)[1:]


@on_loop
async def test_a_close_ends_every_connection_and_the_port(tmp_path: Path) -> None:
    async with started(tmp_path) as master:
        with closing(await master.connect(0)) as slave:
            await master.until_reported(0, 1)
            await master.server.close()
            with suppress(ConnectionResetError):
                assert await asyncio.get_running_loop().sock_recv(slave.end, 1) == b""
            with pytest.raises(ConnectionError):
                await master.connect()
            assert master.reported == (0, 0)


@on_loop
async def test_refused_connections_take_no_slaves_place_and_few_are_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slave_server, "SLAVES_MAX", 1)
    monkeypatch.setattr(slave_server, "REFUSED_MAX", 2)
    monkeypatch.setattr(slave_server, "is_this_host", lambda host, local_host: False)
    async with started(tmp_path) as master:
        with ExitStack() as stack:
            strangers = [stack.enter_context(closing(await master.connect())) for _ in range(3)]
            await until(lambda: master.number("refused_count") == 3)
            with suppress(ConnectionResetError):
                assert await asyncio.get_running_loop().sock_recv(strangers[2].end, 1) == b""
            monkeypatch.setattr(slave_server, "is_this_host", lambda host, local_host: True)
            stack.enter_context(closing(await master.connect(0)))
            await master.until_reported(0, 1)
            for held in strangers[:2]:
                held.assert_held()
            stack.enter_context(closing(await master.connect(0)))
            await until(lambda: master.number("refused_count") == 4)
            assert master.reported == (0, 1), "more slaves than there may be"


@on_loop
async def test_connections_that_are_held_cost_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slave_server, "is_this_host", lambda host, local_host: False)
    count = slave_server.REFUSED_MAX
    async with started(tmp_path) as master:
        with ExitStack() as stack:
            tracemalloc.start()
            stack.callback(tracemalloc.stop)
            for _ in range(count):
                stack.enter_context(closing(await master.connect()))
            await until(lambda: master.number("refused_count") == count)
            held_bytes, _ = tracemalloc.get_traced_memory()
        assert held_bytes < count * HELD_BYTES_MAX


@pytest.mark.parametrize(("trusted", "is_let_in"), [("", False), ("127.0.0.*", True)])
@on_loop
async def test_another_host_reads_the_log_only_if_it_is_trusted(
    tmp_path: Path, trusted: str, is_let_in: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slave_server, "is_this_host", lambda host, local_host: False)
    async with started(tmp_path, trusted) as master:
        end = master.put(10)
        with closing(await master.connect(1)) as slave:
            if is_let_in:
                await slave.read(end - 1)
                assert slave.log == master.log(end)[1:]
                await master.until_reported(1, 1)
            else:
                await until(lambda: master.number("refused_count") == 1)
                assert master.reported == (0, 0) and master.number("sent_bytes") == 0


@pytest.mark.parametrize(
    ("acked", "replicated", "near_count"),
    [
        ([], 0, 0), ([1_000], 1_000, 1), ([901], 901, 1), ([900], 900, 0), ([899, 901], 901, 1),
        ([None], 0, 0), ([950, None, 1_000, 0], 1_000, 2),
    ],
)  # fmt: skip
@on_loop
async def test_a_slave_is_near_below_so_many_bytes(
    tmp_path: Path, acked: list[int | None], replicated: int, near_count: int
) -> None:
    plan = service_plan(tmp_path, haSlaveFallbehindMax=100)
    with open_plan_store(plan) as store:
        master = Master(plan, store)
        master.server.on_shippable(1_000)
        cores = [SimpleNamespace(acked=one, counts=True) for one in acked]
        refused = SimpleNamespace(acked=5_000, counts=False)
        slaves: Any = {SimpleSlave(core) for core in [*cores, refused]}
        master.server._slaves = slaves
        master.server.on_reported()
        assert master.reported == (replicated, near_count)
