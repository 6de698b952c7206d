"""Notifications: datagrams between the processes of one broker that say "look at the words".

Ringing is: do the work, store the word, send a datagram without blocking. Answering is: drain the
socket, then read the words. So a full socket is harmless, since its owner has a notification to
answer yet; and of a receiver that died nothing is lost but a notification, which a re-check timer
makes up for.

A datagram may carry a note: a list of tuples, such as the queues that have grown. A note is a hint.
Whoever needs what it says can find it again from words and files, later; `Notifier` only sees to
it that a burst of notes waits for the receiver instead of being thrown away.

The sockets lie in a directory that only the broker's user may enter. That is all the protection
they have, and all they need: a notification from a stranger makes somebody look at a word.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

DRAIN_COUNT_MAX = 256  # datagrams read in one go; the loop comes back for the rest
NOTE_BYTES_MAX = 1 << 17  # Linux's default send buffer takes 212,992 bytes with its bookkeeping
NOTE_ITEMS_MAX = 128  # of under 1 KiB each, so that a note stays below the line above
PENDING_ITEMS_MAX = 100_000  # as many as pulls can be held; beyond, the oldest are dropped

_FULL = frozenset({errno.EAGAIN, errno.ENOBUFS})
_MISSING = frozenset({errno.ECONNREFUSED, errno.ENOENT, errno.ENOTCONN, errno.ECONNRESET})

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


class NotifyOutcome(Enum):
    """What became of a notification."""

    SENT = "sent"
    FULL = "full"
    MISSING = "missing"
    DROPPED = "dropped"


class NotificationFaults(msgspec.Struct, frozen=True):
    """Faults that a test injects: drop every nth notification (1: all), drop every note."""

    drop_every: int = 0
    drop_notes: bool = False


NO_FAULTS = NotificationFaults()


class NotificationSocket:
    """The receiving end: a socket under a path, read without waiting."""

    __slots__ = ("_path", "_socket", "received_count")

    def __init__(self, path: Path) -> None:
        """Take the path over from an incarnation that died."""
        self._path = path
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)
        self._socket.bind(str(path))
        self.received_count = 0

    def fileno(self) -> int:
        """Return the descriptor a loop may watch."""
        return self._socket.fileno()

    def drain(self) -> list[tuple[Any, ...]]:
        """Take every notification that waits and return what their notes said, in order."""
        found: list[tuple[Any, ...]] = []
        for _ in range(DRAIN_COUNT_MAX):
            try:
                note = self._socket.recv(NOTE_BYTES_MAX)
            except BlockingIOError:
                break
            self.received_count += 1
            if note:
                found += _decode(note)
        return found

    def listen(
        self, loop: asyncio.AbstractEventLoop, answer: Callable[[list[tuple[Any, ...]]], None]
    ) -> None:
        """Have the loop call `answer` with the notes, possibly none, whenever the notification
        rang.
        """
        loop.add_reader(self._socket, lambda: answer(self.drain()))

    def close(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Stop listening on `loop` and take the notification down."""
        if loop is not None:
            loop.remove_reader(self._socket)
        self._socket.close()
        self._path.unlink(missing_ok=True)


class NotificationSender:
    """The sending end; finds a receiver that was started anew by itself."""

    __slots__ = ("_connected", "_faults", "_path", "_socket", "counts")

    def __init__(self, path: Path, faults: NotificationFaults = NO_FAULTS) -> None:
        """Ring the notification at `path`, whether or not it is there yet."""
        self._path = str(path)
        self._faults = faults
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)
        self._connected = False
        self.counts = dict.fromkeys(NotifyOutcome, 0)

    def fileno(self) -> int:
        """Return the descriptor that becomes writable when a full receiver was drained."""
        return self._socket.fileno()

    def notify(self, items: list[tuple[Any, ...]] | None = None) -> NotifyOutcome:
        """Send a notification with a note, or without one, and say what became of it."""
        outcome = self._notify(items)
        self.counts[outcome] += 1
        return outcome

    def _notify(self, items: list[tuple[Any, ...]] | None) -> NotifyOutcome:
        faults = self._faults
        if faults.drop_every and (sum(self.counts.values()) + 1) % faults.drop_every == 0:
            return NotifyOutcome.DROPPED
        note = b"" if not items or faults.drop_notes else _encode(items)
        assert len(note) <= NOTE_BYTES_MAX
        outcome = self._send(note)
        # The path may have a new owner: the socket is still connected to the one that died.
        return self._send(note) if outcome is NotifyOutcome.MISSING else outcome

    def _send(self, note: bytes) -> NotifyOutcome:
        try:
            if not self._connected:
                self._socket.connect(self._path)
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

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class Notifier:
    """A ringer whose notes wait, in order and up to a bound, while the receiver is full."""

    __slots__ = ("_loop", "_pending", "_sender", "_watching", "dropped_count")

    def __init__(self, sender: NotificationSender, loop: asyncio.AbstractEventLoop) -> None:
        """Send through `sender`, which this line owns from here on."""
        self._sender = sender
        self._loop = loop
        self._pending: deque[tuple[Any, ...]] = deque(maxlen=PENDING_ITEMS_MAX)
        self._watching = False
        self.dropped_count = 0

    @property
    def pending_count(self) -> int:
        """How many items wait."""
        return len(self._pending)

    @property
    def counts(self) -> dict[NotifyOutcome, int]:
        """What became of the notifications of this line."""
        return self._sender.counts

    def notify(self) -> None:
        """Ring without a note."""
        self._sender.notify()

    def send(self, items: Iterable[tuple[Any, ...]]) -> None:
        """Send items behind those that wait."""
        for item in items:
            self.dropped_count += len(self._pending) == PENDING_ITEMS_MAX
            self._pending.append(item)
        if not self._watching:
            self._flush()

    def clear(self) -> None:
        """Forget what waits: the receiver was started anew and told everything otherwise."""
        self._pending.clear()
        self._stop_watching()

    def close(self) -> None:
        """Forget what waits and close the socket."""
        self.clear()
        self._sender.close()

    def _flush(self) -> None:
        while self._pending:
            items = [self._pending[i] for i in range(min(NOTE_ITEMS_MAX, len(self._pending)))]
            outcome = self._sender.notify(items)
            if outcome is NotifyOutcome.FULL:
                self._watch()
                return
            if outcome is NotifyOutcome.MISSING:
                self.dropped_count += len(self._pending)
                self._pending.clear()
                break
            for _ in items:
                self._pending.popleft()
        self._stop_watching()

    def _watch(self) -> None:
        if not self._watching:
            self._watching = True
            self._loop.add_writer(self._sender, self._flush)

    def _stop_watching(self) -> None:
        if self._watching:
            self._watching = False
            self._loop.remove_writer(self._sender)
