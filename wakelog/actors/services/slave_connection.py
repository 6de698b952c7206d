"""SlaveConnection: carries the log to one slave; a socket around a core of `shipping`.

The socket can change its process, so it is no transport of the loop. What waits to be sent is known
here, and what has come is in the kernel. Replication accepts it and sends what a slave lacks.
The Broker has it while the slave is at the log's end, where each process between a producer and a
slave would be waited for.

Source: org.apache.rocketmq.store.ha.HAConnection (4.9.3).
"""

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple, Protocol

from wakelog.actors.services.log_pieces import LogPieces
from wakelog.actors.transport.clocks import steady_ms
from wakelog.actors.transport.descriptors import descriptor_path, send_descriptors
from wakelog.actors.transport.timer import Timer
from wakelog.broker.replication.shipping import (
    LogRange,
    Piece,
    Shipping,
    ShippingSettings,
    ShippingState,
)
from wakelog.protocol.ha_frames import TRANSFER_BYTES_MAX
from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import StoreError
from wakelog.storage.log.mapped_file import MappedFile
from wakelog.telemetry.logs import Log, logger

FRAMES_PER_TURN: Final = 32
"""How many frames of 32 KiB one slave gets before the next one's turn."""

REPORTS_BYTES: Final = 4096
"""What is read of a slave at once."""


class Handover(NamedTuple):
    """A connection on its way to another process. unsent: the rest of the frame under way."""

    state: ShippingState
    address: str
    unsent: bytes


class ShipsToSlaves(Protocol):
    """What a connection asks of the process that has it."""

    settings: ShippingSettings
    reading: ThreadPoolExecutor
    buffer: memoryview
    """What is read from the log, and sent, at once; nothing stays in it. All connections share it:
    any host may open one, and is refused only then."""

    def log_range(self) -> LogRange:
        """Return what may be sent now."""

    def find(self, offset: int) -> MappedFile | None:
        """Return the segment of an offset, None if it was removed."""

    def note_sent(self, size_bytes: int) -> None:
        """Count bytes of the log that a slave was sent."""

    def note_gone(self) -> None:
        """Note that a segment could not be read."""

    def note_refused(self, slave: "SlaveConnection") -> None:
        """Note that a slave gets nothing."""

    def note_reported(self, slave: "SlaveConnection") -> None:
        """Count what a slave has."""

    def settle(self, slave: "SlaveConnection", log: LogRange) -> None:
        """Keep a slave after something was sent, or hand it over."""

    def forget(self, slave: "SlaveConnection") -> None:
        """Note that a connection is closed."""


def shipping_settings(store: StoreConfig) -> ShippingSettings:
    """Return times and sizes of a connection."""
    return ShippingSettings(
        store.ha_send_heartbeat_interval_ms,
        store.ha_housekeeping_interval_ms,
        store.ha_transfer_batch_bytes,
    )


def shipping_buffer(frames_count: int) -> memoryview:
    """Return a buffer for so many frames."""
    return memoryview(bytearray(frames_count * TRANSFER_BYTES_MAX))


