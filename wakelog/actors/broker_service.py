"""BrokerService: the Broker's shell without Ray: store, core and server of one broker, and its links.

It carries and does not decide. A request goes from the server to the core; what the core defers is
kept here until the watermark, the neighbour or the pool answers; what the core instructs is done.

    start    bind the ports; open the store; load the tables; links; dispatch what recovery left;
             register; only then accept
    a turn   process ..., then end_of_turn: write what was put, say how far the log reaches
    stop     accept no more; answer; leave the route; let Reput reach the end; save the tables; close

Everything but `RunInPool` work, opening, saving and encoding runs on the loop's thread.

Invariants:
    - no answer leaves before `write_pending` returned after its put (the server's turn sees to it;
      answers from the pool and from neighbours call `end_of_turn` first).
    - `readable` <= what the log has; it is `flushed` under synchronous flush.

Source: org.apache.rocketmq.broker.BrokerController.start, shutdown (4.9.3).
"""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec

from wakelog.actors.links.links import (
    Attachment,
    DispatchLine,
    FlushLine,
    HoldLine,
    LinkEvents,
)
from wakelog.actors.name_servers import NameServers
from wakelog.broker.broker import Broker
from wakelog.broker.config import PORTS_BELOW
from wakelog.broker.config_file import BrokerSettings
from wakelog.broker.decision import (
    AwaitFlush,
    CloseChannel,
    Continue,
    ForgetHolds,
    HoldPull,
    Instruction,
    Outcome,
    Persist,
    Push,
    RegisterBroker,
    RunInPool,
)
from wakelog.broker.processors import PROCESSORS
from wakelog.broker.schedule import DueMessage
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.server.connection import Connection
from wakelog.server.handler import Channel, Reply
from wakelog.server.lane_table import broker_lanes
from wakelog.server.lanes import Lanes
from wakelog.server.limits import ServerLimits
from wakelog.server.server import Server
from wakelog.storage.config_files import ConfigFiles
from wakelog.storage.errors import NotWriteable
from wakelog.storage.file_system import FileSystem, RealFileSystem
from wakelog.storage.message_store import MessageStore
from wakelog.storage.store_identity import claim_identity
from wakelog.storage.store_parts import OpenOptions
from wakelog.telemetry.logs import Log, logger

POOL_THREADS = 4
"""Cold reads and queries wait for the disk, not for a processor; more would queue in the disk."""

POOL_WAITING_MAX = 10_000
"""Work that waits for a pool thread; beyond it a request is refused. sendThreadPoolQueueCapacity."""

CATCH_UP_SECONDS_MAX = 30.0
"""How long a stop waits for Reput. A broker stopped earlier recovers as after a crash."""

REGISTER_SECONDS_MAX = 10.0
"""How long a start waits for the first name server before it accepts without it."""


class FlushWaiter(NamedTuple):
    """An answer that waits for the disk."""

    physical_offset_end: int
    deadline_ms: int
    deferred: AwaitFlush
    reply: Reply


