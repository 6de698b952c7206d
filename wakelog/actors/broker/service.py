"""BrokerService: start and stop of one broker, and what its service clients report.

It decides nothing; requests go through `requests.py`.

    start    bind the ports; open the store; load the tables; attach the services; have
             everything dispatched; register; only then accept
    stop     accept no more; leave the route; have everything dispatched; save; close

Source: org.apache.rocketmq.broker.BrokerController.start, shutdown (4.9.3).
"""

import asyncio
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from wakelog.actors.broker.account_files import AccountFiles
from wakelog.actors.broker.filter_file import FilterPublisher
from wakelog.actors.broker.following import Follower, log_begin
from wakelog.actors.broker.log_progress import LogProgress
from wakelog.actors.broker.member import Member
from wakelog.actors.broker.name_servers import NameServers, refuse_taken_name
from wakelog.actors.broker.opening import OpenedStore, open_store
from wakelog.actors.broker.recovery_lines import recovery_notices, store_health, write_recovery
from wakelog.actors.broker.requests import Requests
from wakelog.actors.broker.snapshots import Snapshots
from wakelog.actors.broker.state_log import StateLog
from wakelog.actors.broker.tables_at_start import load_tables, make_missing_topics
from wakelog.actors.broker.work_pool import SWITCH_SECONDS, WorkPool
from wakelog.actors.certificates import read_certificates
from wakelog.actors.errors import DeploymentFailed
from wakelog.actors.services.broker_services import BrokerServices
from wakelog.actors.services.client import DecideChecks
from wakelog.actors.services.commit import CommitClient
from wakelog.actors.services.flush_client import FlushClient
from wakelog.actors.services.replication_client import ReplicationClient
from wakelog.actors.services.reput import ReputClient
from wakelog.actors.services.retention import RetentionClient
from wakelog.actors.services.schedule import ScheduleClient
from wakelog.actors.services.session import AttachRequest
from wakelog.actors.table_files import TableFiles
from wakelog.actors.transport.calls import ServiceCalls
from wakelog.actors.transport.clocks import steady_ms, wall_ms
from wakelog.actors.transport.service_plan import ServicePlan
from wakelog.actors.transport.timer import Timer
from wakelog.broker.access.administrators import Administrators, read_trusted
from wakelog.broker.access.control import AccessControl
from wakelog.broker.broker import POSITIONS, Broker
from wakelog.broker.config import PORTS_BELOW
from wakelog.broker.decision import HoldPull
from wakelog.broker.error_response import error_response
from wakelog.broker.lane_table import broker_lanes
from wakelog.broker.processors.table import IN_ORDER_CODES, PROCESSORS
from wakelog.broker.queue_progress import measure, select
from wakelog.broker.schedule import DueMessage
from wakelog.broker.store_stats import RuntimeMeasures
from wakelog.broker.trouble import Trouble, notice_text
from wakelog.filter.sql92 import compile_filter
from wakelog.network.background import keep, log_failure
from wakelog.network.bound_ports import BoundPorts
from wakelog.network.busy_poll import POLL_SECONDS
from wakelog.network.client import RemotingClient
from wakelog.network.connection import Connection
from wakelog.network.lanes import Lanes
from wakelog.network.limits import ServerLimits
from wakelog.network.server import Server
from wakelog.protocol.codes import RequestCode
from wakelog.storage.durability.config_files import ConfigFiles
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import FileSystem, process_descriptors_max
from wakelog.storage.live_settings import TABLE
from wakelog.telemetry.logs import Log, News, logger
from wakelog.telemetry.pieces import encode_pieces

CATCH_UP_SECONDS_MAX = 30.0
"""How long a stop waits for Reput. A broker that stops earlier recovers as after a crash."""

GUARD_SECONDS = 1.0
"""A refused 4.9.3 broker leaves the guard open for so long; another takes as long to start."""

MEASURE_SECONDS_MAX = 0.5
"""How long the ends of queues are read for one scrape; half of what the Supervisor waits."""