class SlaveConnection:
    """See the module. One loop's thread."""

    def __init__(
        self,
        host: ShipsToSlaves,
        opened: socket.socket,
        address: str,
        *,
        core: Shipping | None = None,
        unsent: bytes = b"",
    ) -> None:
        """Take a socket; nothing is read or sent until `begin`.

        core: goes on with a connection of another process. unsent: what that has not sent.
        """
        opened.setblocking(False)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.core = Shipping(host.settings, steady_ms()) if core is None else core
        self.address = address
        self._host = host
        self._socket: socket.socket | None = opened
        self._loop = asyncio.get_running_loop()
        self._unsent = memoryview(unsent)
        self._is_queued = False
        self._has_reported = self.core.acked is not None
        self._timer = Timer(self.ship)
        self._next: list[Piece] = []  # while they are read
        self._frames_max = len(host.buffer) // TRANSFER_BYTES_MAX
        self._pieces = LogPieces(host.find, host.reading, self.ship)
        self._log = logger(Log.STORE)

    def begin(self) -> None:
        """Read reports, and send what there is, until `close` or `hand_over`."""
        opened = self._socket
        assert opened is not None
        self._loop.add_reader(opened, self._read)
        if self._unsent:
            self._loop.add_writer(opened, self._send_rest)
        self.ship()

    @property
    def is_full(self) -> bool:
        """Whether the socket takes nothing now."""
        return bool(self._unsent)

    def close(self) -> None:
        """Close it."""
        opened = self._leave()
        if opened is not None:
            opened.close()
            if self._has_reported:
                self._log.info("slave disconnected", slave=self.address, acked=self.core.acked)
            self._host.forget(self)

    def hand_over(self, runtime_directory: str, service: str) -> bool:
        """Give it to another process; return whether that will get it. It is closed here then."""
        opened = self._socket
        if opened is None or self._next:
            return False
        item = Handover(self.core.state, self.address, bytes(self._unsent))
        path = descriptor_path(runtime_directory, service)
        try:
            if not send_descriptors(path, [(item, opened.fileno())]):
                return False
        except OSError:  # no descriptor is left for the socket that sends
            return False
        self._leave()
        opened.close()
        return True

    def ship(self) -> None:
        """Send what there is, as far as the socket takes it, and come back when more is due."""
        if self._socket is None:
            return
        core, host, now_ms = self.core, self._host, steady_ms()
        if over := core.why_over(now_ms):
            self._log.warning("slave dropped", slave=self.address, cause=over)
            self.close()
            return
        log = host.log_range()
        was_refused = core.refusal
        for _ in range(0, FRAMES_PER_TURN, self._frames_max):
            if self._unsent:
                break
            self._next = self._next or self._next_pieces(log, now_ms)
            if not (self._next and self._send_next(log)):
                break
        else:
            if not self._is_queued:
                self._is_queued = True
                self._loop.call_soon(self._ship_on)
        if self._socket is None:
            return
        self._timer.start_by(max(now_ms + 1, core.next_ms()), now_ms)
        if core.refusal and not was_refused:
            host.note_refused(self)
        host.settle(self, log)

    def _leave(self) -> socket.socket | None:
        opened, self._socket = self._socket, None
        self._timer.cancel()
        if opened is not None:
            self._loop.remove_reader(opened)
            self._loop.remove_writer(opened)
        return opened

    def _read(self) -> None:
        """Note what was reported, and send what is wanted."""
        opened, core, host = self._socket, self.core, self._host
        if opened is None:
            return
        try:
            data = opened.recv(REPORTS_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        was_refused = core.refusal
        core.receive(data, host.log_range(), steady_ms())
        if core.refusal and not was_refused:
            host.note_refused(self)
        if core.counts and not self._has_reported:
            self._has_reported = True
            self._log.info("slave connected", slave=self.address, begins=core.acked)
        host.note_reported(self)
        self.ship()

    def _next_pieces(self, log: LogRange, now_ms: int) -> list[Piece]:
        """Return the next pieces, one behind the other in one segment."""
        found: list[Piece] = []
        while len(found) < self._frames_max:
            piece = self.core.next_piece(log, now_ms)
            if piece is None:
                break
            found.append(piece)
            if not (piece.offset + piece.size_bytes) % log.segment_bytes:
                break
        return found

    def _send_next(self, log: LogRange) -> bool:
        """Send the next pieces with their bytes; False if that is done later, or never."""
        pieces, begin = self._next, 0
        size_bytes = sum(piece.size_bytes for piece in pieces)
        read = self._host.buffer[:size_bytes]
        try:
            if size_bytes and not self._pieces.fill(read, pieces[0].offset, log.end):
                return False
        except StoreError as error:
            self._host.note_gone()
            self._log.warning("segment gone", slave=self.address, cause=str(error))
            self.close()
            return False
        self._next = []
        self._host.note_sent(size_bytes)
        parts: list[bytes | memoryview] = []
        for piece in pieces:
            parts += piece.header, read[begin : begin + piece.size_bytes]
            begin += piece.size_bytes
        return self._send(parts)

    def _send(self, parts: Sequence[bytes | memoryview]) -> bool:
        """Send as much as the socket takes, and note the rest; False if it is closed."""
        opened = self._socket
        assert opened is not None
        try:
            sent = opened.sendmsg(parts)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.close()
            return False
        if sent < sum(map(len, parts)):
            self._loop.add_writer(opened, self._send_rest)
            self._unsent = memoryview(b"".join(parts))[sent:]
        return True

    def _send_rest(self) -> None:
        opened, rest = self._socket, self._unsent
        if opened is None:
            return
        self._unsent = memoryview(b"")
        self._loop.remove_writer(opened)
        if self._send([rest]):
            self.ship()

    def _ship_on(self) -> None:
        self._is_queued = False
        self.ship()


def adopt_slave(host: ShipsToSlaves, handover: Handover, descriptor: int) -> SlaveConnection | None:
    """Return a connection that another process has handed over.

    None if it is of no use here, or cannot be taken. It is closed then, and its slave comes again.
    """
    opened, address, unsent = socket.socket(fileno=descriptor), handover.address, handover.unsent
    core = Shipping.resumed(host.settings, handover.state)
    try:
        log = host.log_range()
        if core.refusal or core.position <= log.end:
            return SlaveConnection(host, opened, address, core=core, unsent=unsent)
        # Of a Broker that died, whose log went further.
        cause = f"was sent the log up to {core.position}, which ends at {log.end}"
    except (OSError, StoreError) as error:
        cause = str(error)
    logger(Log.STORE).warning("slave dropped", slave=address, cause=cause)
    opened.close()
    return None
