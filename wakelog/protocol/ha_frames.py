"""The bytes between a master and its slaves: two streams without names, big endian.

    slave to master   i64 offset                       a report: how far the slave's log reaches
    master to slave   i64 offset, i32 0                a heartbeat: the offset of the next byte
    master to slave   i64 offset, i32 n, n bytes       bytes of the log, of one segment

There is no version, no identity and no checksum; what follows from that is in docs/replication.md.

Source: org.apache.rocketmq.store.ha.HAConnection, HAService.HAClient (4.9.3).
"""

import struct
from typing import Final, NamedTuple

from wakelog.protocol.errors import RemoteProtocolError

REPORT: Final = struct.Struct(">q")
HEADER: Final = struct.Struct(">qi")

FRAME_BYTES_MAX: Final = 4 * 1024 * 1024
"""What a peer may send at once; a 4.9.3 slave has a buffer of this size for header and body."""

TRANSFER_BYTES_MAX: Final = 32 * 1024
"""What goes into one frame at most: longer ones than its buffer hang a 4.9.3 slave for ever."""


class BrokenStream(RemoteProtocolError):
    """A peer sent what is no frame."""

    def __init__(self, cause: str) -> None:
        """Keep the cause as the remark."""
        super().__init__(1, cause)


class LogFrame(NamedTuple):
    """Bytes of the log at an offset, none for a heartbeat.

    data: valid as long as the bytes that the reader was given.
    """

    offset: int
    data: memoryview


class ReportReader:
    """Cuts the stream of a slave into reports."""

    def __init__(self) -> None:
        """Begin with an empty stream."""
        self._rest = b""  # the begin of the next report

    def read(self, data: bytes) -> list[int]:
        """Return the reports that `data` completes."""
        data = self._rest + data
        whole = len(data) - len(data) % REPORT.size
        self._rest = data[whole:]
        return [offset for (offset,) in REPORT.iter_unpack(data[:whole])]


class FrameReader:
    """Cuts the stream of a master into frames."""

    def __init__(self) -> None:
        """Begin with an empty stream."""
        self._head: tuple[int, int] | None = None  # of the frame that is under way
        self._rest = bytearray()  # of its bytes, or without `_head` of the next header

    def read(self, data: bytes | memoryview) -> list[LogFrame]:
        """Return the frames that `data` completes, without a copy of most. Raises: BrokenStream."""
        view, position = memoryview(data), 0
        found: list[LogFrame] = []
        if self._rest and self._head is None:
            position = HEADER.size - len(self._rest)
            self._rest += view[:position]
            if len(self._rest) < HEADER.size:
                return found
            self._head, self._rest = _head(self._rest, 0), bytearray()
        if self._head is not None:
            offset, size = self._head
            piece = view[position : position + size - len(self._rest)]
            self._rest += piece
            position += len(piece)
            if len(self._rest) < size:
                return found
            found.append(LogFrame(offset, memoryview(self._rest)))
            self._head, self._rest = None, bytearray()
        while position + HEADER.size <= len(view):
            offset, size = head = _head(view, position)
            position += HEADER.size
            if position + size > len(view):
                self._head = head
                break
            found.append(LogFrame(offset, view[position : position + size]))
            position += size
        self._rest += view[position:]
        return found


def _head(data: bytearray | memoryview, position: int) -> tuple[int, int]:
    """Return offset and size of a frame. Raises: BrokenStream."""
    offset, size = HEADER.unpack_from(data, position)
    if not 0 <= size <= FRAME_BYTES_MAX or offset < 0:
        raise BrokenStream(f"no frame of a master: offset {offset}, {size} bytes")
    return int(offset), int(size)


def encode_report(offset: int) -> bytes:
    """Return a report."""
    return REPORT.pack(offset)


def encode_header(offset: int, size_bytes: int) -> bytes:
    """Return what goes before `size_bytes` of the log; with 0 it is a heartbeat."""
    return HEADER.pack(offset, size_bytes)
