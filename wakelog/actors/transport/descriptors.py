"""File descriptors between the processes of a broker: SCM_RIGHTS over a datagram socket.

Segments of the log go from the Broker to Flush, each with the offset where it begins. Linux reports
a failed write-back once for each open file description. If Flush opened a segment by name, its sync
could succeed after one that failed. With the Broker's own descriptions it gets the report of every
failure. A datagram can be lost: Flush was started again, or its socket was full. Flush says in
every answer how far its descriptors reach, so the Broker sends them again.
"""

import errno
import os
import socket
from collections.abc import Iterable
from pathlib import Path

import msgspec

from wakelog.actors.transport.notifications import (
    DatagramReceiver,
    open_datagram_socket,
    short_address,
)
from wakelog.typed_values import msgpack_decoder

BATCH_COUNT_MAX = 16  # in one datagram; the kernel takes 253 descriptors
NOTE_BYTES_MAX = 1 << 10  # of it, too: an offset takes 9 bytes

_LOST = frozenset({errno.EAGAIN, errno.ENOBUFS, errno.ECONNREFUSED, errno.ENOENT, errno.ENOTCONN})
_decode = msgpack_decoder(list[int]).decode


class DescriptorReceiver(DatagramReceiver):
    """The receiving end; the kernel closes descriptors that it drops."""

    def drain(self) -> list[tuple[int, int]]:
        """Return (start offset, descriptor) pairs; the caller closes descriptors."""
        found: list[tuple[int, int]] = []
        while True:
            try:
                note, descriptors, _, _ = socket.recv_fds(
                    self._socket, NOTE_BYTES_MAX, BATCH_COUNT_MAX
                )
            except BlockingIOError:
                return found
            starts = _decode(note)
            if len(starts) == len(descriptors):
                found += zip(starts, descriptors, strict=True)
            else:  # this process is at its limit of descriptors, and the kernel dropped some
                for descriptor in descriptors:
                    os.close(descriptor)


def descriptor_path(runtime_directory: str) -> Path:
    """Return where Flush receives descriptors."""
    return Path(runtime_directory, "flush.descriptors")


def send_descriptors(path: Path, pairs: Iterable[tuple[int, int]]) -> bool:
    """Send (start offset, descriptor) pairs; return False if some of them did not arrive."""
    listed = list(pairs)
    with open_datagram_socket() as sender:
        try:
            with short_address(path) as address:
                sender.connect(address)
            for begin in range(0, len(listed), BATCH_COUNT_MAX):
                batch = listed[begin : begin + BATCH_COUNT_MAX]
                note = msgspec.msgpack.encode([start for start, _ in batch])
                socket.send_fds(sender, [note], [descriptor for _, descriptor in batch])
        except OSError as error:
            if error.errno not in _LOST:
                raise
            return False
    return True
