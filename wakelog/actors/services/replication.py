"""Replication: accepts slaves, and sends them what they lack of the log, as far as it is durable.

With `haAckDurable=false` that is as far as it is written. It reads the segments itself, and what is
not in the page cache in a thread. With notifications it is notified when there is more and slaves
count. It stores `replicated` and how many slaves count, and notifies the Broker. By reference the
Broker calls `exchange`, which waits a little for an acknowledgement. Both happen beside its
sockets, which are in a loop of their own.

A slave at the log's end goes to the Broker (`replication_client.py`), and comes back if it is slow.

If it dies, its connections end, and these slaves count for nothing until they have reported again.

Source: org.apache.rocketmq.store.ha.HAService.AcceptSocketService, GroupTransferService,
HAConnection (4.9.3).
"""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from wakelog.actors.services.replication_client import TAKEN_MAX
from wakelog.actors.services.service import Service, Session
from wakelog.actors.services.session import BROKER, Refused
from wakelog.actors.services.slave_connection import (
    Handover,
    SlaveConnection,
    adopt_slave,
    shipping_buffer,
    shipping_settings,
)
from wakelog.actors.transport.clocks import steady_ms
from wakelog.actors.transport.descriptors import DescriptorReceiver, descriptor_path
from wakelog.actors.transport.loop_thread import LoopThread
from wakelog.actors.transport.notifications import Note
from wakelog.actors.transport.shared_watermarks import SharedWatermark
from wakelog.actors.transport.timer import Timer
from wakelog.broker.access.addresses import is_this_host
from wakelog.broker.access.administrators import TRUSTED_ADDRESSES_KEY, read_trusted
from wakelog.broker.replication.shipping import LogRange
from wakelog.storage.log.commit_log_reader import commit_log_files
from wakelog.storage.log.mapped_file import MappedFile
from wakelog.telemetry.logs import LineBudget, Log, logger

SLAVES_MAX: Final = 16
"""Connections at the same time, the Broker's too; each may hold a segment open."""

FRAMES_AT_ONCE: Final = 8
"""How many frames of 32 KiB are read from the log, and sent, at once."""

REFUSED_MAX: Final = 64
"""Refused connections that are held at the same time. More are closed at once: whoever reaches the
port may open thousands, and each would take a descriptor for 10 s."""

CHECK_SECONDS: Final = 1.0
"""How often progress is read while slaves are connected: a notification may be lost."""

ACCEPT_PAUSE_SECONDS: Final = 1.0
"""How long nothing is accepted after that has failed, as without a free descriptor."""