def wall_ms() -> int:
    """Return milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Lines(Protocol):
    """The links of one broker, whatever transport they are on."""

    dispatch: DispatchLine
    holds: HoldLine
    flush: FlushLine

    async def start(self, events: LinkEvents) -> None:
        """Attach the neighbours; they begin from ``events.attachment()``."""
        ...

    def arrived(self) -> None:
        """Say that the queues have grown, for the service of delayed messages."""
        ...

    async def stop(self) -> None:
        """Have what neighbours hold made durable and let them go."""
        ...

    def statistics(self) -> dict[str, Any]:
        """Return what the neighbours say of themselves, by service, as builtins."""
        ...


class BrokerService:
    """One broker in this process. It is the LinkEvents of its lines."""

    def __init__(
        self,
        settings: BrokerSettings,
        links: Lines,
        *,
        bind_host: str,
        options: OpenOptions | None = None,
        fs: FileSystem | None = None,
    ) -> None:
        """Hold everything, open nothing."""
        self._settings = settings
        self._links = links
        self._bind_host = bind_host
        self._options = options or OpenOptions()
        self._fs = fs or RealFileSystem()
        self._pool = ThreadPoolExecutor(POOL_THREADS, thread_name_prefix="broker-pool")
        self._saver = ThreadPoolExecutor(1, thread_name_prefix="broker-save")
        self._saving: dict[str, bool] = {}
        self._name_servers = NameServers(settings.broker)
        self._files = ConfigFiles(self._fs, settings.store.paths)
        self._waiters: deque[FlushWaiter] = deque()
        self._notes: list[HoldPull] = []
        self._pool_waiting = 0
        self._flushed = 0
        self._readable = 0
        self._appended = 0
        self._told_recovery = False
        self._caught_up = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = False
        self._log = logger(Log.BROKER)

    async def start(self) -> None:
        """Return once the broker is in the route and accepts.

        Raises: PortUnavailable, StoreError, IllegalConfiguration; nothing is left open then.
        """
        self._loop = asyncio.get_running_loop()
        self._server = self._make_server()
        try:
            port = self._settings.broker.listen_port
            self._server.bind(self._bind_host, port)
            vip_refused = (RequestCode.PULL_MESSAGE,)
            self._server.bind(self._bind_host, port - PORTS_BELOW, refused_codes=vip_refused)
            opened = await self._loop.run_in_executor(self._pool, self._open)
        except BaseException:
            await self._server.close()
            raise
        self.store, self._store_id = opened
        self._epoch = wall_ms()
        self.broker = Broker(self._settings, self.store, wall_ms())
        for name in self.broker.file_names():
            self._files.load(f"{name}.json", partial(self.broker.load, name))
        self._appended = self._flushed = self._readable = self.store.max_physical_offset
        await self._links.start(self)
        self._links.dispatch.readable(self._readable)
        await self._wait_dispatched()
        await self._name_servers.register(self.broker, seconds_max=REGISTER_SECONDS_MAX)
        await self._server.start_listening()
        self._tick()

    def _open(self) -> tuple[MessageStore, str]:
        store = MessageStore.open(
            self._fs,
            self._settings.store,
            wall_ms(),
            physical_memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            options=self._options,
        )
        try:
            identity = claim_identity(
                self._fs,
                self._settings.store.paths.store_identity,
                broker_name=self._settings.broker.broker_name,
                new_store_id=str(uuid.uuid4()),
            )
        except BaseException:
            store.close(dispatch_behind_bytes=1)
            raise
        return store, identity.store_id

    def _make_server(self) -> Server:
        lanes: Lanes[Connection] = Lanes(
            broker_lanes(self._settings.broker),
            lane_of_code={code: row.lane.value for code, row in PROCESSORS.items()},
            default_lane="admin",
            bytes_max=ServerLimits().lane_bytes_max,
        )
        return Server(self, lanes, limits=ServerLimits(), on_deferred=self._on_deferred)

    async def _wait_dispatched(self) -> None:
        """Return once consumers can see everything that is in the log."""
        while self.store.dispatched < self._readable:
            self._caught_up.clear()
            await self._caught_up.wait()

    # Handler: called by the server.
    def process(self, request: RemotingCommand, channel: Channel, now_ms: int) -> Outcome:
        """Ask the core."""
        return self.broker.process(request, channel, now_ms)

    def channel_closed(self, channel: Channel, now_ms: int) -> None:
        """Tell the core."""
        self.broker.channel_closed(channel, now_ms)

    def end_of_turn(self) -> None:
        """Write what was put, say how far the log reaches, do what the core instructed.

        Raises: NotWriteable; nothing put in this turn may then be acknowledged.
        """
        try:
            appended = self.store.write_pending()
            if appended != self._appended:
                self._appended = appended
                self._note_appended()
        finally:
            if self._notes:
                notes, self._notes = self._notes, []
                self._links.holds.hold(notes)
            if self.broker.instructions:
                for instruction in self.broker.take_instructions():
                    self._do(instruction)

    def _note_appended(self) -> None:
        committed = self.store.max_physical_offset
        self._links.flush.appended(appended=self._appended, committed=committed)
        if self._waiters and self._waiters[-1].physical_offset_end > self._flushed:
            self._links.flush.want()
        self._update_readable()

    def _update_readable(self) -> None:
        readable = (
            self._flushed
            if self._settings.store.synchronous_flush
            else self.store.max_physical_offset
        )
        if readable > self._readable:
            self._readable = readable
            self._links.dispatch.readable(readable)

    def _on_deferred(
        self, outcome: Outcome, request: RemotingCommand, channel: Channel, reply: Reply
    ) -> None:
        if type(outcome) is AwaitFlush:
            if outcome.physical_offset_end <= self._flushed:
                reply(outcome.response)
                return
            end, deadline_ms = outcome.physical_offset_end, outcome.deadline_ms
            self._waiters.append(FlushWaiter(end, deadline_ms, outcome, reply))
            if end <= self._appended:
                # Its turn is over already: a put of the pool's, or of a held request that went on.
                self._links.flush.want()
        elif type(outcome) is HoldPull:
            self._notes.append(outcome)
        elif type(outcome) is RunInPool:
            self._run_in_pool(outcome, request, channel, reply)
        else:
            assert outcome is None or type(outcome) is RemotingCommand
            reply(outcome)

    def _run_in_pool(
        self, deferred: RunInPool, request: RemotingCommand, channel: Channel, reply: Reply
    ) -> None:
        if self._pool_waiting >= POOL_WAITING_MAX:
            remark = f"[OVERLOAD]system busy, {self._pool_waiting} requests wait for the disk"
            reply(answer(request, ResponseCode.SYSTEM_BUSY, remark))
            return
        self._pool_waiting += 1
        future = self._loop.run_in_executor(self._pool, deferred.work)

        def finish(done: asyncio.Future[Any]) -> None:
            self._pool_waiting -= 1
            try:
                outcome = deferred.finish(done.result(), wall_ms())
                self.end_of_turn()
            except Exception as error:
                outcome = self.broker.error_answer(request, error)
            self._on_deferred(outcome, request, channel, reply)
            if self._notes:
                self.end_of_turn()

        future.add_done_callback(finish)

    def _do(self, instruction: Instruction) -> None:
        match instruction:
            case Push(channel_id, command):
                self._server.push(channel_id, command)
            case Continue(channel_id, request, deferred):
                channel = _ChannelId(channel_id)
                reply = partial(self._reply_to, channel_id)
                self._on_deferred(deferred, request, channel, reply)
                self._server.schedule_turn()
            case Persist(name):
                self._save(name)
            case RegisterBroker(oneway=oneway):
                self._name_servers.register_soon(self.broker, oneway=oneway)
            case CloseChannel(channel_id):
                self._server.close_channel(channel_id)
            case ForgetHolds(hold_ids):
                self._links.holds.forget(hold_ids)

    def _reply_to(self, channel_id: int, response: RemotingCommand | None) -> None:
        if response is not None:
            self._server.push(channel_id, response)

    def _save(self, name: str) -> None:
        """Save a table; one save of a name is under way at a time, and one more remembered."""
        if name in self._saving:
            self._saving[name] = True
            return
        self._saving[name] = False
        encode = self.broker.snapshot(name)
        future = self._loop.run_in_executor(
            self._saver, lambda: self._files.save(f"{name}.json", encode())
        )

        def finish(done: asyncio.Future[None]) -> None:
            again = self._saving.pop(name)
            error = done.exception()
            if error is not None:
                self._log.error("table not saved", table=name, error=str(error))
            if again and not self._stopping:
                self._save(name)

        future.add_done_callback(finish)

    # LinkEvents: called by the lines.
    def attachment(self) -> Attachment:
        """Return what a neighbour that is attached now has to know."""
        recovered = None if self._told_recovery else self.store.recovery.dispatch_from
        return Attachment(
            epoch=self._epoch,
            store_id=self._store_id,
            appended=self._appended,
            committed=self.store.max_physical_offset,
            flushed=self._flushed,
            readable=self._readable,
            dispatched=self.store.dispatched,
            dispatch_from=recovered,
        )

    def held_notes(self) -> list[HoldPull]:
        """Return a note of every held pull."""
        return self.broker.held()

    def flushed(self, physical_offset: int) -> None:
        """Let go the answers that waited for the disk."""
        if physical_offset <= self._flushed:
            return
        self._flushed = physical_offset
        self._update_readable()
        waiters = self._waiters
        while waiters and waiters[0].physical_offset_end <= physical_offset:
            waiter = waiters.popleft()
            waiter.reply(waiter.deferred.response)

    def flush_failed(self, cause: str) -> None:
        """Acknowledge nothing that waits, and take nothing more."""
        self.store.log.fail(cause)
        while self._waiters:
            waiter = self._waiters.popleft()
            waiter.reply(waiter.deferred.flush_failed(cause))

    def committed(self, physical_offset: int) -> None:
        """Let consumers see what left the transient pool."""
        self._update_readable()

    def dispatched(self, physical_offset: int) -> None:
        """Let readers see what is in the queues now."""
        self._told_recovery = True
        self.store.set_dispatched(physical_offset)
        self._links.arrived()
        self._caught_up.set()

    def woken(self, hold_ids: Sequence[int]) -> None:
        """Run held pulls again and send what they found."""
        self.broker.wake(hold_ids, wall_ms())
        self.end_of_turn()

    def due(self, messages: Sequence[DueMessage]) -> None:
        """Deliver delayed messages, without being waited for."""
        self._loop.create_task(self.deliver(messages))

    async def deliver(self, due: Sequence[DueMessage]) -> dict[int, int]:
        """Read due messages in the pool and put them; return the next queue offset by level.

        They are written before the positions are told.
        """
        records = await self._loop.run_in_executor(self._pool, self.broker.read_due, due)
        positions = self.broker.deliver_due(due, records, wall_ms())
        self.end_of_turn()
        return positions

    def retained(self, *, begin_offset: int, disk_full: bool) -> None:
        """Let go what retention removed, and take messages or do not."""
        self.store.forget_before(begin_offset)
        self.store.set_disk_full(disk_full)

    def _tick(self) -> None:
        now_ms = wall_ms()
        while self._waiters and self._waiters[0].deadline_ms <= now_ms:
            waiter = self._waiters.popleft()
            waiter.reply(waiter.deferred.timed_out())
        self.broker.tick(now_ms)
        try:
            self.end_of_turn()
        except NotWriteable as error:
            self._log.error("log not writeable", cause=str(error))
        next_ms = self.broker.next_tick_ms()
        if self._waiters:
            next_ms = min(next_ms, self._waiters[0].deadline_ms)
        delay_seconds = max(0, next_ms - now_ms) / 1000
        self._timer = self._loop.call_later(delay_seconds, self._tick)

    def statistics(self) -> dict[str, Any]:
        """Return everything this broker can be asked, as builtins."""
        return {
            "broker": msgspec.to_builtins(self.broker.statistics(), str_keys=True),
            "server": msgspec.to_builtins(self._server.statistics(), str_keys=True),
            "store": self.store.statistics(),
            "watermarks": {
                "appended": self._appended,
                "flushed": self._flushed,
                "readable": self._readable,
                "dispatched": self.store.dispatched,
            },
            "neighbours": self._links.statistics(),
        }

    async def stop(self) -> bool:
        """Stop in order and return whether the store was left as after a normal exit."""
        self._stopping = True
        if self._timer is not None:
            self._timer.cancel()
        self._server.stop_listening()
        await self._name_servers.unregister(self.broker)
        await self._server.close()
        try:
            async with asyncio.timeout(CATCH_UP_SECONDS_MAX):
                await self._wait_dispatched()
        except TimeoutError:
            self._log.warning("stopped before the queues reached the log's end")
        await self._links.stop()
        for persist in self.broker.files_to_write():
            self._files.save(f"{persist.name}.json", self.broker.to_json(persist.name))
        await self._name_servers.close()
        self._pool.shutdown()
        self._saver.shutdown()
        behind = self.store.max_physical_offset - self.store.dispatched
        return self.store.close(dispatch_behind_bytes=behind)


class _ChannelId(NamedTuple):
    """A connection known by its id only: a held pull that goes on needs no more of it."""

    id: int
    remote_host: str = ""
    remote_port: int = 0

    def push(self, command: RemotingCommand) -> bool:
        """Refuse: whoever needs to push has the connection's real channel."""
        raise AssertionError("a held pull pushes nothing")

