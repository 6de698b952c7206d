"""BrokerService: one broker with its store open: how it begins to serve, and how it stops.

It decides nothing. Its parts are complete before it begins (`wiring.py`); requests go through
`requests.py`.

    serve    load the tables; attach the services; have everything dispatched; register; only then
             accept
    drain    have producers move to other brokers; on wish
    stop     accept no more; leave the route; have everything dispatched; save; close

Source: org.apache.rocketmq.broker.BrokerController.start, shutdown (4.9.3).
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from wakelog.actors.broker.client_rates import ANSWER_SECONDS_MAX, ClientRates
from wakelog.actors.broker.ha_client import HaClient
from wakelog.actors.broker.log_progress import LogProgress
from wakelog.actors.broker.member import GroupRun
from wakelog.actors.broker.name_servers import NameServers
from wakelog.actors.broker.own_messages import OwnMessages
from wakelog.actors.broker.recovery_lines import recovery_notices, store_health, write_recovery
from wakelog.actors.broker.requests import Requests
from wakelog.actors.broker.resources import Resources
from wakelog.actors.broker.slave_server import SlaveServer
from wakelog.actors.broker.snapshots import Snapshots
from wakelog.actors.broker.state_log import StateLog
from wakelog.actors.broker.tables_at_start import load_tables, make_missing_topics
from wakelog.actors.broker.time_slice import use_short_slices
from wakelog.actors.services.broker_services import BrokerServices
from wakelog.actors.services.flush_client import FlushClient
from wakelog.actors.services.reput import ReputClient
from wakelog.actors.services.retention import RetentionClient
from wakelog.actors.services.session import AttachRequest
from wakelog.actors.table_files import TableFiles
from wakelog.actors.transport.clocks import steady_ms, wall_ms
from wakelog.actors.transport.stop_limits import CATCH_UP_SECONDS_MAX
from wakelog.actors.transport.timer import Timer
from wakelog.broker.broker import POSITIONS, Broker
from wakelog.broker.drain import Drain
from wakelog.broker.health_values import store_values
from wakelog.broker.processors.statistics import known_values
from wakelog.broker.queue_progress import measure, select
from wakelog.broker.scrape_values import begin_reading, identity_of
from wakelog.broker.seen_queues import SeenQueues
from wakelog.broker.store_stats import RuntimeMeasures
from wakelog.broker.traffic_columns import column_pieces
from wakelog.broker.trouble import Trouble, notice_text
from wakelog.compiled.library import CHOICE
from wakelog.filter.sql92 import compile_filter
from wakelog.network.background import keep, log_failure
from wakelog.network.connection import Connection
from wakelog.storage.errors import StoreError
from wakelog.storage.live_settings import TABLE
from wakelog.telemetry.logs import Log, News, logger
from wakelog.telemetry.pieces import Pace, encode_pieces

GUARD_SECONDS = 1.0
"""A refused 4.9.3 broker leaves the guard open for so long; another takes as long to start."""

MEASURE_SECONDS_MAX = 0.5
"""How long the ends of queues are read for one scrape; half of what the Supervisor waits."""

DRAIN_POLL_SECONDS = 0.2

REGISTER_SECONDS_MAX = 10.0
"""How long a start waits for the name servers; then it accepts without one."""

MEMBER_REGISTER_SECONDS_MAX = 2.0
"""The same for a member of a group with a register: its clients wait for it."""

DECIDED_BY_THE_REGISTER = dict.fromkeys(
    ("brokerRole", "brokerId", "haMasterAddress"), "the register says who is master"
)

Work = Callable[[], Coroutine[Any, Any, None]]

CHANGE_SECONDS_MAX = 2.0
"""How long a stop waits for Reput if the broker starts again at once, in another role."""


class BrokerService:
    """See the module. One loop's thread.

    broker: the core.
    follower: copies a master's tables, and its log if no register does; None for a master.
    member: this broker as a member of a group with a register; None if its settings say which role
        it has.
    """

    def __init__(
        self,
        resources: Resources,
        broker: Broker,
        services: BrokerServices,
        progress: LogProgress,
        requests: Requests,
        tables: TableFiles,
        name_servers: NameServers,
        own_messages: OwnMessages,
        slaves: SlaveServer | None,
        follower: HaClient | None,
        member: GroupRun | None,
    ) -> None:
        self.resources = resources
        self.store, self.store_id = resources.store, resources.store_id
        self.epoch = resources.context.epoch
        self.broker = broker
        self.services = services
        self.progress = progress
        self.requests = requests
        self.own_messages = own_messages
        self.slaves = slaves
        self.follower = follower
        self.member = member
        retention = services.get(RetentionClient)
        self.snapshots = Snapshots(retention, progress, store_id=self.store_id)
        self._retention = retention
        appends = self.store.config.appends
        self._seen = SeenQueues(self.store, self.store.log.queue_offsets if appends else None)
        self._scraping = asyncio.Lock()
        self._tables = tables
        self._name_servers = name_servers
        self._settings = resources.plan.settings
        self._pool = resources.pool
        ask = partial(requests.server.request, timeout_seconds=ANSWER_SECONDS_MAX)
        on_failed = log_failure(logger(Log.BROKER), "rates of clients")
        self._client_rates = ClientRates(ask, resources.pool.submit, on_failed)
        self._backup_notices: dict[str, Trouble] = {}
        self._state_log = StateLog(steady_ms())
        self._timer = Timer(self._tick)
        self._timer_ms = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._has_ended = False
        self._log = logger(Log.BROKER)

    @property
    def notices(self) -> list[str]:
        """What the user who started the broker must know of its store, accounts and group."""
        access = self.broker.state.access
        unusable = []
        if access is not None and not len(access.table) and not access.table.white_addresses:
            unusable.append(f"every request is refused until {access.main_file} has an account")
        backups = [notice_text(name, one) for name, one in self._backup_notices.items()]
        group = [] if self.member is None else self.member.notices
        return [*unusable, *recovery_notices(self.store.recovery), *backups, *group]

    async def serve(self) -> None:
        """Return when the broker is in the route and accepts.

        Raises: PortUnavailable, StoreError, DeploymentFailed, RoleOver; everything is closed then.
        """
        try:
            await self._attach()
            await self._accept()
        except BaseException:
            await self._give_up()
            raise
        self._keep(self._keep_guard, "guard")
        access, files = self.resources.access, self.resources.accounts
        if access is not None:
            self._keep(partial(files.watch, access, self._pool.submit), "accounts")
        self._tick()

    async def _attach(self) -> None:
        """Attach the services, and return when everything is dispatched."""
        store, services, member = self.store, self.services, self.member
        write_recovery(store.recovery)
        live = self.broker.state.live
        if member is not None:
            live.refuse(DECIDED_BY_THE_REGISTER)
        self._backup_notices |= await load_tables(self._tables, self.broker, store, self._pool)
        if live.ended:
            self._tables.save_soon(TABLE)
        if self._settings.broker.enable_property_filter:
            await self._pool.submit(make_parser)
        self.requests.publish_filters()
        if self.slaves is not None:
            self.slaves.open()
        services.start(self.attach_request)
        self.progress.begin()
        await services.wait_attached()
        if member is not None:
            await member.wait_serving()
        await services.wait_unless_refused(self.progress.wait_dispatched(), ReputClient)
        if member is not None and store.config.appends:
            await make_missing_topics(self.broker, store, self._pool)
            # The master before may have registered the same topics as read only: it drained.
            self.broker.state.topics.renew_version(wall_ms())

    async def _accept(self) -> None:
        """Register, then accept."""
        self.broker.tick(wall_ms())
        is_alone = self.member is None
        seconds_max = REGISTER_SECONDS_MAX if is_alone else MEMBER_REGISTER_SECONDS_MAX
        await self._name_servers.register(seconds_max=seconds_max)
        use_short_slices()
        server = self.requests.server
        await server.listen(self.resources.ports)
        self.resources.certificates.watch(server)
        if not self._settings.broker.enable_property_filter:
            self._pool.try_to(make_parser)  # a heartbeat may have expressions all the same
        if self.follower is not None:
            self.follower.start()
        port = self._settings.broker.listen_port
        self._log.info("broker accepts", port=port, sends=str(CHOICE))

    def _keep(self, work: Work, name: str) -> None:
        self._tasks.append(keep(work, log_failure(self._log, name)))

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

    def make_connection(self) -> Connection:
        """Return a connection that comes by calls instead of a port."""
        return self.requests.server.make_connection()

    def drop_connections(self) -> None:
        """Close every connection."""
        self.requests.server.close_channels()

    def register(self) -> None:
        """Register with the name servers now, instead of at the end of the period."""
        if not self._has_ended:
            self._name_servers.register_soon()

    def refuse_sends(self, cause: str) -> None:
        """Take no message from now on, and refuse those that wait for their acknowledgement."""
        self.store.refuse_puts(cause)
        self.progress.refuse_all(cause)

    async def drain(self, seconds_max: float) -> None:
        """Return when clients have moved to other brokers, or after `seconds_max`; see `Drain`.

        At once if there is no other broker: its producers could only fail earlier.
        """
        if not await self._name_servers.has_others():
            return
        broker, held = self.broker, self.broker.state.held
        drain = Drain(steady_ms(), int(seconds_max * 1000), broker.sends_count, held.next_id)
        broker.begin_drain(wall_ms())
        await self._name_servers.register(seconds_max=seconds_max)
        awaited = ""
        while waits_for := drain.waits_for(
            steady_ms(), broker.sends_count, has_held=held.has_before(drain.next_hold_id)
        ):
            if waits_for != awaited:
                awaited = waits_for
                self._log.info("broker drains", waits_for=awaited)
            await asyncio.sleep(DRAIN_POLL_SECONDS)
        self._log.info("broker drained", held_count=len(held))

    async def stop(self, *, leaves_route: bool = True) -> bool:
        """Stop in order and return whether the store was left as after a normal exit.

        leaves_route: False if it starts again at once: a name server takes whoever is registered by
            this broker's id for it, also the master that follows it.
        """
        self._end()
        self.requests.server.stop_listening()
        if self.follower is not None:
            await self.follower.stop()
        if leaves_route:
            await self._name_servers.unregister()
        await self.requests.server.close()
        seconds_max = CATCH_UP_SECONDS_MAX if leaves_route else CHANGE_SECONDS_MAX
        try:
            async with asyncio.timeout(seconds_max):
                await self.progress.wait_dispatched()
        except TimeoutError:
            self._log.warning("stopped before the queues reached the log's end")
        await self._stop_services()
        self.requests.remove_filters()
        unsaved = {TABLE} if self._is_durable() else {TABLE, *POSITIONS}  # each change was saved
        self._tables.save_all(except_for=unsaved)
        await self._name_servers.close()
        self._pool.close()
        with suppress(OSError):
            Path(self.resources.plan.runtime_directory).rmdir()
        behind_bytes = self.store.max_physical_offset - self.store.dispatched
        is_clean = self.store.close(dispatch_behind_bytes=behind_bytes)
        # What is not confirmed is not dispatched either. The next start looks at it, in order.
        has_all_confirmed = self.store.dispatched >= self.progress.readable
        is_member = self.member is not None
        return is_clean or (is_member and has_all_confirmed and self.progress.failure is None)

    def _end(self) -> None:
        self._has_ended = True
        self._timer.cancel()
        self._client_rates.stop()
        for task in self._tasks:
            task.cancel()
        self.resources.certificates.close()

    async def _stop_services(self) -> None:
        if self.slaves is not None:
            await self.slaves.close()
        await self.services.stop()

    async def _give_up(self) -> None:
        """Close everything after a start that failed, and leave the store as after a crash."""
        self._end()
        # First of all: one of two ports may accept when the other cannot.
        await self.requests.server.close()
        await self._stop_services()
        await self._name_servers.close()
        self.store.close(dispatch_behind_bytes=1)
        self.resources.ports.close()
        self._tables.close()
        self._pool.close()

    def _is_durable(self) -> bool:
        """Make durable what was put, if Flush has not; return whether all of it is."""
        if self.progress.failure is None and self.progress.flushed < self.store.log.end_offset:
            try:
                self.store.make_durable()
            except StoreError as error:
                self.progress.fail_all(str(error))
        return self.progress.failure is None

    def attach_request(self) -> AttachRequest:
        """Return what a service that is attached now must know."""
        report = self.store.recovery
        return AttachRequest(
            epoch=self.epoch,
            store_id=self.store_id,
            appended=self.progress.appended,
            committed=self.store.max_physical_offset,
            flushed=self.progress.flushed,
            readable=self.progress.readable,
            dispatched=self.store.dispatched,
            delay_positions=self.broker.state.delayed.offsets(),
            clean_exit=report.clean_exit,
            dispatch_from=None if self.progress.has_dispatched else report.dispatch_from,
            store=self._settings.store,
        )

    def on_retained(self, begin_offset: int, is_disk_full: bool) -> None:
        """Forget what Retention has removed, and accept messages or refuse them."""
        self.store.log.files.forget_before(begin_offset)
        self.store.set_disk_full(is_disk_full)
        self._state_log.disk(full=is_disk_full)

    def _tick(self) -> None:
        now_ms = wall_ms()
        self.requests.retry_filters()
        self.progress.expire(now_ms)
        self.broker.tick(now_ms)
        if self._state_log.is_due(logged_ms := steady_ms()):
            self._state_log.write_due(
                logged_ms,
                self.requests.lanes.statistics(time.monotonic()),
                appended=self.progress.appended,
                dispatched=self.store.dispatched,
            )
        self.requests.end_of_turn_logged()
        self.set_timer()

    def set_timer(self) -> None:
        """Tick at the next deadline, which may have changed."""
        next_ms = self.broker.next_tick_ms()
        deadline_ms = self.progress.next_deadline_ms
        if deadline_ms is not None:
            next_ms = min(next_ms, deadline_ms)
        if not self._timer.is_running or next_ms < self._timer_ms:
            self._timer_ms = next_ms
            self._timer.restart(max(0, next_ms - wall_ms()) / 1000)

    async def measure_by_name(self, has_other_names: bool = False) -> list[bytes]:
        """Return what is counted or measured by topic, queue and group, in pieces; for a scrape.

        No queues if the disk refuses: other metrics show why.
        has_other_names: with what families need that have the names of elsewhere.
        """
        if self._has_ended:
            return []
        state = self.broker.state
        async with self._scraping:
            selection = select(state.offsets)
            traffic, minute = state.traffic.statistics(), state.traffic.minute()
            other_pieces = begin_reading(state, wall_ms()) if has_other_names else None
            rates = self._client_rates.found
            if has_other_names and not state.is_slave:
                self._client_rates.refresh(state.consumers, steady_ms())

            def read() -> list[bytes]:
                pace, end_seconds = Pace(), time.monotonic() + MEASURE_SECONDS_MAX

                def has_time() -> bool:
                    pace.keep()
                    return time.monotonic() < end_seconds

                def pieces() -> Iterator[dict[str, Any]]:
                    yield from column_pieces(traffic, minute if has_other_names else None)
                    try:
                        if other_pieces is not None:
                            yield {"members": {"rates": rates}}
                            yield from other_pieces()
                        found = measure(selection, self._seen, wall_ms(), has_time, minute)
                        yield {"queues": found}
                    except StoreError as error:
                        self._log.warning("queues not measured", cause=str(error))

                return encode_pieces(pieces(), pace)

            encoded: list[bytes] = await self._pool.submit(read)
        return encoded

    def measure(self) -> RuntimeMeasures:
        """Return what an operator is told of the broker at work."""
        times = self.requests.times
        return RuntimeMeasures(
            put_ms_max=int(times.put_seconds_max * 1000),
            get_ms_max=int(times.get_seconds_max * 1000),
            put_times=times.put_times.copy(),
            flushed=self.progress.flushed,
            lanes={
                name: (lane.depth_count, int(lane.head_wait_seconds * 1000))
                for name, lane in self.requests.lanes.statistics(time.monotonic()).items()
            },
            troubles=self.services.troubles | self._tables.troubles,
            notices=self._backup_notices,
            actors=self.services.health,
            store=store_health(self.store.recovery, self._retention.sums),
            disk_full=self.store.lacks_space,
            log_failure=self.store.log.failure or "",
            late_sync_ms=self.services.get(FlushClient).late_ms,
        )

    def health(self) -> dict[str, Any]:
        """Return what the broker says of itself, without a wait, as builtins."""
        config, measures = self._settings.broker, self.measure()
        values = known_values(self.broker.state, measures, wall_ms())
        if measures.store is not None:
            values.update(store_values(measures.store))
        return {
            "name": config.broker_name,
            "broker_id": self.broker.state.config.broker_id,
            "address": config.broker_addr,
            "values": values,
        }

    def statistics(self) -> dict[str, Any]:
        """Return everything that the broker reports without waiting, as builtins."""
        found = {
            "identity": identity_of(self.broker.state),
            "broker": msgspec.to_builtins(self.broker.statistics(), str_keys=True),
            "server": msgspec.to_builtins(self.requests.server.statistics(), str_keys=True),
            "store": self.store.statistics(),
            **self.requests.statistics(),
            **self.progress.statistics(),
            "pool": self._pool.statistics(),
            "certificates": self.resources.certificates.statistics(),
            "name_servers": self._name_servers.statistics(),
            "slaves": {} if self.slaves is None else self.slaves.statistics(),
            "following": {} if self.follower is None else self.follower.statistics(),
            "election": {},
            "tables": {
                "saved_count": self._tables.saved_count,
                "failed_count": self._tables.failed_count,
            },
            "service_clients": self.services.statistics(self._tables.troubles),
        }
        return found if self.member is None else self.member.add_statistics(found)


def make_parser() -> None:
    """Make the parser of expressions: the first one takes 50 ms."""
    compile_filter("TRUE")
