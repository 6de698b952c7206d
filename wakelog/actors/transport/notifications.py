"""Notifications: datagrams between the processes of one broker that mean "read the watermarks".

A sender does its work, stores the watermark, and sends a datagram without blocking. A receiver
drains its socket, then reads the watermarks. So a full socket loses nothing: its owner has not yet
read. If the receiver died, only the notification is lost, and a re-check timer makes up for it.

A datagram may carry a note: a list of tuples, such as the queues that have grown. A note is a hint;
the receiver can find the same facts later in watermarks and files. `Notifier.send` keeps a burst of
notes while the receiver is full, instead of dropping it.

The sockets lie in a directory that only the broker's user may enter. No other protection is needed:
a notification from another program only makes a process read a watermark.
"""

import asyncio
import errno
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

DRAIN_COUNT_MAX = 256  # datagrams read at once; the loop comes back for the rest
NOTE_BYTES_MAX = 1 << 17  # Linux's default send buffer takes 212,992 bytes with its bookkeeping
NOTE_ITEMS_MAX = 128  # of under 1 KiB each, so that a note stays below the line above
PENDING_ITEMS_MAX = 100_000  # as many as pulls can be held; beyond, the oldest are dropped

PATH_BYTES_MAX = 107
"""How long the path of a socket may be on Linux."""

_FULL = frozenset({errno.EAGAIN, errno.ENOBUFS})
_MISSING = frozenset({errno.ECONNREFUSED, errno.ENOENT, errno.ENOTCONN, errno.ECONNRESET})

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode

Note = list[tuple[Any, ...]]


class NotifyOutcome(Enum):
    """What became of a notification."""

    SENT = "sent"
    FULL = "full"
    MISSING = "missing"
    DROPPED = "dropped"


class NotificationFaults(msgspec.Struct, frozen=True):
    """Faults that a test injects: drop every nth notification (1: all of them), drop every note."""

    drop_every: int = 0
    drop_notes: bool = False


NO_FAULTS = NotificationFaults()


def open_datagram_socket() -> socket.socket:
    """Return a Unix datagram socket that never blocks."""
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    opened.setblocking(False)
    return opened


@contextmanager
def short_address(path: Path) -> Iterator[str]:
    """Yield an address of a socket's path that is short enough to bind or to connect.

    A long temporary directory or broker name makes the path longer than the system takes. Then the
    address leads through a descriptor of its folder, which is open inside the block.
    """
    if len(os.fsencode(path)) <= PATH_BYTES_MAX:
        yield str(path)
        return
    folder_fd = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder_fd}/{path.name}"
    finally:
        os.close(folder_fd)


class DatagramReceiver:
    """The receiving end of datagrams, at a path; the socket of a dead process there is replaced."""

    def __init__(self, path: Path) -> None:
        """Receive at `path` from now on."""
        path.unlink(missing_ok=True)
        self._path = path
        self._socket = open_datagram_socket()
        with short_address(path) as address:
            self._socket.bind(address)
        self._loop: asyncio.AbstractEventLoop | None = None

    def watch(self, on_readable: Callable[[], object]) -> None:
        """Call `on_readable` on this loop while datagrams wait, until `close`."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, on_readable)

    def close(self) -> None:
        """Remove the socket; the kernel drops what waits in it."""
        if self._loop is not None:
            self._loop.remove_reader(self._socket)
            self._loop = None
        self._socket.close()
        self._path.unlink(missing_ok=True)


class NotificationSocket(DatagramReceiver):
    """The receiving end of notifications."""

    received_count = 0

    def drain(self) -> Note:
        """Read every waiting datagram and return the items of their notes, in order."""
        found: Note = []
        for _ in range(DRAIN_COUNT_MAX):
            try:
                note = self._socket.recv(NOTE_BYTES_MAX)
            except BlockingIOError:
                break
            self.received_count += 1
            if note:
                found += _decode(note)
        return found

    def listen(self, on_notified: Callable[[Note], None]) -> None:
        """Call `on_notified` with the items, possibly none, each time notifications come."""
        self.watch(lambda: on_notified(self.drain()))


class Notifier:
    """The sending end; it finds a receiver that was started again at the same path."""

    def __init__(self, path: Path, faults: NotificationFaults = NO_FAULTS) -> None:
        """Notify the socket at `path`, which need not be there yet."""
        self._path = path
        self._faults = faults
        self._socket = open_datagram_socket()
        self._connected = False
        self._pending: deque[tuple[Any, ...]] = deque(maxlen=PENDING_ITEMS_MAX)
        self._watching: asyncio.AbstractEventLoop | None = None
        self.counts = dict.fromkeys(NotifyOutcome, 0)

    def notify(self, items: Note | None = None) -> NotifyOutcome:
        """Send one notification, with a note or without, and return what became of it."""
        outcome = self._notify(items)
        self.counts[outcome] += 1
        return outcome

    def send(self, items: Iterable[tuple[Any, ...]]) -> None:
        """Send items in notes, after those that wait."""
        self._pending.extend(items)
        if self._watching is None:
            self._send_pending()

    def close(self) -> None:
        """Drop what waits and close the socket."""
        self._stop_watching()
        self._socket.close()

    def _notify(self, items: Note | None) -> NotifyOutcome:
        faults = self._faults
        if faults.drop_every and (sum(self.counts.values()) + 1) % faults.drop_every == 0:
            return NotifyOutcome.DROPPED
        note = b"" if not items or faults.drop_notes else _encode(items)
        assert len(note) <= NOTE_BYTES_MAX
        outcome = self._send(note)
        # The path may have a new owner while the socket is still connected to the dead one.
        return self._send(note) if outcome is NotifyOutcome.MISSING else outcome

    def _send(self, note: bytes) -> NotifyOutcome:
        try:
            if not self._connected:
                with short_address(self._path) as address:
                    self._socket.connect(address)
                self._connected = True
            self._socket.send(note)
        except OSError as error:
            if error.errno in _FULL:
                return NotifyOutcome.FULL
            if error.errno not in _MISSING:
                raise
            self._connected = False
            return NotifyOutcome.MISSING
        return NotifyOutcome.SENT

    def _send_pending(self) -> None:
        while self._pending:
            items = [self._pending[i] for i in range(min(NOTE_ITEMS_MAX, len(self._pending)))]
            outcome = self.notify(items)
            if outcome is NotifyOutcome.FULL:
                if self._watching is None:
                    # The descriptor becomes writable when the receiver has drained its socket.
                    self._watching = asyncio.get_running_loop()
                    self._watching.add_writer(self._socket, self._send_pending)
                return
            if outcome is NotifyOutcome.MISSING:
                self._pending.clear()
                break
            for _ in items:
                self._pending.popleft()
        self._stop_watching()

    def _stop_watching(self) -> None:
        if self._watching is not None:
            self._watching.remove_writer(self._socket)
            self._watching = None
