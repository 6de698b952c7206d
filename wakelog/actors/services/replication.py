"""Replication: accepts slaves, and sends them the log as far as it is durable.

With `haAckDurable=false` that is as far as it is written. It reads the segments itself, and what is
not in the page cache in a thread. With notifications it is notified when there is more and slaves
count. It stores `replicated` and how many slaves count, and notifies the Broker. By reference the
Broker calls `exchange`, which waits a little for an acknowledgement. Both happen beside its
sockets, which are in a loop of their own.

If it dies, connections end, and slaves count for nothing until they have reported again.

Source: org.apache.rocketmq.store.ha.HAService.AcceptSocketService, GroupTransferService,
HAConnection (4.9.3).
"""

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Final, cast

from wakelog.actors.services.client import BrokerContext, ServiceClient, ServiceLost
from wakelog.actors.services.log_pieces import LogPieces
from wakelog.actors.services.service import Service
from wakelog.actors.services.session import BROKER, AttachRequest, Refused
from wakelog.actors.transport.calls import ServiceCalls
from wakelog.actors.transport.clocks import steady_ms
from wakelog.actors.transport.loop_thread import LoopThread
from wakelog.actors.transport.notifications import Note
from wakelog.actors.transport.shared_watermarks import SharedWatermark
from wakelog.actors.transport.timer import Timer
from wakelog.broker.access.addresses import is_this_host
from wakelog.broker.access.administrators import TRUSTED_ADDRESSES_KEY, read_trusted
from wakelog.broker.replication.shipping import LogRange, Piece, Shipping, ShippingSettings
from wakelog.storage.errors import StoreError
from wakelog.storage.log.commit_log_reader import commit_log_files
from wakelog.storage.log.mapped_file import MappedFile
from wakelog.telemetry.logs import LineBudget, Log, logger

SLAVES_MAX: Final = 16
"""Connections at the same time; each may hold a segment open."""

REFUSED_MAX: Final = 64
"""Refused connections that are held at the same time. More are closed at once: whoever reaches the
port may open thousands, and each would take a descriptor for 10 s."""

PIECES_PER_TURN: Final = 32
"""How many frames of 32 KiB one slave gets before the next one's turn."""

CHECK_SECONDS: Final = 1.0
"""How often progress is read while slaves are connected: a notification may be lost."""

CLOSING_TURNS: Final = 3
"""Of the loop, until a connection that was aborted has closed its socket."""

EXCHANGE_SECONDS: Final = 0.05
"""How long `exchange` waits for an acknowledgement."""


