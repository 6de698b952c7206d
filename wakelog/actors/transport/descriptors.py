"""File descriptors between the processes of a broker: SCM_RIGHTS over a datagram socket.

Each comes with an item that says what it is.

Segments go from the Broker to Flush. Linux reports a failed write-back once for each open file
description. If Flush opened a segment by name, its sync could succeed after one that failed. With
the Broker's own descriptions it gets the report of every failure. A datagram can be lost: Flush was
started again, or its socket was full. Flush says in every answer how far its descriptors reach, so
the Broker sends them again.

Connections of slaves go between Replication and the Broker. One that is lost is closed, and its
slave connects again.
"""

import errno
import os
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from wakelog.actors.transport.notifications import (
    DatagramReceiver,
    open_datagram_socket,
    short_address,
)

BATCH_COUNT_MAX = 16  # in one datagram; the kernel takes 253 descriptors
NOTE_BYTES_MAX = 1 << 16  # of it, too: a connection's item has the rest of a frame

_LOST = frozenset({errno.EAGAIN, errno.ENOBUFS, errno.ECONNREFUSED, errno.ENOENT, errno.ENOTCONN})


Item = TypeVar("Item")


class DescriptorReceiver(DatagramReceiver, Generic[Item]):
    """The receiving end; the kernel closes descriptors that it drops."""

    def __init__(self, path: Path, item: type[Item]) -> None:
        """Receive descriptors with such items at `path` from now on."""
        super().__init__(path)
        self._decode = msgspec.msgpack.Decoder(list[item]).decode  # type: ignore[valid-type]

    def drain(self) -> list[tuple[Item, int]]:
        """Return (item, descriptor) pairs; the caller closes descriptors."""
        found: list[tuple[Item, int]] = []
        while True:
            try:
                note, descriptors, _, _ = socket.recv_fds(
                    self._socket, NOTE_BYTES_MAX, BATCH_COUNT_MAX
                )
            except BlockingIOError:
                return found
            items = self._decode(note)
            if len(items) == len(descriptors):
                found += zip(items, descriptors, strict=True)
            else:  # this process is at its limit of descriptors, and the kernel dropped some
                for descriptor in descriptors:
                    os.close(descriptor)


def descriptor_path(runtime_directory: str, service: str = "flush") -> Path:
    """Return where a service receives descriptors."""
    return Path(runtime_directory, f"{service}.descriptors")


def send_descriptors(path: Path, pairs: Iterable[tuple[Any, int]]) -> bool:
    """Send (item, descriptor) pairs; return False if some of them did not arrive."""
    listed = list(pairs)
    with open_datagram_socket() as sender:
        try:
            with short_address(path) as address:
                sender.connect(address)
            for begin in range(0, len(listed), BATCH_COUNT_MAX):
                batch = listed[begin : begin + BATCH_COUNT_MAX]
                note = msgspec.msgpack.encode([item for item, _ in batch])
                socket.send_fds(sender, [note], [descriptor for _, descriptor in batch])
        except OSError as error:
            if error.errno not in _LOST:
                raise
            return False
    return True