REGISTER_SECONDS_MAX = 10.0
"""How long a start waits for the name servers; then it accepts without one."""

MEMBER_REGISTER_SECONDS_MAX = 2.0
"""The same for a member of a group with a register: its clients wait for it."""

DECIDED_BY_THE_REGISTER = dict.fromkeys(
    ("brokerRole", "brokerId", "haMasterAddress"), "the register says who is master"
)

CHANGE_SECONDS_MAX = 2.0
"""How long a stop waits for Reput if the broker starts again at once, in another role."""


class BrokerService:
    """One broker; the `BrokerEvents` of its service clients."""

    def __init__(
        self,
        plan: ServicePlan,
        calls_by_service: Mapping[str, ServiceCalls],
        fs: FileSystem | None = None,
        member: Member | None = None,
    ) -> None:
        """Start nothing.

        fs: the disk; the machine's if None.
        member: this broker as a member of a group with a register; None if its settings say which
            role it has.
        """
        self._plan = plan
        self._settings = plan.settings
        self._member = member
        self._fs = fs or FileSystem()
        self.services = BrokerServices(plan, calls_by_service, self._fs)
        self._tables = TableFiles(
            ConfigFiles(self._fs, self._settings.store.paths.config),
            Log.BROKER,
            "broker-save",
            self._wait_durable,
        )
        self._backup_notices: dict[str, Trouble] = {}
        self._published: FilterPublisher | None = None
        self._follower: Follower | None = None
        self._has_dispatched = False
        self._dispatched = asyncio.Event()
        self._timer = Timer(self._tick)
        self._timer_ms = 0
        self._log, self._store_errors = logger(Log.BROKER), logger(Log.STORE_ERROR)

    @property
    def notices(self) -> list[str]:
        """What the user who started the broker must know of its store and accounts."""
        access = self.broker.state.access
        unusable = []
        if access is not None and not len(access.table) and not access.table.white_addresses:
            unusable.append(f"every request is refused until {access.main_file} has an account")
        backups = [notice_text(name, one) for name, one in self._backup_notices.items()]
        return [*unusable, *recovery_notices(self.store.recovery), *backups]

    async def start(self, expected_store_id: str | None = None) -> None:
        """Return when the broker is in the route and accepts.

        expected_store_id: the store that this broker ran on before; None if any may be opened.

        Raises: PortUnavailable, TlsRefused, StoreError, DeploymentFailed. Nothing is left open
            then.
        """
        self._loop = asyncio.get_running_loop()
        sys.setswitchinterval(SWITCH_SECONDS)
        self._pool = WorkPool()
        self._requests = Requests(
            self.services, self._pool, self._tables, set_timer=self._set_timer
        )
        self._server = self._make_server()
        async with AsyncExitStack() as undo:
            undo.callback(self._pool.close)
            undo.callback(self._tables.close)
            undo.push_async_callback(self._server.close)
            Path(self._plan.runtime_directory).mkdir(mode=0o700, parents=True, exist_ok=True)
            host, port = self._plan.bind_host, self._settings.broker.listen_port
            ports = BoundPorts()
            undo.callback(ports.close)
            ports.bind(host, port)
            ports.bind(host, port - PORTS_BELOW, refused_codes=(RequestCode.PULL_MESSAGE,))
            self._certificates = await read_certificates(self._plan.tls)
            undo.callback(self._certificates.close)
            self._certificates.watch(self._server)
            access = await self._read_accounts()
            client = await self._outgoing_client(access)
            undo.push_async_callback(client.close)
            if expected_store_id is None and not self._plan.takes_over_name:
                await refuse_taken_name(self._settings.broker, client)
            await self.services.release_holders()
            source = self.services.segment_source
            if self._member is None:
                begin = await log_begin(self._settings, self._fs, client, self._pool)
            else:
                begin = self._member.log_begin
            opening = partial(open_store, self._fs, self._plan, source, expected_store_id, begin)
            opened: OpenedStore = await self._pool.submit(opening)
            self.store, self.store_id = opened
            undo.callback(self.store.close, dispatch_behind_bytes=1)
            self.broker = Broker(
                self._settings,
                self.store,
                wall_ms(),
                readable=lambda: self._progress.readable,
                access=access,
                administrators=Administrators(read_trusted(self._plan.trusted_addresses)),
                measure=self._measure,
            )
            self._name_servers = NameServers(self.broker.state, client, self._member)
            self._client = client
            undo.push_async_callback(self._name_servers.close)
            undo.push_async_callback(self.services.stop)
            # First of all: one of two ports may accept when the other cannot.
            undo.push_async_callback(self._server.close)
            await self._begin(ports)
            undo.pop_all()
        self._tasks = [keep(self._keep_guard, log_failure(self._log, "guard"))]
        if access is not None:
            watch = partial(self._account_files.watch, access, self._pool.submit)
            self._tasks.append(keep(watch, log_failure(self._log, "accounts")))
        self._tick()

    async def _keep_guard(self) -> None:
        failures = News()
        while True:
            await asyncio.sleep(GUARD_SECONDS)
            try:
                await self._pool.submit(self.store.renew_guard)
                failures.clear()
            except StoreError as error:
                if failures.is_news(str(error)):
                    self._log.warning("guard not renewed", cause=str(error))

    async def _read_accounts(self) -> AccessControl | None:
        if not self._settings.broker.acl_enable:
            return None
        files = self._account_files = AccountFiles(self._settings.broker.rocketmq_home)
        table = await self._pool.submit(files.open)
        access_key = self._plan.access_key
        if access_key and table.find(access_key) is None:
            raise DeploymentFailed(
                f"there is no account {access_key}, which is to sign this broker's requests",
                f"Add it to {files.main}, or leave wakelog.accessKey out.",
            )
        return AccessControl(table, files.change, files.main)

    async def _outgoing_client(self, access: AccessControl | None) -> RemotingClient:
        """Return the client of the name servers and, on a slave, of its master."""
        uses_tls = self._settings.broker.use_tls
        tls = await self._certificates.client_context() if uses_tls else None
        access_key = self._plan.access_key
        before_send = partial(access.sign_as, access_key) if access and access_key else None
        return RemotingClient(tls, own_host=self._plan.bind_host, before_send=before_send)

    async def _begin(self, ports: BoundPorts) -> None:
        store, services = self.store, self.services
        write_recovery(store.recovery)
        self._state_log = StateLog(steady_ms())
        await self._load_tables()
        store_id = uuid.UUID(self.store_id)
        self.epoch = services.open(self, store, store_id=store_id, epoch_min=wall_ms())
        # The first expression makes the parser, which takes 50 ms.
        make_parser = partial(compile_filter, "TRUE")
        if self._settings.broker.enable_property_filter:
            await self._pool.submit(make_parser)
        if self._settings.broker.enable_calc_filter_bit_map:
            self._published = FilterPublisher(
                self._fs, self._settings.store.paths, self.epoch, self.broker.state.filters
            )
            self._published.publish()
        self._progress = LogProgress(
            store,
            services.find(CommitClient),
            services.get(FlushClient),
            services.get(ReputClient),
            call_soon=self._loop.call_soon,
            holds_readers=self._member is not None,
        )
        self.snapshots = Snapshots(
            services.get(RetentionClient),
            self._progress,
            store_id=self.store_id,
        )
        if not store.config.appends:
            self._follower = Follower(
                self.broker,
                store,
                self._progress,
                self._client,
                self._pool,
                end_turn=self._requests.end_of_turn_logged,
                follow_deleted=services.get(ReputClient).follow_deleted,
                member=self._member,
            )
        self._requests.begin(
            self._server, self.broker, self._progress, self._name_servers, published=self._published
        )
        self._schedule = services.find(ScheduleClient)
        self._replication = services.find(ReplicationClient)
        if self._replication is not None and not store.config.ha_ack_durable:
            self._progress.on_committed = self._replication.note_shippable
        services.start()
        self._progress.begin()
        if self._member is not None:
            self._member.note_opened(self.broker, self._progress, self._requests.end_of_turn_logged)
        await services.wait_attached()
        if self._member is not None:
            await self._member.wait_serving()
        await services.wait_unless_refused(self._wait_dispatched(), ReputClient)
        if self._member is not None and store.config.appends:
            await make_missing_topics(self.broker, store, self._pool)
        self.broker.tick(wall_ms())
        is_alone = self._member is None
        await self._name_servers.register(
            seconds_max=REGISTER_SECONDS_MAX if is_alone else MEMBER_REGISTER_SECONDS_MAX
        )
        await self._server.listen(ports)
        if not self._settings.broker.enable_property_filter:
            self._pool.try_to(make_parser)  # a heartbeat may have expressions all the same
        if self._follower is not None:
            self._follower.start()
        self._log.info("broker accepts", port=self._settings.broker.listen_port)

    async def _load_tables(self) -> None:
        live = self.broker.state.live
        if self._member is not None:
            live.refuse(DECIDED_BY_THE_REGISTER)
        tables = self._tables
        self._backup_notices = await load_tables(tables, self.broker, self.store, self._pool)
        if live.ended:
            tables.save_soon(self.broker, TABLE)

    def _make_server(self) -> Server:
        limits = ServerLimits(
            idle_seconds_max=float(self._settings.broker.server_channel_max_idle_time_seconds),
            backlog=self._settings.broker.server_socket_backlog,
            poll_seconds=POLL_SECONDS,
        )
        self._lanes = Lanes[Connection](
            broker_lanes(self._settings.broker),
            lane_of_code={code: row.lane for code, row in PROCESSORS.items()},
            default_lane="admin",
            bytes_max=limits.lane_bytes_max,
        )
        return Server(
            self._requests,
            self._lanes,
            limits=limits,
            descriptors_max=process_descriptors_max(),
            park=self._requests.park,
            executors=self._requests.executors(),
            in_order_codes=IN_ORDER_CODES,
            answer_error=error_response,
            body_bytes_max=lambda code: self.broker.body_bytes_max(code),
            wall_ms=wall_ms,
        )

    def make_connection(self) -> Connection:
        """Return a connection that comes by calls instead of a port."""
        return self._server.make_connection()

    def drop_connections(self) -> None:
        """Close every connection."""
        self._server.close_channels()

    async def _wait_dispatched(self, physical_offset: int = 0) -> None:
        """Return when consumers can see everything that is readable, and all up to an offset."""
        while self.store.dispatched < max(physical_offset, self._progress.readable):
            self._dispatched.clear()
            await self._dispatched.wait()

    def register(self) -> None:
        """Register with the name servers now, instead of at the end of the period."""
        self._name_servers.register_soon()

    def refuse_sends(self, cause: str) -> None:
        """Take no message from now on, and refuse those that wait for their acknowledgement."""
        self.store.refuse_puts(cause)
        self._progress.refuse_all(cause)

    async def stop(self, *, leaves_route: bool = True) -> bool:
        """Stop in order and return whether the store was left as after a normal exit.

        leaves_route: False if it starts again at once: a name server takes whoever is registered by
            this broker's id for it, also the master that follows it.
        """
        self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        self._certificates.close()
        self._server.stop_listening()
        if self._follower is not None:
            await self._follower.stop()
        if leaves_route:
            await self._name_servers.unregister()
        await self._server.close()
        seconds_max = CATCH_UP_SECONDS_MAX if leaves_route else CHANGE_SECONDS_MAX
        try:
            async with asyncio.timeout(seconds_max):
                await self._wait_dispatched()
        except TimeoutError:
            self._log.warning("stopped before the queues reached the log's end")
        await self.services.stop()
        if self._published is not None:
            self._published.remove()
        unsaved = {TABLE} if self._is_durable() else {TABLE, *POSITIONS}  # each change was saved
        self._tables.save_all(self.broker, except_for=unsaved)
        await self._name_servers.close()
        self._pool.close()
        with suppress(OSError):
            Path(self._plan.runtime_directory).rmdir()
        behind_bytes = self.store.max_physical_offset - self.store.dispatched
        is_clean = self.store.close(dispatch_behind_bytes=behind_bytes)
        # What is not confirmed is not dispatched either. The next start looks at it, in order.
        has_all_confirmed = self.store.dispatched >= self._progress.readable
        is_member = self._member is not None
        return is_clean or (is_member and has_all_confirmed and self._progress.failure is None)

    async def _wait_durable(self, table: str) -> None:
        if table in POSITIONS:
            await self._progress.wait_durable()

    def _is_durable(self) -> bool:
        """Make durable what was put, if Flush has not; return whether all of it is."""
        if self._progress.failure is None and self._progress.flushed < self.store.log.end_offset:
            try:
                self.store.make_durable()
            except StoreError as error:
                self._progress.fail_all(str(error))
        return self._progress.failure is None

    # What service clients call.

    def attach_request(self) -> AttachRequest:
        """Return what a service that is attached now must know."""
        report = self.store.recovery
        return AttachRequest(
            epoch=self.epoch,
            store_id=self.store_id,
            appended=self._progress.appended,
            committed=self.store.max_physical_offset,
            flushed=self._progress.flushed,
            readable=self._progress.readable,
            dispatched=self.store.dispatched,
            delay_positions=self.broker.state.delayed.offsets(),
            clean_exit=report.clean_exit,
            dispatch_from=None if self._has_dispatched else report.dispatch_from,
            store=self._settings.store,
        )

    def is_awaited(self, physical_offset: int) -> bool:
        """Whether a pull is held for a topic that got a message since this was asked before."""
        return self.broker.state.held.waits_for(self.store.take_grown(physical_offset))

    def held_notes(self) -> list[HoldPull]:
        """Return a note of every held pull."""
        return self.broker.state.held.notes()

    def dispatched(self, physical_offset: int) -> None:
        """Let readers see what is in the queues now, and let Schedule check it."""
        self._has_dispatched = True
        self.store.set_dispatched(physical_offset)
        if self._schedule is not None:
            self._schedule.note_dispatched()
        self._dispatched.set()

    def flushed(self, physical_offset: int) -> None:
        """Send the responses that waited for the disk, and the log to slaves."""
        self._progress.note_flushed(physical_offset)
        if self._replication is not None and self.store.config.ha_ack_durable:
            self._replication.note_shippable(physical_offset)
        if self._member is not None:
            self._member.note_flushed(physical_offset)
        elif self._follower is not None:
            self._follower.note_flushed()

    def replicated(self, physical_offset: int, near_count: int) -> None:
        """Send the responses that waited for a slave; let later ones wait for those that count."""
        self.broker.state.replicas.note(physical_offset, near_count)
        self._progress.note_replicated(physical_offset)
        self._progress.sync_every_turn(wanted=near_count > 0 and self.store.config.ha_ack_durable)

    def flush_failed(self, cause: str) -> None:
        """Fail the responses that wait, and accept no more messages."""
        self._store_errors.error("a sync failed: the log takes no more messages", cause=cause)
        self.store.log.fail(cause)
        self._progress.fail_all(cause)

    def committed(self, _physical_offset: int) -> None:
        """Let consumers see what left the transient pool, and have it flushed."""
        self._progress.note_committed()

    def woken(self, hold_ids: Sequence[int]) -> None:
        """Run held pulls again."""
        self._requests.wake(hold_ids)

    async def deliver(self, due: Sequence[DueMessage]) -> Mapping[int, int]:
        """Read due messages in the pool and put them; return the next queue offset by level."""
        records = await self._pool.submit(partial(self.broker.read_due, due))
        positions = self.broker.deliver_due(due, records, wall_ms())
        self._requests.end_of_turn()
        return positions

    async def check_transactions(self, started_ms: int, decide: DecideChecks) -> bool:
        """Have half messages decided about, and do it; return whether the round goes on.

        Everything that was put is dispatched first. So a transaction that was ended a moment ago is
        not asked for: either the queues show it, or it is noted from the beginning on.
        """
        request = self.broker.begin_check(started_ms, wall_ms())
        await self._wait_dispatched(self._progress.appended)
        batch = await decide(request, self.store.dispatched)
        records = await self._pool.submit(partial(self.broker.read_due, batch.decisions))
        has_more = self.broker.carry_out_check(batch, records, wall_ms())
        self._requests.end_of_turn()
        return has_more

    def retained(self, *, begin_offset: int, disk_full: bool) -> None:
        """Forget what Retention has removed, and accept messages or refuse them."""
        self.store.log.files.forget_before(begin_offset)
        self.store.set_disk_full(disk_full)
        self._state_log.disk(full=disk_full)

    def _tick(self) -> None:
        now_ms = wall_ms()
        if self._published is not None:
            self._published.retry()
        self._progress.expire(now_ms)
        self.broker.tick(now_ms)
        if self._state_log.is_due(logged_ms := steady_ms()):
            self._state_log.write_due(
                logged_ms,
                self._lanes.statistics(time.monotonic()),
                appended=self._progress.appended,
                dispatched=self.store.dispatched,
            )
        self._requests.end_of_turn_logged()
        self._set_timer()

    def _set_timer(self) -> None:
        next_ms = self.broker.next_tick_ms()
        deadline_ms = self._progress.next_deadline_ms
        if deadline_ms is not None:
            next_ms = min(next_ms, deadline_ms)
        if not self._timer.is_running or next_ms < self._timer_ms:
            self._timer_ms = next_ms
            self._timer.restart(max(0, next_ms - wall_ms()) / 1000)

    async def measure_by_name(self) -> list[bytes]:
        """Return what is counted or measured by topic, queue and group, in pieces; for a scrape.

        No queues if the disk refuses: other metrics show why.
        """
        selection = select(self.broker.state.offsets)
        traffic = self.broker.state.traffic.statistics()
        end_seconds = time.monotonic() + MEASURE_SECONDS_MAX

        def has_time() -> bool:
            return time.monotonic() < end_seconds

        def pieces() -> Iterator[dict[str, Any]]:
            yield from ({"traffic": piece} for piece in traffic.pieces())
            try:
                yield {"queues": measure(selection, self.store, wall_ms(), has_time)}
            except StoreError as error:
                self._log.warning("queues not measured", cause=str(error))

        encoded: list[bytes] = await self._pool.submit(lambda: encode_pieces(pieces()))
        return encoded

    def _measure(self) -> RuntimeMeasures:
        times = self._requests.times
        return RuntimeMeasures(
            put_ms_max=int(times.put_seconds_max * 1000),
            get_ms_max=int(times.get_seconds_max * 1000),
            put_times=times.put_times.copy(),
            flushed=self._progress.flushed,
            lanes={
                name: (lane.depth_count, int(lane.head_wait_seconds * 1000))
                for name, lane in self._lanes.statistics(time.monotonic()).items()
            },
            troubles=self.services.troubles | self._tables.troubles,
            notices=self._backup_notices,
            actors=self.services.health,
            store=store_health(self.store.recovery, self.services.get(RetentionClient).sums),
        )

    def statistics(self) -> dict[str, Any]:
        """Return everything that the broker reports without waiting, as builtins."""
        return {
            "broker": msgspec.to_builtins(self.broker.statistics(), str_keys=True),
            "server": msgspec.to_builtins(self._server.statistics(), str_keys=True),
            "store": self.store.statistics(),
            **self._requests.statistics(),
            **self._progress.statistics(),
            "pool": self._pool.statistics(),
            "certificates": self._certificates.statistics(),
            "name_servers": self._name_servers.statistics(),
            "following": {} if self._follower is None else self._follower.statistics(),
            "election": {},
            "tables": {
                "saved_count": self._tables.saved_count,
                "failed_count": self._tables.failed_count,
            },
            "service_clients": self.services.statistics(self._tables.troubles),
        }
