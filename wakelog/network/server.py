"""Server: the ports of a broker or a name server, and the life of their connections.

It puts the parts together. Listening sockets make Connections, Connections deliver to the Turn, and
the Turn calls the handler. One timer measures how late the loop is, another closes connections that
may not stay. The server runs on the loop on which it is made; every method is for that thread.

Life: make it; ``listen`` on ports that were bound before (`bound_ports`), once the owner is ready
for requests; ``stop_listening``; ``close``.

Source: org.apache.rocketmq.remoting.netty.NettyRemotingServer (4.9.3).
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any

import msgspec

from wakelog.network import refusals
from wakelog.network.activity import CloseReason, verdict
from wakelog.network.bound_ports import BoundPorts
from wakelog.network.connection import Connection, close_all
from wakelog.network.connection_table import (
    ConnectionStatistics,
    ConnectionTable,
    largest_holders,
)
from wakelog.network.driver import Executor
from wakelog.network.errors import CallTimeout, SendFailed
from wakelog.network.handler import (
    AnswerError,
    AnswerLoneSend,
    Handler,
    Park,
    ProcessRun,
    park_nothing,
)
from wakelog.network.handshake_line import HandshakeLine
from wakelog.network.lanes import Lanes, LaneSpec, LaneStatistics
from wakelog.network.limits import ServerLimits
from wakelog.network.loop_lag import PROBE_SECONDS, LoopLag, LoopLagStatistics
from wakelog.network.time_share import run_for_a_share
from wakelog.network.tls import WITHOUT_TLS, ServerContext, TlsMode
from wakelog.network.tls_gate import TlsGate
from wakelog.network.turn import Turn
from wakelog.network.turn_statistics import TurnStatistics
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.frame import BodyBytesMax
from wakelog.telemetry.logs import LineBudget, Log, logger

SWEEP_SECONDS = 5.0
"""How often connections are checked; it adds to every limit on their time."""

GRACE_SECONDS = 5.0
"""How long a server that closes goes on with what has come, and peers may take to read answers."""

LAST_TURNS_SECONDS = 1.0
"""How long it then goes on with what the closed connections have left."""

CLOSE_SECONDS_MAX = GRACE_SECONDS + LAST_TURNS_SECONDS
"""How long a server may take to close."""

QUIET_REASONS = frozenset({CloseReason.PEER, CloseReason.REQUESTED, CloseReason.SERVER_STOPPED})
"""Ends of connections without a fault, which are not worth a warning."""


class ServerStatistics(msgspec.Struct, frozen=True):
    """The counts of every part of a server."""

    connections: ConnectionStatistics
    lanes: dict[str, LaneStatistics]
    turn: TurnStatistics
    loop_lag: LoopLagStatistics


class Server:
    """Ports, connections and turns of one handler."""

    def __init__(
        self,
        handler: Handler,
        lanes: Lanes[Connection],
        *,
        limits: ServerLimits,
        descriptors_max: int,
        executors: Mapping[type, Executor],
        in_order_codes: Collection[int] = (),
        park: Park = park_nothing,
        answer_error: AnswerError = refusals.failed,
        tls: ServerContext = WITHOUT_TLS,
        body_bytes_max: BodyBytesMax | None = None,
        process_run: ProcessRun | None = None,
        answer_lone_send: AnswerLoneSend | None = None,
        clock_seconds: Callable[[], float] = time.monotonic,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """Listen on no port yet; a loop must be running.

        descriptors_max: how many descriptors this process may have open.
        body_bytes_max: a request with a longer body comes without it.
        process_run: handles plain sends that came together; None if none are gathered.
        answer_lone_send: handles one that came alone; None if it is a request like others.
        """
        self._gathers_sends = process_run is not None
        self._loop = asyncio.get_running_loop()
        self._body_bytes_max = body_bytes_max
        self._limits = limits
        self._clock_seconds = clock_seconds
        self._lanes = lanes
        self.use_tls(tls)
        self._handshake_line = HandshakeLine(self._loop.call_soon)
        self._loop_lag = LoopLag(self._start_probe)
        self._turn = Turn(
            handler,
            lanes,
            loop_lag=self._loop_lag,
            limits=limits,
            park=park,
            executors=executors,
            in_order_codes=in_order_codes,
            answer_error=answer_error,
            process_run=process_run,
            answer_lone_send=answer_lone_send,
            call_soon=self._loop.call_soon,
            call_later=self._loop.call_later,
            clock_seconds=clock_seconds,
            wall_ms=wall_ms,
        )
        # A ConnectionOwner, without a call in between.
        self.deliver = self._turn.deliver
        self._answers_alone = None if answer_lone_send is None else self._turn.answers_alone
        self.send = self._turn.push
        self.defers = self._turn.defers
        allowed = limits.connections_allowed(descriptors_max)
        self._table = ConnectionTable(
            connections_max=allowed,
            connections_per_host_max=min(allowed, limits.connections_per_host_max),
        )
        self._listening: list[asyncio.Server] = []
        self._is_stopped = False
        self._probe_timer: asyncio.TimerHandle | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._uncounted_bytes = 0
        self._unswept: deque[Connection] = deque()
        self._closing: deque[int] = deque()
        self._log = logger(Log.REMOTING)
        self._line_budget = LineBudget()

    async def listen(self, ports: BoundPorts) -> None:
        """Accept connections on every bound port. Raises: PortUnavailable."""
        self._listening += await ports.listen(self._accept, self._limits.backlog)
        self._sweep_timer = self._loop.call_later(SWEEP_SECONDS, self._sweep_again)

    def use_tls(self, tls: ServerContext) -> None:
        """Use certificates for the connections that are accepted from now on."""
        self._tls = tls

    def make_connection(self, refused_codes: Collection[int] = frozenset()) -> Connection:
        """Return a connection that waits for its transport: of a port, or of other calls."""
        return Connection(
            self,
            self._limits,
            refused_codes=refused_codes,
            clock_seconds=self._clock_seconds,
            body_bytes_max=self._body_bytes_max,
            gathers_sends=self._gathers_sends,
            answers_alone=self._answers_alone,
        )

    def _accept(self, refused_codes: Collection[int]) -> asyncio.Protocol:
        connection = self.make_connection(refused_codes)
        if self._tls.mode is TlsMode.DISABLED:
            return connection
        return TlsGate(
            connection,
            self._tls,
            self._handshake_line,
            handshake_seconds_max=self._limits.handshake_seconds_max,
        )

    def stop_listening(self) -> None:
        """Accept no more connections; those that are open go on."""
        self._is_stopped = True
        for listening in self._listening:
            listening.close()
        self._listening.clear()

    async def close(self, *, grace_seconds: float = GRACE_SECONDS) -> None:
        """Answer what waits, close every connection, and wait until they are closed.

        A connection whose peer does not read its responses within ``grace_seconds`` is aborted.
        Work that is not at its end ``LAST_TURNS_SECONDS`` later is left.
        """
        self.stop_listening()
        deadline_seconds = self._clock_seconds() + grace_seconds
        while self._lanes.waiting_count or self._turn.unfinished_count:
            if self._clock_seconds() >= deadline_seconds:
                break
            await asyncio.sleep(0)
        left_seconds = max(0.0, deadline_seconds - self._clock_seconds())
        await close_all(self._table, CloseReason.SERVER_STOPPED, seconds_max=left_seconds)
        deadline_seconds = self._clock_seconds() + LAST_TURNS_SECONDS
        while self._turn.is_scheduled and self._clock_seconds() < deadline_seconds:
            # The last closed connection is not yet reported to the handler.
            await asyncio.sleep(0)
        for timer in (self._probe_timer, self._sweep_timer):
            if timer is not None:
                timer.cancel()

    def carry_on(self, channel_id: int, request: RemotingCommand, outcome: Any) -> None:
        """Carry on a request that came earlier, as if `process` had returned this outcome."""
        connection = self._table.get(channel_id)
        if connection is not None:
            self._turn.carry_on(connection, request, outcome)
            self._turn.schedule()

    @property
    def is_crowded(self) -> bool:
        """Whether too many requests wait for effects: an executor without a limit begins none."""
        return self._turn.is_crowded

    def run_turn(self) -> None:
        """Do the turn that is scheduled now, and not in the loop's next iteration."""
        self._turn.run()

    def push(self, channel_id: int, command: RemotingCommand) -> bool:
        """Send a request to a connection without waiting for a response; False if it is closed."""
        connection = self._table.get(channel_id)
        return connection is not None and self._turn.push(connection, command)

    async def request(
        self, channel_id: int, command: RemotingCommand, *, timeout_seconds: float
    ) -> RemotingCommand:
        """Send a request to a connection and return its response, whatever its code.

        Raises: SendFailed, CallTimeout, TooManyCalls.
        """
        connection = self._table.get(channel_id)
        if connection is None:
            raise SendFailed(f"channel {channel_id}", "the connection is closed")
        try:
            async with asyncio.timeout(timeout_seconds):
                return await connection.request(command)
        except TimeoutError:
            raise CallTimeout.after(connection.address, timeout_seconds * 1000) from None

    def close_channel(self, channel_id: int) -> None:
        """Close a connection after the responses of this turn, if it is still open then."""
        if not self._closing:
            self._loop.call_soon(self._close_some)
        self._closing.append(channel_id)

    def _close_some(self) -> None:
        """Close connections for one budget: the clients of thousands may expire at once."""
        if self._for_a_budget(self._close_next):
            self._loop.call_soon(self._close_some)

    def _close_next(self) -> bool:
        connection = self._table.get(self._closing.popleft())
        if connection is not None:
            connection.close(CloseReason.REQUESTED)
        return bool(self._closing)

    def _for_a_budget(self, step: Callable[[], bool]) -> bool:
        return run_for_a_share(step, self._limits.turn_budget_seconds, self._clock_seconds)

    def change_waits(self, specs: Iterable[LaneSpec]) -> None:
        """Take the limits on waiting in lanes from these specs."""
        self._lanes.change_waits(specs)

    def close_channels(self) -> None:
        """Close every connection; the ports stay open."""
        for connection in list(self._table):
            connection.close(CloseReason.REQUESTED)

    def opened(self, connection: Connection) -> CloseReason | None:
        """Add a connection, or return why it may not stay (ConnectionOwner).

        Those that come by no port would else stay at a server that has stopped.
        """
        return CloseReason.SERVER_STOPPED if self._is_stopped else self._table.add(connection)

    def closed(self, connection: Connection, reason: CloseReason, detail: str) -> None:
        """Remove a connection (ConnectionOwner)."""
        was_added = self._table.remove(connection, reason)
        if reason not in QUIET_REASONS and self._line_budget.allows(self._clock_seconds()):
            self._log.warning(
                "connection closed", peer=connection.address, reason=reason.value, detail=detail
            )
        if was_added:
            self._turn.channel_closed(connection)

    def on_held(self, size_bytes: int) -> None:
        """Count what connections hold after each ``held_bytes_step`` (ConnectionOwner)."""
        self._uncounted_bytes += size_bytes
        if self._uncounted_bytes >= self._limits.held_bytes_step:
            self._uncounted_bytes = 0
            self._limit_held()

    def _limit_held(self) -> None:
        """Close the connections that hold most, if all together hold too much."""
        connections = list(self._table)
        held_bytes = [connection.held_bytes for connection in connections]
        for place in largest_holders(held_bytes, self._limits.held_bytes_max):
            detail = f"{held_bytes[place]} of {sum(held_bytes)} bytes that connections hold"
            connections[place].abort(CloseReason.MEMORY, detail)

    def _probe(self) -> None:
        """Measure how late the loop is, repeatedly while requests arrive."""
        self._loop_lag.on_probe(self._clock_seconds())
        # The first call_soon still runs before this iteration reads sockets, the second after.
        self._loop.call_soon(self._loop.call_soon, self._loop_lag.end_iteration)
        if self._loop_lag.is_probe_wanted:
            self._start_probe()

    def _start_probe(self) -> None:
        self._probe_timer = self._loop.call_later(PROBE_SECONDS, self._probe)

    def _sweep_again(self) -> None:
        self.sweep()
        self._sweep_timer = self._loop.call_later(SWEEP_SECONDS, self._sweep_again)

    def sweep(self) -> None:
        """Close the connections that may not stay; a timer calls it each ``SWEEP_SECONDS``."""
        is_under_way = bool(self._unswept)
        self._unswept = deque(self._table)
        if not is_under_way:
            self._sweep_some()

    def _sweep_some(self) -> None:
        """Look at connections for one budget: ten thousand may have to go at once."""
        now_seconds = self._clock_seconds()
        if self._unswept and self._for_a_budget(partial(self._check_next, now_seconds)):
            self._loop.call_soon(self._sweep_some)
        else:
            self._limit_held()

    def _check_next(self, now_seconds: float) -> bool:
        connection = self._unswept.popleft()
        connection.observe(now_seconds)
        reason = verdict(connection.activity, now_seconds, self._limits)
        if reason is not None:
            connection.abort(reason)
        return bool(self._unswept)

    def statistics(self) -> ServerStatistics:
        """Return the counts of every part as one value."""
        return ServerStatistics(
            connections=self._table.statistics(),
            lanes=self._lanes.statistics(self._clock_seconds()),
            turn=self._turn.statistics(),
            loop_lag=self._loop_lag.statistics(),
        )
