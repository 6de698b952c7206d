"""The name server without Ray (`NameServerService`), and the actor around it.

The service decides nothing. A request goes from the server to the core; what the core instructs is
done; the timer calls the core's tick.

    start   lock the folder of the files; bind the port; load kvConfig.json; accept
    stop    accept no more; send the answers that wait for the file; close; free the folder

A thread loads and saves the file; everything else runs on the loop's thread.

Invariants:
    - no answer to a request that changed a value leaves before the file with that value is durable.
    - at most one save is under way; changes made meanwhile share the next.

Source: org.apache.rocketmq.namesrv.NamesrvController, NamesrvStartup (4.9.3).
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Coroutine, Generator
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final

import msgspec

from wakelog.actors.broker.account_files import AccountFiles
from wakelog.actors.certificates import Certificates, read_certificates
from wakelog.actors.errors import DeploymentFailed
from wakelog.actors.ray.options import own_node_id
from wakelog.actors.services.session import open_logs
from wakelog.actors.start_outcome import describe_failure, started
from wakelog.actors.table_files import TableFiles, backup_notice
from wakelog.actors.transport.channel_actor import ChannelActor
from wakelog.actors.transport.clocks import wall_ms
from wakelog.actors.transport.service_plan import NameServerPlan
from wakelog.actors.transport.timer import Timer
from wakelog.broker.access.administrators import Administrators, read_trusted
from wakelog.broker.access.control import AccessControl
from wakelog.broker.trouble import notice_text
from wakelog.nameserver.config import NameServerConfig, path_of_file, path_of_lock
from wakelog.nameserver.decision import (
    BrokerJoined,
    BrokerLeft,
    CloseChannel,
    ConfigurationChanged,
    ForgetTopics,
    NotAllowed,
    TableSaved,
)
from wakelog.nameserver.lane_table import (
    BROKERS_CODES,
    BROKERS_LANE,
    DEFAULT_LANE,
    name_server_lanes,
)
from wakelog.nameserver.name_server import NameServer
from wakelog.network.audit_line import AuditLine
from wakelog.network.background import keep, log_failure
from wakelog.network.bound_ports import BoundPorts
from wakelog.network.connection import Connection
from wakelog.network.driver import CROWDED, STEPS_SECONDS, Task, Work
from wakelog.network.errors import PortUnavailable, TlsRefused
from wakelog.network.handler import Channel
from wakelog.network.lanes import Lanes
from wakelog.network.limits import ServerLimits
from wakelog.network.server import Server
from wakelog.network.time_share import run_for_a_share
from wakelog.protocol.command import RemotingCommand
from wakelog.storage.durability.config_files import ConfigFiles
from wakelog.storage.durability.store_lock import StoreLock
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import FileSystem, process_descriptors_max
from wakelog.storage.live_settings import TABLE
from wakelog.telemetry.logs import LineBudget, Log, logger
from wakelog.typed_values import convert

ACTOR: Final = "namesrv"
"""Of its lines, and at the end of the names of its files."""

EVENTS = {
    BrokerJoined: (logging.INFO, "broker registered"),
    ConfigurationChanged: (logging.INFO, "configuration changed"),
    BrokerLeft: (logging.WARNING, "broker left"),
}


async def start_name_server(
    plan: NameServerPlan, *, fs: FileSystem | None = None
) -> "NameServerService":
    """Return a name server that accepts.

    Raises: StoreLocked if another process has the folder, PortUnavailable, TlsRefused,
        DamagedStore, StoreFailed, DeploymentFailed; nothing is left open then.
    """
    run = partial(asyncio.get_running_loop().run_in_executor, None)
    config, fs = plan.settings.config, fs or FileSystem()
    async with AsyncExitStack() as undo:
        # Other name servers must not save these files: the last would undo what they answered.
        lock = await run(StoreLock, fs, path_of_lock(config))
        undo.callback(lock.release)
        ports = BoundPorts()
        undo.callback(ports.close)
        port = ports.bind(plan.bind_host, config.listen_port)
        accounts = AccountFiles(plan.accounts_home) if plan.accounts_home else None
        access = None if accounts is None else AccessControl(await run(accounts.open))
        check = Administrators(read_trusted(plan.trusted_addresses), access).check
        core = NameServer(plan.settings, wall_ms(), check)
        files = ConfigFiles(fs, partial(path_of_file, config))
        tables = TableFiles(core, files, Log.NAME_SERVER, "name-server-save")
        undo.callback(tables.close)
        await run(partial(tables.load_all, {}))
        certificates = await read_certificates(plan.tls)
        service = NameServerService(config, core, tables, lock, certificates, port)
        await service.listen(ports)
        undo.pop_all()
    if accounts is not None and access is not None:
        service.watch(partial(accounts.watch, access, run), "accounts")
    return service


class NameServerService:
    """One name server in this process; `start_name_server` makes it.

    port: the one that it has.
    """

    def __init__(
        self,
        config: NameServerConfig,
        core: NameServer,
        tables: TableFiles,
        lock: StoreLock,
        certificates: Certificates,
        port: int,
    ) -> None:
        self.name_server = core
        self.port = port
        self._tables = tables
        self._lock = lock
        self._certificates = certificates
        self._server = self._make_server(config)
        self._timer = Timer(self._tick)
        self._log = logger(Log.NAME_SERVER)
        self._line_budget = LineBudget()
        self._watches: list[asyncio.Task[None]] = []
        self._is_forgetting = False

    @property
    def notices(self) -> list[str]:
        """What the user who started the name server must know of its file."""
        return [
            notice_text(f"{name}.json", backup_notice(name, backup, []))
            for name, backup in self._tables.backups.items()
        ]

    async def listen(self, ports: BoundPorts) -> None:
        """Accept from now on. Raises: PortUnavailable."""
        await self._server.listen(ports)
        self._certificates.watch(self._server)
        if self.name_server.live.ended:
            self._tables.save_soon(TABLE)
        self._tick()

    def watch(self, watch: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        """Watch files until the stop."""
        self._watches.append(keep(watch, log_failure(self._log, name)))

    def _make_server(self, config: NameServerConfig) -> Server:
        limits = ServerLimits(
            idle_seconds_max=config.server_channel_max_idle_time_seconds,
            backlog=config.server_socket_backlog,
        )
        lanes: Lanes[Connection] = Lanes(
            name_server_lanes(),
            lane_of_code=dict.fromkeys(BROKERS_CODES, BROKERS_LANE),
            default_lane=DEFAULT_LANE,
            bytes_max=limits.lane_bytes_max,
        )
        return Server(
            self,
            lanes,
            limits=limits,
            descriptors_max=process_descriptors_max(),
            executors={TableSaved: self._save},
            tls=self._certificates.context,
            body_bytes_max=self.name_server.body_bytes_max,
            wall_ms=wall_ms,
        )

    def make_connection(self) -> Connection:
        """Return a connection that comes by calls instead of the port."""
        return self._server.make_connection()

    # Handler: called by the server.
    def process(
        self, request: RemotingCommand, channel: Channel, now_ms: int
    ) -> RemotingCommand | Work | None:
        """Pass a request to the core."""
        response = self.name_server.process(request, channel, now_ms)
        if isinstance(response, Generator):
            return self._carry_out(response)
        self._follow_instructions()
        return response

    def _carry_out(self, work: Work) -> Work:
        """Pass on the work of the core, and do what it has instructed."""
        try:
            return (yield from work)
        finally:
            self._follow_instructions()

    def write(self, began_seconds: float) -> None:
        """Do nothing: each answer waits for its own save."""

    def end_of_turn(self) -> None:
        """Do nothing: instructions were followed at once."""

    def channel_closed(self, channel: Channel, now_ms: int) -> bool:
        """Report it to the core; True if it is to be reported again."""
        has_more = self.name_server.channel_closed(channel)
        self._follow_instructions()
        return has_more

    def _follow_instructions(self) -> None:
        """Do what the core instructs."""
        for instruction in self.name_server.take_instructions():
            match instruction:
                case AuditLine(event, values, is_failed):
                    if not is_failed or self._line_budget.allows(time.monotonic()):
                        # The process may be a broker's as well, whose line it is not.
                        logger(Log.AUDIT).info(event, actor=ACTOR, broker="", **values)
                case CloseChannel(channel_id):
                    self._server.close_channel(channel_id)
                case ForgetTopics():
                    if not self._is_forgetting:
                        self._is_forgetting = True
                        asyncio.get_running_loop().call_soon(self._forget_some)
                case BrokerJoined() | ConfigurationChanged() | BrokerLeft():
                    level, event = EVENTS[type(instruction)]
                    self._log.log(level, event, **msgspec.to_builtins(instruction))
                case NotAllowed():
                    if self._line_budget.allows(time.monotonic()):
                        self._log.warning("not allowed", **msgspec.to_builtins(instruction))

    def _forget_some(self) -> None:
        """Forget topics of brokers that have left, as long as other long work may take."""
        self._is_forgetting = run_for_a_share(self.name_server.forget_some, STEPS_SECONDS)
        if self._is_forgetting:
            asyncio.get_running_loop().call_soon(self._forget_some)

    def _save(self, effect: TableSaved, task: Task) -> None:
        def resume(error: BaseException | None) -> None:
            task.resume("" if error is None else str(error))

        if self._server.is_crowded:
            if effect.undo is not None:
                effect.undo()
            task.resume(CROWDED)
            return
        self._tables.save_soon(effect.table, resume, undo=effect.undo)

    def _tick(self) -> None:
        now_ms = wall_ms()
        self.name_server.tick(now_ms)
        self._follow_instructions()
        self._timer.restart_at(self.name_server.next_tick_ms(), now_ms)

    def statistics(self) -> dict[str, Any]:
        """Return everything this name server can be asked, as builtins."""
        return {
            "name_server": msgspec.to_builtins(self.name_server.statistics(), str_keys=True),
            "server": msgspec.to_builtins(self._server.statistics(), str_keys=True),
            "certificates": self._certificates.statistics(),
            "saves_count": self._tables.saved_count + self._tables.failed_count,
            "saves_failed_count": self._tables.failed_count,
        }

    async def stop(self) -> None:
        """Send the answers that wait, then close every connection, which brokers notice."""
        self._timer.cancel()
        self._certificates.close()
        for watch in self._watches:
            watch.cancel()
        self._server.stop_listening()
        await self._tables.wait_saved()
        await self._server.close()
        # A request that still waited in the lane may have changed a value.
        await self._tables.wait_saved()
        self._tables.close()
        self._lock.release()


class NameServerActor(ChannelActor):
    """One name server; `start` after each construction."""

    def __init__(self, plan: dict[str, Any]) -> None:
        super().__init__()
        self._plan = convert(plan, NameServerPlan)
        self._service: NameServerService | None = None

    async def address(self) -> str:
        """Return the address by which clients reach this name server over TCP."""
        planned = self._plan.settings.config.listen_port
        port = planned if self._service is None else self._service.port
        return f"{self._plan.advertised_host}:{port}"

    async def start(self) -> dict[str, Any]:
        """Start unless it runs; return its port and node, or why it cannot start."""
        async with self._starting:
            if self._service is None:
                open_logs(self._plan, ACTOR, wall_ms())
                try:
                    service = await start_name_server(self._plan)
                except (StoreError, PortUnavailable, TlsRefused, DeploymentFailed) as error:
                    return describe_failure(error)
                self._service = service
                self.open_channels(service.make_connection)
            return started(
                port=self._service.port, node_id=own_node_id(), notices=self._service.notices
            )

    async def stop(self) -> None:
        """Stop in order."""
        async with self._starting:
            service, self._service = self._service, None
            self.close_channels()
            if service is not None:
                await service.stop()

    def statistics(self) -> dict[str, Any]:
        """Return what the name server reports."""
        if self._service is None:
            return {}
        return {**self._service.statistics(), "process_id": os.getpid()}