class ReplicationService(Service):
    """The service of `broker.replication.shipping`."""

    def begin(self, request: AttachRequest) -> dict[str, Any]:
        """Listen for slaves. Raises: Refused if the port is taken."""
        is_durable = self.store.ha_ack_durable
        self._end = request.flushed if is_durable else request.committed
        self._shipped = SharedWatermark.FLUSHED if is_durable else SharedWatermark.COMMITTED
        self.settings = ShippingSettings(
            self.store.ha_send_heartbeat_interval_ms,
            self.store.ha_housekeeping_interval_ms,
            self.store.ha_transfer_batch_bytes,
        )
        self._trusted = read_trusted(self.plan.trusted_addresses)
        self._files = self.closing(commit_log_files(self.fs, self.store, read_only=True))
        self._files.refresh()
        self.slaves: set[_Slave] = set()
        self._changed = threading.Condition()
        self._progress = (0, 0)
        self._accepted_count = self._refused_count = self._sent_bytes = 0
        self._timer = Timer(self._check)
        self._lines = LineBudget()
        self.log = logger(Log.STORE)
        self._server: asyncio.Server | None = None
        self.reading = ThreadPoolExecutor(1, thread_name_prefix="cold-log")
        self._loop = LoopThread("replication")
        self.on_release(self._loop.close)
        try:
            self._loop.run(self._open())
        except OSError as error:
            raise Refused(f"port {self.store.ha_listen_port} for slaves: {error}") from None
        finally:
            self.on_release(self._stop)
        return {}

    def exchange(
        self, end: int, replicated: int, near_count: int, wait_seconds: float
    ) -> tuple[int, int]:
        """Take the end of what may be sent, and return how far slaves are and how many count.

        replicated, near_count: what the caller knows; as long as that is so, wait.
        """
        self._end = max(self._end, end)
        self._loop.call_soon(self._ship)
        with self._changed:
            if wait_seconds and self._progress == (replicated, near_count):
                self._changed.wait(wait_seconds)
            return self._progress

    def counters(self) -> dict[str, Any]:
        """Return how many slaves there are, how far behind they are, and what was sent."""
        end = self._end
        behind = [end - (one.core.acked or 0) for one in list(self.slaves) if one.core.counts]
        return {
            "slaves_count": len(behind),
            "behind_bytes_max": max(behind, default=0),
            "accepted_count": self._accepted_count,
            "refused_count": self._refused_count,
            "sent_bytes": self._sent_bytes,
        }

    # In the loop's thread.

    def log_range(self) -> LogRange:
        """Return what may be sent now."""
        shared = self.watermarks
        if shared is not None:
            self._end = max(self._end, shared.get(self._shipped))
        if self._files.find(max(0, self._end - 1)) is None:
            self._files.refresh()
        return LogRange(self._files.min_offset, self._end, self._files.file_size_bytes)

    def find(self, offset: int) -> MappedFile | None:
        """Return the segment of an offset, None if it was removed."""
        return self._files.find(offset)

    def note_sent(self, size_bytes: int) -> None:
        """Count bytes of the log that a slave was sent."""
        self._sent_bytes += size_bytes

    def note_gone(self) -> None:
        """Look again which segments there are: one could not be read."""
        self._files.refresh()

    def accept(self, slave: "_Slave", host: str, local_host: str) -> str:
        """Note a connection, and return why it is refused, "" if it is not.

        local_host: the address of this end of it.
        """
        self._accepted_count += 1
        refused_count = sum(bool(one.core.refusal) for one in self.slaves)
        others_count = len(self.slaves) - refused_count
        self.slaves.add(slave)
        if not self._timer.is_running:
            self._timer.start(CHECK_SECONDS)
        refusal = ""
        if not (is_this_host(host, local_host) or self._trusted.match(host)):
            refusal = f"{host} is not trusted: set {TRUSTED_ADDRESSES_KEY} to let it read the log"
        elif others_count >= SLAVES_MAX:
            refusal = f"there are {SLAVES_MAX} slaves already"
        else:
            self._files.refresh()  # Retention may have removed segments since
        if refusal and refused_count >= REFUSED_MAX:
            slave.drop()
        return refusal

    def forget(self, slave: "_Slave") -> None:
        """Note that a connection is closed."""
        self.slaves.discard(slave)
        self.publish()

    def note_refused(self, slave: "_Slave") -> None:
        """Write down why a slave gets nothing."""
        self._refused_count += 1
        if self._lines.allows(self._loop.loop.time()):
            self.log.warning("slave refused", slave=slave.address, cause=slave.core.refusal)

    def publish(self) -> None:
        """Report to the Broker how far the slaves are, if that has changed."""
        counted = [one.core.acked or 0 for one in self.slaves if one.core.counts]
        replicated = max(self._progress[0], *counted) if counted else self._progress[0]
        oldest = self._end - self.store.ha_slave_fallbehind_bytes_max
        progress = (replicated, sum(acked > oldest for acked in counted))
        if progress != self._progress:
            with self._changed:
                self._progress = progress
                self._changed.notify_all()
            self._report()

    async def _open(self) -> None:
        port = self.store.ha_listen_port
        self._server = await self._loop.loop.create_server(
            lambda: _Slave(self), self.plan.bind_host, port, backlog=SLAVES_MAX
        )
        if self.has_notifications:
            self._broker = self.notifier_to(BROKER)
            self.listen(self._on_notified)

    def _stop(self) -> None:
        self._loop.run(self._close())
        self._loop.stop()

    async def _close(self) -> None:
        self._timer.cancel()
        # asyncio drops a connection that it is accepting while its server closes, unclosed.
        while accepting := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(accepting)
        if self._server is not None:
            self._server.close()
        for slave in list(self.slaves):
            slave.drop()
        while self.slaves:
            await asyncio.sleep(0)
        self.reading.shutdown()
        for _ in range(CLOSING_TURNS):
            await asyncio.sleep(0)

    def _on_notified(self, _notes: Note) -> None:
        self._ship()

    def _ship(self) -> None:
        for slave in list(self.slaves):
            slave.ship()
        self.publish()

    def _check(self) -> None:
        """Look again at the progress, and say it again: either notification may be lost."""
        if self.slaves:
            self._timer.start(CHECK_SECONDS)
        self._ship()
        self._report()

    def _report(self) -> None:
        shared = self.watermarks
        if shared is not None:
            replicated, near_count = self._progress
            known = shared.get(SharedWatermark.REPLICATED)
            shared.set(SharedWatermark.REPLICATED, max(known, replicated))
            shared.replace(SharedWatermark.SLAVES, near_count)
            self._broker.notify()


