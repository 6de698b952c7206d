"""BrokerService: the Broker's shell: store, core and server of one broker, and its links.

It carries and does not decide. A request goes from the server to the core; what the core defers is
kept here until the watermark, the neighbour or the pool answers; what the core instructs is done.

    start    bind the ports; open the store; load the tables; attach the neighbours; have
             everything dispatched; register; only then accept
    a turn   process ..., then end_of_turn: write what was put, say how far the log reaches
    stop     accept no more; leave the route; have everything dispatched; save; close

Everything but `RunInPool` work, opening, saving and encoding runs on the loop's thread.

Invariants:
    - no answer leaves before `write_pending` returned after its put: the server's turn sees to
      that, and whatever else puts calls `end_of_turn` before it lets an answer go.

Source: org.apache.rocketmq.broker.BrokerController.start, shutdown (4.9.3).
"""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from wakelog.actors.broker.log_progress import LogProgress, ToldLines
from wakelog.actors.broker.name_servers import NameServers
from wakelog.actors.broker.opening import OpenedStore, open_store
from wakelog.actors.broker.queue_looks import LOOK_SECONDS, AwaitDispatch, QueueLooks
from wakelog.actors.broker.recovery_lines import recovery_notices, write_recovery
from wakelog.actors.broker.request_times import RequestTimes
from wakelog.actors.broker.state_log import StateLog
from wakelog.actors.broker.table_files import TableFiles
from wakelog.actors.broker.work_pool import WorkPool
from wakelog.actors.lines.broker_links import BrokerLinks
from wakelog.actors.links.links import Attachment
from wakelog.actors.links.neighbour import Caller
from wakelog.actors.links.service_plan import ServicePlan
from wakelog.actors.links.wall_clock import wall_ms
from wakelog.broker.broker import Broker
from wakelog.broker.config import PORTS_BELOW
from wakelog.broker.decision import (
    AwaitFlush,
    CloseChannel,
    Continue,
    Deferred,
    ForgetHolds,
    HoldPull,
    Instruction,
    Lane,
    Outcome,
    Persist,
    Push,
    RegisterBroker,
    RunInPool,
    WriteLine,
)
from wakelog.broker.error_answer import error_answer
from wakelog.broker.processors import PROCESSORS
from wakelog.broker.processors.queue_progress import measure
from wakelog.broker.schedule import DueMessage
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import RemotingCommand
from wakelog.server.connection import Connection
from wakelog.server.handler import Channel, Reply
from wakelog.server.lane_table import broker_lanes
from wakelog.server.lanes import Lanes
from wakelog.server.limits import ServerLimits
from wakelog.server.server import Server
from wakelog.storage.errors import NotWriteable, StoreError
from wakelog.storage.file_system import RealFileSystem
from wakelog.telemetry.logs import LineBudget, Log, logger

SENDS = frozenset(code for code, row in PROCESSORS.items() if row.lane is Lane.SEND)
"""Whoever sends does not look at queues."""

CATCH_UP_SECONDS_MAX = 30.0
"""How long a stop waits for Reput. A broker that stops earlier recovers as after a crash."""

GUARD_SECONDS = 1.0
"""How long a 4.9.3 broker that was refused leaves the door open; another takes as long to start."""

MEASURE_SECONDS_MAX = 1.0
"""How long the ends of queues are read for one scrape; half of what the Supervisor waits."""

POLL_SECONDS = 0.00015
"""A producer that sends one by one is back in 0.1 ms. A second processor has the rest to do."""

REGISTER_SECONDS_MAX = 10.0
"""How long a start waits for the name servers before it accepts without one."""