class ReplicationService(Service):
    """The service of `broker.replication.shipping`."""

    def __init__(self, session: Session) -> None:
        """Listen for slaves. Raises: Refused if the port is taken."""
        super().__init__(session)
        request, is_durable = session.request, self.store.ha_ack_durable
        self._end = request.flushed if is_durable else request.committed
        self._shipped = SharedWatermark.FLUSHED if is_durable else SharedWatermark.COMMITTED
        self.settings = shipping_settings(self.store)
        self.buffer = shipping_buffer(FRAMES_AT_ONCE)
        self._trusted = read_trusted(self.plan.trusted_addresses)
        self._files = self.closing(commit_log_files(self.fs, self.store, read_only=True))
        self._files.refresh()
        self.slaves: set[SlaveConnection] = set()
        self._changed = threading.Condition()
        self._progress = (0, 0)
        self._accepted_count = self._refused_count = self._sent_bytes = 0
        self._timer = Timer(self._check)
        self._pause = Timer(self._accept_on)
        self._lines = LineBudget()
        self._is_closed = False
        self.log = logger(Log.STORE)
        self._broker = self.notifier_to(BROKER)
        self._receiver: DescriptorReceiver[Handover] | None = None
        if self.has_notifications:
            path = descriptor_path(self.plan.runtime_directory, self.name)
            self._receiver = self.closing(DescriptorReceiver(path, Handover))
        self._listening = self.closing(self._bind())
        self.reading = ThreadPoolExecutor(1, thread_name_prefix="cold-log")
        self._loop = LoopThread("replication")
        self.on_release(self._loop.close)
        self.on_release(self._stop)
        self._loop.run(self._open())

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
        end, shared = self._end, self.watermarks
        behind = [end - (one.core.acked or 0) for one in list(self.slaves) if one.core.counts]
        taken_count = taken_sent_bytes = 0
        if shared is not None:
            taken_count = shared.get(SharedWatermark.TAKEN)
            taken_sent_bytes = shared.get(SharedWatermark.TAKEN_SENT)
            if taken_count:
                behind.append(max(0, end - shared.get(SharedWatermark.TAKEN_ACKED)))
        return {
            "slaves_count": len(behind) - bool(taken_count) + taken_count,
            "behind_bytes_max": max(behind, default=0),
            "accepted_count": self._accepted_count,
            "refused_count": self._refused_count,
            "sent_bytes": self._sent_bytes + taken_sent_bytes,
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

    def note_reported(self, _slave: SlaveConnection) -> None:
        """Report to the Broker what a slave has."""
        self.publish()

    def note_refused(self, slave: SlaveConnection) -> None:
        """Write down why a slave gets nothing."""
        self._refused_count += 1
        if self._lines.allows(self._loop.loop.time()):
            self.log.warning("slave refused", slave=slave.address, cause=slave.core.refusal)

    def settle(self, slave: SlaveConnection, log: LogRange) -> None:
        """Let the Broker have a slave that was sent everything."""
        shared, core = self.watermarks, slave.core
        if shared is None or not core.counts or slave.is_full or core.position < log.end:
            return
        if shared.get(SharedWatermark.TAKEN) < TAKEN_MAX and slave.hand_over(
            self.plan.runtime_directory, BROKER
        ):
            self.forget(slave)

    def forget(self, slave: SlaveConnection) -> None:
        """Note that a connection is closed."""
        self.slaves.discard(slave)
        self.publish()

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

    def _bind(self) -> socket.socket:
        host, port = self.plan.bind_host, self.store.ha_listen_port
        kind, flags = socket.SOCK_STREAM, socket.AI_PASSIVE
        try:
            family, *_, address = socket.getaddrinfo(host, port, type=kind, flags=flags)[0]
            listening = socket.create_server(address[:2], family=family, backlog=SLAVES_MAX)
        except OSError as error:
            raise Refused(f"port {port} for slaves: {error}") from None
        listening.setblocking(False)
        return listening

    async def _open(self) -> None:
        self._accept_on()
        if self._receiver is not None:
            self.listen(self._on_notified)
            self._receiver.watch(self._take_back)
            self._report()  # a process that was killed has left its slaves counted

    def _accept_on(self) -> None:
        if not self._is_closed:
            self._loop.loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        """Take the connections that wait."""
        listening = self._listening
        while True:
            try:
                opened, (host, port, *_) = listening.accept()
                local_host = opened.getsockname()[0]
            except (BlockingIOError, ConnectionError):
                return
            except OSError as error:
                self.log.error("cannot accept slaves", cause=str(error))
                self._loop.loop.remove_reader(listening)
                self._pause.start(ACCEPT_PAUSE_SECONDS)
                return
            self._add(SlaveConnection(self, opened, f"{host}:{port}"), host, local_host)

    def _add(self, slave: SlaveConnection, host: str, local_host: str) -> None:
        """Note a connection, and refuse it if it may not read the log, or is one too many.

        local_host: the address of this end of it.
        """
        self._accepted_count += 1
        shared = self.watermarks
        refused_count = sum(bool(one.core.refusal) for one in self.slaves)
        others_count = len(self.slaves) - refused_count
        others_count += 0 if shared is None else shared.get(SharedWatermark.TAKEN)
        self.slaves.add(slave)
        self._check_later()
        refusal = ""
        if not (is_this_host(host, local_host) or self._trusted.match(host)):
            refusal = f"{host} is not trusted: set {TRUSTED_ADDRESSES_KEY} to let it read the log"
        elif others_count >= SLAVES_MAX:
            refusal = f"there are {SLAVES_MAX} slaves already"
        else:
            self._files.refresh()  # Retention may have removed segments since
        if refusal:
            slave.core.refuse(refusal, steady_ms())
            self.note_refused(slave)
        if refusal and refused_count >= REFUSED_MAX:
            slave.close()
        else:
            slave.begin()

    def _take_back(self) -> None:
        """Go on with slaves that the Broker has handed back."""
        counted_count = 0
        assert self._receiver is not None
        for handover, descriptor in self._receiver.drain():
            counted_count += not handover.state.refusal
            slave = adopt_slave(self, handover, descriptor)
            if slave is None:
                continue
            self.slaves.add(slave)
            self._check_later()
            if slave.core.refusal:
                self.note_refused(slave)
            slave.begin()
        self.publish()
        shared = self.watermarks
        if shared is not None and counted_count:
            returned_count = shared.get(SharedWatermark.RETURNED)
            shared.set(SharedWatermark.RETURNED, returned_count + counted_count)
            if self._broker is not None:
                self._broker.notify()

    def _stop(self) -> None:
        self._loop.run(self._close())
        self._loop.stop()

    async def _close(self) -> None:
        self._timer.cancel()
        self._pause.cancel()
        self._is_closed = True
        self._loop.loop.remove_reader(self._listening)
        for slave in list(self.slaves):
            slave.close()
        self.reading.shutdown()

    def _on_notified(self, _notes: Note) -> None:
        self._ship()

    def _ship(self) -> None:
        for slave in list(self.slaves):
            slave.ship()
        self.publish()

    def _check(self) -> None:
        """Look again at the progress, and say it again: either notification may be lost."""
        if self.slaves:
            self._check_later()
        self._ship()
        self._report()

    def _check_later(self) -> None:
        if not self._timer.is_running:
            self._timer.start(CHECK_SECONDS)

    def _report(self) -> None:
        shared = self.watermarks
        if shared is not None:
            replicated, near_count = self._progress
            known = shared.get(SharedWatermark.REPLICATED)
            shared.set(SharedWatermark.REPLICATED, max(known, replicated))
            shared.replace(SharedWatermark.SLAVES, near_count)
            if self._broker is not None:
                self._broker.notify()