class _Slave(asyncio.Protocol):
    """One connection."""

    def __init__(self, service: ReplicationService) -> None:
        self._service = service
        self.core = Shipping(service.settings, steady_ms())
        self.address = ""
        self._transport: asyncio.Transport | None = None
        self._is_full = self._is_queued = self._has_reported = False
        self._timer = Timer(self.ship)
        self._piece: Piece | None = None  # the next one, while it is read
        self._log = LogPieces(service.find, service.reading, self.ship)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the connection, and refuse it if it comes from somewhere else."""
        self._transport = opened = cast(asyncio.Transport, transport)  # uvloop has others
        peer = opened.get_extra_info("peername")
        if peer is None:  # it has closed the connection already
            opened.abort()
            return
        host, port = peer[:2]
        self.address = f"{host}:{port}"
        if refusal := self._service.accept(self, host, opened.get_extra_info("sockname")[0]):
            self.core.refuse(refusal, steady_ms())
            self._service.note_refused(self)
        self.ship()

    def data_received(self, data: bytes) -> None:
        """Note what was reported, and send what is wanted."""
        was_refused = self.core.refusal
        self.core.receive(data, self._service.log_range(), steady_ms())
        if self.core.refusal and not was_refused:
            self._service.note_refused(self)
        if self.core.counts and not self._has_reported:
            self._has_reported = True
            self._service.log.info("slave connected", slave=self.address, begins=self.core.acked)
        self._service.publish()
        self.ship()

    def pause_writing(self) -> None:
        """Send nothing until the socket takes more."""
        self._is_full = True

    def resume_writing(self) -> None:
        """Go on."""
        self._is_full = False
        self.ship()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._timer.cancel()
        self._transport = None
        if self._has_reported:
            self._service.log.info("slave disconnected", slave=self.address, acked=self.core.acked)
        self._service.forget(self)

    def drop(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.abort()

    def ship(self) -> None:
        """Send what there is, as far as the socket takes it, and come back when more is due."""
        transport = self._transport
        if transport is None:
            return
        now_ms = steady_ms()
        if over := self.core.why_over(now_ms):
            self._service.log.warning("slave dropped", slave=self.address, cause=over)
            transport.abort()
            return
        for _ in range(PIECES_PER_TURN):
            if self._is_full:
                break
            log = self._service.log_range()
            piece = self._piece = self._piece or self.core.next_piece(log, now_ms)
            if piece is None:
                break
            frame = self._frame(piece, log)
            if frame is None:
                break
            self._piece = None
            transport.write(frame)
        else:
            if not self._is_queued:
                self._is_queued = True
                asyncio.get_running_loop().call_soon(self._ship_on)
        self._timer.restart_at(max(now_ms + 1, self.core.next_ms()), now_ms)

    def _frame(self, piece: Piece, log: LogRange) -> bytearray | None:
        """Return a piece with its bytes; None if it is sent later, or never."""
        try:
            frame = self._log.frame(piece.header, piece.offset, piece.size_bytes, log.end)
        except StoreError as error:
            self._service.note_gone()
            self._service.log.warning("segment gone", slave=self.address, cause=str(error))
            self.drop()
            return None
        if frame is not None:
            self._service.note_sent(piece.size_bytes)
        return frame

    def _ship_on(self) -> None:
        self._is_queued = False
        self.ship()


class ReplicationClient(ServiceClient):
    """Tells the service how far the log may be sent, and the Broker how far slaves have it."""

    poll_seconds: ClassVar[float] = 0.2
    """By reference: how often the service is asked for slaves that came or went."""

    def __init__(self, name: str, calls: ServiceCalls, broker: BrokerContext) -> None:
        """Know of no slave."""
        super().__init__(name, calls, broker)
        self._notifier = broker.notifier_to(name)
        self._shippable = 0
        self._progress = (0, 0)
        broker.watermark_readers.append(self._read_watermarks)

    def note_shippable(self, physical_offset: int) -> None:
        """Have the log sent up to here, if there is a slave that follows closely.

        One that is far behind goes on by itself. With notifications Flush reports what is durable.
        """
        self._shippable = physical_offset
        if self._notifier is None:
            self.worker.request()
        elif self._progress[1] and not self.broker.plan.settings.store.ha_ack_durable:
            self._notifier.notify()

    def on_attached(self, answer: Mapping[str, Any]) -> None:
        """Ask for slaves, if the service cannot report them."""
        if self._notifier is None:
            self.worker.request()

    def on_lost(self) -> None:
        """Count no slave: their connections have ended."""
        self._note(self._progress[0], 0)

    async def work(self) -> bool:
        """By reference: exchange what both know; soon again while a send may wait."""
        replicated, near_count = self._progress
        waits = near_count and replicated < self._shippable
        try:
            known = (self._shippable, replicated, near_count, EXCHANGE_SECONDS if waits else 0.0)
            answer = await self.call("replication", "exchange", *known)
        except ServiceLost:
            return False
        self._note(*answer)
        if self._progress[1] and self._progress[0] < self._shippable:
            return True
        self.timer.restart(self.poll_seconds)
        return False

    def _read_watermarks(self) -> None:
        shared = self.broker.watermarks
        if shared is not None and self.is_attached:
            self._note(shared.get(SharedWatermark.REPLICATED), shared.get(SharedWatermark.SLAVES))

    def _note(self, replicated: int, near_count: int) -> None:
        if self._progress != (replicated, near_count):
            self._progress = (replicated, near_count)
            self.broker.events.replicated(replicated, near_count)
