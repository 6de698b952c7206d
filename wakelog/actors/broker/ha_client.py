"""HaClient: the Broker of a slave as a client of its master.

It finds the master by `haMasterAddress`, or as the name server's response to a registration says.
It asks for the master's settings and the ends of its log, compares, connects, and appends what
comes. The Broker stays the only writer of its log. Beside that it copies the tables.

It decides nothing about bytes: `broker.replication.replica_fetch` does.

Source: org.apache.rocketmq.store.ha.HAService.HAClient,
org.apache.rocketmq.broker.slave.SlaveSynchronize (4.9.3).
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, cast

from wakelog.actors.broker.log_progress import LogProgress
from wakelog.actors.broker.member import GroupRun
from wakelog.actors.broker.name_servers import master_addresses
from wakelog.actors.broker.opening import is_log_empty
from wakelog.actors.broker.work_pool import WorkPool
from wakelog.actors.transport.clocks import steady_ms, wall_ms
from wakelog.actors.transport.timer import Timer
from wakelog.broker.broker import Broker
from wakelog.broker.config_file import BrokerSettings
from wakelog.broker.decision import Persist
from wakelog.broker.replication.ha_client_state import (
    FetchEnded,
    HaClientSettings,
    HaClientState,
    check_log,
    overlap_begin,
)
from wakelog.broker.replication.master import (
    MasterAddress,
    MasterFacts,
    read_ends,
    read_facts,
)
from wakelog.broker.replication.table_sync import (
    FIRST_SECONDS,
    MEMBER_SECONDS_MIN,
    PERIOD_SECONDS,
    TableSync,
    locks_request,
    next_pause_seconds,
)
from wakelog.network.background import keep, log_failure
from wakelog.network.client import RemotingClient
from wakelog.network.errors import RemotingError
from wakelog.protocol.bodies import HeldLocks, decode_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, make_request
from wakelog.protocol.errors import ProtocolError
from wakelog.protocol.steps import batched
from wakelog.storage.errors import NotWriteable, StoreError
from wakelog.storage.file_system import FileSystem
from wakelog.storage.message_store import MessageStore
from wakelog.telemetry.logs import Log, logger

PAUSE_SECONDS: Final = (1.0, 5.0)
"""Between two connections, at random, so that slaves do not come back together."""

CONNECT_SECONDS_MAX: Final = 5.0
ASK_MS_MAX: Final = 3_000

RECEIVE_BYTES: Final = 1 << 20
"""What is read of a master at once: each turn writes to the log, and asks for a sync."""

UNSYNCED_BYTES_MAX: Final = 256 << 20
"""A slave whose disk is slower than the network stops reading until it has caught up.

