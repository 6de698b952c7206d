"""File descriptions from the Broker to Flush: SCM_RIGHTS over a datagram socket.

Linux reports a failed write-back once for each file description that was open when it happened. If
Flush opened a segment by its name, a sync of its could succeed after one that failed; with the
Broker's own descriptions it hears of every failure.

A datagram that is lost (Flush was started anew, or its socket was full) is sent again: Flush says
how far its descriptors reach in everything it answers.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterable
from pathlib import Path

import msgspec

BATCH_COUNT_MAX = 16  # segments in one datagram; the kernel takes 253 descriptors
NOTE_BYTES_MAX = 4096

_LOST = frozenset({errno.EAGAIN, errno.ENOBUFS, errno.ECONNREFUSED, errno.ENOENT, errno.ENOTCONN})


class DescriptorReceiver:
    """The receiving end, under a path."""

    def __init__(self, path: Path) -> None:
        """Take the path over from an incarnation that died."""
        self._path = path
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)
        self._socket.bind(str(path))

    def fileno(self) -> int:
        """Return the descriptor a loop may watch."""
        return self._socket.fileno()

    def drain(self) -> list[tuple[int, int]]:
        """Take what waits: (start offset of a segment, descriptor to be closed by the caller)."""
        found: list[tuple[int, int]] = []
        while True:
            try:
                note, descriptors, _, _ = socket.recv_fds(
                    self._socket, NOTE_BYTES_MAX, BATCH_COUNT_MAX
                )
            except BlockingIOError:
                return found
            starts = msgspec.msgpack.decode(note, type=list[int])
            if len(starts) == len(descriptors):
                found += zip(starts, descriptors, strict=True)
            else:  # this process is at its limit of descriptors, and the kernel dropped some
                for descriptor in descriptors:
                    os.close(descriptor)

    def close(self) -> None:
        """Take the socket down; descriptors that wait in it are closed by the kernel."""
        self._socket.close()
        self._path.unlink(missing_ok=True)


def send_descriptors(path: Path, segments: Iterable[tuple[int, int]]) -> bool:
    """Send (start offset, descriptor) pairs; False if they did not arrive, or not all."""
    listed = list(segments)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.setblocking(False)
        try:
            sender.connect(str(path))
            for begin in range(0, len(listed), BATCH_COUNT_MAX):
                batch = listed[begin : begin + BATCH_COUNT_MAX]
                note = msgspec.msgpack.encode([start for start, _ in batch])
                socket.send_fds(sender, [note], [descriptor for _, descriptor in batch])
        except OSError as error:
            if error.errno not in _LOST:
                raise
            return False
    return True