class BrokerService:
    """One broker. It is the server's Handler and its links' LinkEvents."""

    def __init__(self, plan: ServicePlan, callers: Mapping[str, Caller]) -> None:
        """Hold everything, open nothing."""
        self._plan = plan
        self._settings = plan.settings
        self._fs = RealFileSystem()
        self._links = BrokerLinks(plan, callers, self._fs)
        self._name_servers = NameServers(self._settings.broker)
        self._tables = TableFiles(self._fs, self._settings.store.paths)
        self._times = RequestTimes()
        self._looks = QueueLooks()
        self._notes: list[HoldPull] = []
        self._is_recovery_told = False
        self._has_failed = False
        self._parked_count = 0
        self._dispatched = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._log = logger(Log.BROKER)
        self._store_errors = logger(Log.STORE_ERROR)
        self._line_budget = LineBudget()

    @property
    def notices(self) -> list[str]:
        """What whoever started the broker has to know of its store."""
        return recovery_notices(self.store.recovery)

    @property
    def epoch(self) -> int:
        """The epoch of this incarnation, once it was started."""
        return self._epoch

    @property
    def store_id(self) -> str:
        """The id of the store, once it was opened."""
        return self._store_id

    async def start(self, expected_store_id: str | None = None) -> None:
        """Return once the broker is in the route and accepts.

        expected_store_id: of the store this broker ran on before; None if it may take any.

        Raises: PortUnavailable, StoreError; nothing is left open then.
        """
        self._loop = asyncio.get_running_loop()
        self._server = self._make_server()
        self._pool = WorkPool(lambda request, error: self.broker.error_answer(request, error))
        opened: OpenedStore | None = None
        try:
            Path(self._plan.runtime_directory).mkdir(mode=0o700, parents=True, exist_ok=True)
            port = self._settings.broker.listen_port
            self._server.bind(self._plan.bind_host, port)
            pulls = (RequestCode.PULL_MESSAGE,)
            self._server.bind(self._plan.bind_host, port - PORTS_BELOW, refused_codes=pulls)
            await self._links.release_holders()
            opening = partial(
                open_store,
                self._fs,
                self._plan,
                self._links.segment_source,
                expected_store_id=expected_store_id,
            )
            opened = await self._pool.submit(opening)
            await self._begin(opened)
        except BaseException:
            await self._abandon(opened)
            raise
        self._guarding = self._loop.create_task(self._keep_guard())
        self._tick()

    async def _keep_guard(self) -> None:
        while True:
            await asyncio.sleep(GUARD_SECONDS)
            try:
                await self._pool.submit(self.store.renew_guard)
            except StoreError as error:
                self._log.warning("guard not renewed", cause=str(error))

    async def _begin(self, opened: OpenedStore) -> None:
        store = self.store = opened.store
        self._store_id = opened.store_id
        write_recovery(store.recovery)
        self._state_log = StateLog(wall_ms())
        self.broker = Broker(self._settings, store, wall_ms())
        self._tables.load_all(self.broker, self.store.kept_config)
        store_id = uuid.UUID(self._store_id)
        self._epoch = self._links.open(self, store, store_id=store_id, epoch_min=wall_ms())
        links = self._links
        self._progress = LogProgress(
            store,
            ToldLines(links.commit, links.flush, links.dispatch),
            synchronous_flush=self._settings.store.synchronous_flush,
            call_soon=self._loop.call_soon,
        )
        links.start()
        self._progress.begin()
        await self._wait_dispatched()
        self.broker.tick(wall_ms())
        await self._name_servers.register(self.broker, seconds_max=REGISTER_SECONDS_MAX)
        await self._server.start_listening()
        self._log.info("broker accepts", port=self._settings.broker.listen_port)

    def _make_server(self) -> Server:
        limits = ServerLimits(
            idle_seconds_max=float(self._settings.broker.server_channel_max_idle_time_seconds),
            backlog=self._settings.broker.server_socket_backlog,
            poll_seconds=POLL_SECONDS if (os.cpu_count() or 1) > 1 else 0.0,
        )
        lanes = self._lanes = Lanes[Connection](
            broker_lanes(self._settings.broker),
            lane_of_code={code: row.lane.value for code, row in PROCESSORS.items()},
            default_lane="admin",
            bytes_max=limits.lane_bytes_max,
        )
        return Server(
            self, lanes, limits=limits, on_deferred=self._on_deferred, answer_error=error_answer
        )

    async def _wait_dispatched(self) -> None:
        """Return once consumers can see everything that is in the log."""
        while self.store.dispatched < self._progress.readable:
            self._dispatched.clear()
            await self._dispatched.wait()

    async def _abandon(self, opened: OpenedStore | None) -> None:
        """Let go what a start that failed has taken."""
        await self._server.close()
        if opened is not None:
            await self._links.stop()
            opened.store.close(dispatch_behind_bytes=1)
        await self._name_servers.close()
        self._tables.close()
        self._pool.close()

    def register(self) -> None:
        """Tell the name servers now instead of when the period is over."""
        self._name_servers.register_soon(self.broker, oneway=False)

    async def stop(self) -> bool:
        """Stop in order and return whether the store was left as after a normal exit."""
        if self._timer is not None:
            self._timer.cancel()
        self._guarding.cancel()
        self._server.stop_listening()
        await self._name_servers.unregister(self.broker)
        await self._server.close()
        try:
            async with asyncio.timeout(CATCH_UP_SECONDS_MAX):
                await self._wait_dispatched()
        except TimeoutError:
            self._log.warning("stopped before the queues reached the log's end")
        await self._links.stop()
        self._tables.save_all(self.broker)
        await self._name_servers.close()
        self._pool.close()
        with suppress(OSError):
            Path(self._plan.runtime_directory).rmdir()
        behind_bytes = self.store.max_physical_offset - self.store.dispatched
        return self.store.close(dispatch_behind_bytes=behind_bytes)

    # What the server calls.

    def process(
        self, request: RemotingCommand, channel: Channel, now_ms: int
    ) -> Outcome | AwaitDispatch:
        """Ask the core, or let the request wait for what was acknowledged before it."""
        self._links.dispatch.look()
        if request.code not in SENDS:
            self._links.dispatch.hurry()
            until = self._looks.wait(
                request,
                dispatched=self.store.dispatched,
                readable=self._progress.readable,
                now_ms=now_ms,
            )
            if until is not None:
                return until
        return self._process(request, channel, now_ms)

    def _process(self, request: RemotingCommand, channel: Channel, now_ms: int) -> Outcome:
        began = self._times.began()
        outcome = self.broker.process(request, channel, now_ms)
        self._times.processed(request, began)
        return outcome

    def channel_closed(self, channel: Channel, now_ms: int) -> None:
        """Tell the core."""
        self.broker.channel_closed(channel, now_ms)

    def end_of_turn(self) -> None:
        """Write what was put, say how far the log reaches, do what the core instructed.

        Raises: NotWriteable, once; nothing put in this turn may then be acknowledged. Later turns
            put nothing, and their answers are about what was written before.
        """
        try:
            if not self._has_failed:
                appended = self.store.write_pending()
                has_put = appended != self._progress.appended
                self._times.end_turn(has_put=has_put)
                if has_put:
                    self._progress.note_appended(appended)
                    if self.broker.parked_count != self._parked_count:
                        self._parked_count = self.broker.parked_count
                        self._links.parked(appended)
        except NotWriteable as error:
            self._has_failed = True
            # Their time would run out with code 10, which a client takes for stored.
            self._progress.waiters.unwritten(self._progress.appended, str(error))
            raise
        finally:
            if self._notes:
                notes, self._notes = self._notes, []
                self._links.holds.hold(notes)
                self._links.dispatch.hurry()
            if self.broker.instructions:
                for instruction in self.broker.take_instructions():
                    self._do(instruction)

    def _on_deferred(
        self,
        outcome: Deferred | AwaitDispatch,
        request: RemotingCommand,
        channel: Channel,
        reply: Reply,
    ) -> None:
        match outcome:
            case AwaitDispatch():
                if not self._looks:
                    self._loop.call_later(LOOK_SECONDS, self._look_again)
                self._looks.add(outcome, partial(self._take_up, request, channel, reply))
            case HoldPull():
                self._notes.append(outcome)
            case AwaitFlush():
                if self._progress.await_flush(outcome, reply):
                    self._set_timer()
            case RunInPool():
                done = partial(self._settle, request, reply)
                self._pool.run(request, outcome, self._times.in_pool(request, done))
            case _:
                # AwaitRegistration: the instruction to register comes with it.
                answer = partial(reply, outcome.response)
                self._name_servers.after_registration(answer, oneway=outcome.oneway)

    def _look_again(self) -> None:
        """Take up requests that wait for the queues: nobody rings when those have grown."""
        self._links.dispatch.look()
        self._looks.take_up(dispatched=self.store.dispatched, now_ms=wall_ms())
        if self._looks:
            self._loop.call_later(LOOK_SECONDS, self._look_again)

    def _take_up(self, request: RemotingCommand, channel: Channel, reply: Reply) -> None:
        """Process a request that has waited for the queues."""
        try:
            outcome = self._process(request, channel, wall_ms())
        except Exception as error:
            outcome = self.broker.error_answer(request, error)
        self._settle(request, reply, outcome)

    def _settle(self, request: RemotingCommand, reply: Reply, outcome: Outcome) -> None:
        """Take in what work in the pool, or a held pull, came to."""
        try:
            self.end_of_turn()
        except NotWriteable as error:
            outcome = self.broker.error_answer(request, error)
        if outcome is None or isinstance(outcome, RemotingCommand):
            reply(outcome)
            return
        self._on_deferred(outcome, request, _GONE, reply)
        self._server.schedule_turn()

    def _do(self, instruction: Instruction) -> None:
        match instruction:
            case Push(channel_id, command):
                self._server.push(channel_id, command)
            case Continue(channel_id, request, deferred):
                reply = partial(self._reply_to, channel_id)
                self._on_deferred(deferred, request, _GONE, reply)
                self._server.schedule_turn()
            case Persist(name):
                self._tables.save_soon(self.broker, name)
            case RegisterBroker(oneway=oneway):
                self._name_servers.register_soon(self.broker, oneway=oneway)
            case CloseChannel(channel_id):
                self._server.close_channel(channel_id)
            case ForgetHolds(hold_ids):
                self._links.holds.forget(hold_ids)
            case WriteLine(appender, event, values):
                if self._line_budget.allows(time.monotonic()):
                    logger(Log[appender.name]).info(event, **values)

    def _reply_to(self, channel_id: int, response: RemotingCommand | None) -> None:
        if response is not None:
            self._server.push(channel_id, response)

    # What the links call.

    def attachment(self) -> Attachment:
        """Return what a neighbour that is attached now has to know."""
        report = self.store.recovery
        return Attachment(
            epoch=self._epoch,
            store_id=self._store_id,
            appended=self._progress.appended,
            committed=self.store.max_physical_offset,
            flushed=self._progress.flushed,
            readable=self._progress.readable,
            dispatched=self.store.dispatched,
            delay_positions=self.broker.delay_offsets(),
            clean_exit=report.clean_exit,
            dispatch_from=None if self._is_recovery_told else report.dispatch_from,
        )

    def is_awaited(self) -> bool:
        """Whether a pull is held."""
        return self.broker.held_count > 0

    def held_notes(self) -> list[HoldPull]:
        """Return a note of every held pull."""
        return self.broker.held()

    def dispatched(self, physical_offset: int) -> None:
        """Let readers see what is in the queues now."""
        self._is_recovery_told = True
        self.store.set_dispatched(physical_offset)
        self._links.grown(physical_offset)
        self._dispatched.set()

    def flushed(self, physical_offset: int) -> None:
        """Give the answers that waited for the disk."""
        self._progress.note_flushed(physical_offset)

    def flush_failed(self, cause: str) -> None:
        """Acknowledge nothing that waits, and take no more messages."""
        self._store_errors.error("a sync failed: the log takes no more messages", cause=cause)
        self.store.log.fail(cause)
        self._progress.waiters.failed(cause)

    def committed(self, _physical_offset: int) -> None:
        """Let consumers see what left the transient pool, and have it flushed."""
        self._progress.note_committed()

    def woken(self, hold_ids: Sequence[int]) -> None:
        """Run held pulls again and send what they found."""
        began = self._times.began()
        self.broker.wake(hold_ids, wall_ms())
        self._times.woken(began, len(hold_ids))
        self._end_of_turn_logged()

    async def deliver(self, due: Sequence[DueMessage]) -> Mapping[int, int]:
        """Read due messages in the pool and put them; return the next queue offset by level."""
        records = await self._pool.submit(partial(self.broker.read_due, due))
        positions = self.broker.deliver_due(due, records, wall_ms())
        self.end_of_turn()
        return positions

    def retained(self, *, begin_offset: int, disk_full: bool) -> None:
        """Let go what retention removed, and take messages or do not."""
        self.store.forget_before(begin_offset)
        self.store.set_disk_full(disk_full)
        self._state_log.disk(full=disk_full)

    def _tick(self) -> None:
        self._timer = None
        now_ms = wall_ms()
        self._progress.waiters.expire(now_ms)
        self.broker.tick(now_ms)
        if self._state_log.is_due(now_ms):
            lanes = self._lanes.statistics(time.monotonic())
            dispatched = self.store.dispatched
            appended = self._progress.appended
            self._state_log.look(now_ms, lanes, appended=appended, dispatched=dispatched)
        self._end_of_turn_logged()
        self._set_timer()

    def _set_timer(self) -> None:
        next_ms = self.broker.next_tick_ms()
        deadline_ms = self._progress.waiters.next_deadline_ms
        if deadline_ms is not None:
            next_ms = min(next_ms, deadline_ms)
        if self._timer is not None:
            if self._timer_ms <= next_ms:
                return
            self._timer.cancel()
        self._timer_ms = next_ms
        self._timer = self._loop.call_later(max(0, next_ms - wall_ms()) / 1000, self._tick)

    def _end_of_turn_logged(self) -> None:
        try:
            self.end_of_turn()
        except NotWriteable as error:
            self._store_errors.error("log not writeable", cause=str(error))

    async def measure_queues(self) -> dict[str, Any]:
        """Return where queues end and how far groups are behind, as builtins; read in the pool.

        Nothing if the disk refuses: the other metrics say why.
        """
        selection = self.broker.committed_offsets()
        end_seconds = time.monotonic() + MEASURE_SECONDS_MAX

        def has_time() -> bool:
            return time.monotonic() < end_seconds

        work = partial(measure, selection, self.store, wall_ms(), has_time)
        try:
            progress = await self._pool.submit(work)
        except StoreError as error:
            self._log.warning("queues not measured", cause=str(error))
            return {}
        return dict(msgspec.to_builtins(progress, str_keys=True))

    def statistics(self) -> dict[str, Any]:
        """Return everything this broker can be asked without waiting, as builtins."""
        return {
            "broker": msgspec.to_builtins(self.broker.statistics(), str_keys=True),
            "server": msgspec.to_builtins(self._server.statistics(), str_keys=True),
            "store": self.store.statistics(),
            "durations": self._times.statistics(),
            "watermarks": {
                "appended": self._progress.appended,
                "flushed": self._progress.flushed,
                "readable": self._progress.readable,
                "dispatched": self.store.dispatched,
            },
            "pool": self._pool.statistics(),
            "queue_looks": {"waited_count": self._looks.waited_count},
            "flush_waiters": {
                "waiting_count": len(self._progress.waiters),
                "timed_out_count": self._progress.waiters.timed_out_count,
            },
            "name_servers": self._name_servers.statistics(),
            "tables": {
                "saved_count": self._tables.saved_count,
                "failed_count": self._tables.failed_count,
            },
            "links": self._links.statistics(),
        }


class _NoChannel:
    """Stands for the connection of a request that went on after its turn: nobody looks at it."""

    id = -1
    remote_host = ""
    remote_port = 0

    def push(self, command: RemotingCommand) -> bool:
        """Refuse: what goes on pushes through the server, by the connection's id."""
        raise AssertionError("a request that went on pushes nothing")


_GONE = _NoChannel()