As much as a slave may lack that still counts as near (haSlaveFallbehindMax).
"""


OFFERS_AT_ONCE_MAX: Final = 512
"""Commits that are offered to a master beside each other: it answers them when they are saved."""


async def log_begin(
    settings: BrokerSettings, fs: FileSystem, client: RemotingClient, pool: WorkPool
) -> int:
    """Return where the log of a slave that has none yet begins: where its master's does.

    0 for any other broker, and if no master answers. The segments before are gone for good.
    """
    store, broker = settings.store, settings.broker
    if store.appends or not await pool.submit(partial(is_log_empty, fs, store)):
        return 0
    if store.ha_master_address:
        addresses = [MasterAddress.of(store.ha_master_address).broker]
    else:
        addresses = await master_addresses(broker, client)
    for address in addresses:
        request = make_request(RequestCode.GET_BROKER_RUNTIME_INFO, {}, opaque=0)
        try:
            response = await client.invoke(address, request, timeout_ms=ASK_MS_MAX)
            return read_ends(response.body)[0]
        except (RemotingError, ProtocolError, KeyError, ValueError):
            continue
    return 0


class HaClient:
    """Follows until `stop`. One loop's thread.

    cause: why nothing is copied now, "" while something is.
    """

    def __init__(
        self,
        broker: Broker,
        store: MessageStore,
        progress: LogProgress,
        client: RemotingClient,
        pool: WorkPool,
        *,
        end_turn: Callable[[], None],
        follow_deleted: Callable[[Mapping[str, int]], Awaitable[str]],
        member: GroupRun | None = None,
    ) -> None:
        """Do nothing yet.

        follow_deleted: has Reput follow the master's deletions; returns why not, "" if it has.
        end_turn: writes what was placed, and carries out instructions.
        member: of a group with a register, which copies the log; then this copies tables alone.
        """
        self.store, self.progress, self.end_turn = store, progress, end_turn
        self._broker = broker
        self._follow_deleted = follow_deleted
        self._member = member
        self._client = client
        self._pool = pool
        self._sync = TableSync(broker.replace, broker.state.offsets, broker.state.slave_commits)
        self._random = random.Random()
        self._connection: _MasterConnection | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._connected_count = self._received_bytes = 0
        self.cause = "not connected yet"
        self._log = logger(Log.STORE)

    def start(self) -> None:
        """Begin."""
        if self._member is not None or self.store.config.ha_ack_durable:
            self.progress.sync_every_turn(wanted=True)  # a report is of what is durable
        self._tasks = [keep(self._copy_tables, log_failure(self._log, "tables"))]
        if self._member is None:
            self._tasks.append(keep(self._follow, log_failure(self._log, "following")))

    async def stop(self) -> None:
        """Append nothing more."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    @property
    def acknowledged(self) -> int:
        """How far the log may be reported to a master."""
        progress = self.progress
        return progress.flushed if self.store.config.ha_ack_durable else progress.appended

    def on_flushed(self, _physical_offset: int) -> None:
        """Report to the master what is durable now."""
        if self._connection is not None:
            self._connection.work()

    def statistics(self) -> dict[str, Any]:
        """Return counters."""
        connection = self._connection
        received = 0 if connection is None else connection.core.received_bytes
        return {
            "is_connected": connection is not None,
            "connected_count": self._connected_count,
            "received_bytes": self._received_bytes + received,
            "tables_copied_count": self._sync.copied_count,
        }

    @property
    def _master(self) -> MasterAddress | None:
        if self._member is not None:
            return self._member.master
        configured = self.store.config.ha_master_address
        return MasterAddress.of(configured) if configured else self._broker.state.master

    async def _follow(self) -> None:
        while True:
            try:
                cause = await self._follow_once()
            except (FetchEnded, NotWriteable) as error:
                cause = str(error)
            except (OSError, TimeoutError, RemotingError, ProtocolError, StoreError) as error:
                cause = f"the master cannot be followed: {error!r}"
            if cause != self.cause:
                self.cause = cause
                self._log.warning("not following", cause=cause)
            await asyncio.sleep(self._random.uniform(*PAUSE_SECONDS))

    async def _follow_once(self) -> str:
        """Follow until that ends; return why."""
        master = self._master
        if master is None:
            return "no master is known: no name server has one by this broker's name"
        facts = await self._facts(master)
        config, end = self.store.config, self.store.log.end_offset
        if cause := facts.mismatch(self._broker.state.config):
            raise FetchEnded(cause, is_mismatch=True)
        check_log(end, config.commit_log_file_bytes, facts.log)
        begin = overlap_begin(self.store.min_physical_offset, end, facts.log)
        overlap = await self._pool.submit(partial(self._read, begin, end))
        settings = HaClientSettings(
            config.ha_send_heartbeat_interval_ms, config.ha_housekeeping_interval_ms
        )
        core = HaClientState(settings, facts.log, own_end=end, overlap=overlap, now_ms=steady_ms())
        async with asyncio.timeout(CONNECT_SECONDS_MAX):
            host, _, port = master.ha.rpartition(":")
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: _MasterConnection(self, core), host, int(port)
            )
        self._connection = connection
        self._connected_count += 1
        self.cause = ""
        self._log.info("following", master=master.ha, begins=end)
        try:
            return await connection.ended
        finally:
            self._received_bytes += core.received_bytes
            self._connection = None
            connection.close()

    def _read(self, begin: int, end: int) -> bytes:
        found = []
        while begin < end:
            file = self.store.log.files.find(begin)
            assert file is not None, begin
            size = min(end, file.end_offset) - begin
            found.append(file.read(file.position_of(begin), size))
            begin += size
        return b"".join(found)

    async def _facts(self, master: MasterAddress) -> MasterFacts:
        config, runtime = [
            await self._ask(master, make_request(code, {}, opaque=0))
            for code in (RequestCode.GET_BROKER_CONFIG, RequestCode.GET_BROKER_RUNTIME_INFO)
        ]
        return read_facts(config, runtime)

    async def _ask(self, master: MasterAddress, request: RemotingCommand) -> bytes:
        response = await self._send(master, request)
        if response.code != ResponseCode.SUCCESS:
            remark = response.remark or f"code {response.code}"
            name = RequestCode(request.code).name
            raise FetchEnded(f"{master.broker} does not answer {name}: {remark}")
        return response.body

    async def _send(self, master: MasterAddress, request: RemotingCommand) -> RemotingCommand:
        return await self._client.invoke(master.broker, request, timeout_ms=ASK_MS_MAX)

    async def _copy_tables(self) -> None:
        seconds = FIRST_SECONDS if self._member is None else MEMBER_SECONDS_MIN
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(seconds)
            master, began, failed = self._master, loop.time(), False
            try:
                if master is not None:
                    await self._copy_from(master)
            except (FetchEnded, RemotingError, ProtocolError, StoreError, ValueError) as error:
                failed = True
                self._log.warning("tables not copied", cause=str(error))
            seconds = PERIOD_SECONDS
            if self._member is not None:
                seconds = next_pause_seconds(loop.time() - began, failed=failed)

    async def _copy_from(self, master: MasterAddress) -> None:
        state = self._broker.state
        for table in self._sync.tables:
            body = await self._ask(master, table.request())
            if table.name == state.offsets.file_name:
                for offers in batched(self._sync.offers(body), OFFERS_AT_ONCE_MAX):
                    await asyncio.gather(*(self._send(master, offer) for offer in offers))
            held = partial(self._sync.hold_back, table, body, self.store.max_queue_offset)
            if self._sync.take(table, await self._pool.submit(held)):
                state.instructions.append(Persist(table.name))
            if table.code is RequestCode.GET_ALL_TOPIC_CONFIG:
                await self._follow_deletions(body)
        if self._member is not None:
            # They are in no file: a new master takes them over from the run before.
            found = decode_body(HeldLocks, await self._ask(master, locks_request()))
            state.locks.replace(found.wakelog_locks, wall_ms())
        self.end_turn()

    async def _follow_deletions(self, topics: bytes) -> None:
        """Have Reput remove the queues that the master has deleted, and make the new ones."""
        log_end = self.store.log.end_offset
        ends = await self._pool.submit(partial(self._sync.deletions, topics, log_end))
        if not ends:
            return
        if why_not := await self._follow_deleted(ends):
            self._log.warning("queues of deleted topics not removed", cause=why_not)
            return
        self._sync.on_followed(ends)
        self.store.forget_queues()


class _MasterConnection(asyncio.BufferedProtocol):
    """One connection to a master. What comes is read into one buffer, and appended at once."""

    def __init__(self, follower: HaClient, core: HaClientState) -> None:
        self.core = core
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._follower = follower
        self._transport: asyncio.Transport | None = None
        self._timer = Timer(self.work)
        self._is_paused = False
        self._buffer = memoryview(bytearray(RECEIVE_BYTES))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say where the log is wanted from, at once."""
        self._transport = opened = cast(asyncio.Transport, transport)  # uvloop has others
        opened.write(self.core.first_report())
        self.work()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Append what came."""
        if self.ended.done():
            return
        store = self._follower.store
        try:
            now_ms = wall_ms()
            for part in self.core.receive(self._buffer[:nbytes], steady_ms()):
                store.append_bytes(part.offset, part.data, stored_ms=part.stored_ms, now_ms=now_ms)
        except (FetchEnded, NotWriteable) as error:
            self.ended.set_exception(error)
        finally:
            self._follower.end_turn()
        self.work()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end."""
        if not self.ended.done():
            self.ended.set_result(f"the master closed the connection: {exc or 'end of file'}")

    def work(self) -> None:
        """Report what is due, and look whether the master is silent."""
        if self.ended.done() or self._transport is None:
            return
        progress, now_ms = self._follower.progress, steady_ms()
        try:
            self.core.check_silence(now_ms)
        except FetchEnded as error:
            self.ended.set_exception(error)
            return
        report = self.core.next_report(self._follower.acknowledged, now_ms)
        if report is not None:
            self._transport.write(report)
        is_behind = progress.appended - self._follower.acknowledged > UNSYNCED_BYTES_MAX
        if is_behind != self._is_paused:
            self._is_paused = is_behind
            if is_behind:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()
        self._timer.start_by(max(now_ms + 1, self.core.next_ms()), now_ms)

    def close(self) -> None:
        """Close it; what was received is appended."""
        self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        if not self.ended.done():
            self.ended.cancel()
