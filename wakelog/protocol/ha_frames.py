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
    """Cuts the stream of a slave into reports. rest: the begin of the next one."""

    def __init__(self, rest: bytes = b"") -> None:
        """Begin with the begin of a report."""
        self.rest = rest

    def read(self, data: bytes) -> list[int]:
        """Return the reports that `data` completes."""
        data = self.rest + data
        whole = len(data) - len(data) % REPORT.size
        self.rest = data[whole:]
        return [offset for (offset,) in REPORT.iter_unpack(data[:whole])]


class FrameReader:
    """Cuts the stream of a master into frames."""

    def __init__(self) -> None:
        """Begin with an empty stream."""
        self._rest = bytearray()

    def read(self, data: bytes | memoryview) -> list[LogFrame]:
        """Return the frames that `data` completes, without a copy of most. Raises: BrokenStream."""
        view, position = memoryview(data), 0
        found: list[LogFrame] = []
        while self._rest:
            size = _frame_bytes(self._rest, 0) if len(self._rest) >= HEADER.size else HEADER.size
            piece = view[position : position + size - len(self._rest)]
            self._rest += piece
            position += len(piece)
            if len(self._rest) < size:
                return found
            if size == HEADER.size and _frame_bytes(self._rest, 0) > size:
                continue
            whole = memoryview(bytes(self._rest))
            self._rest.clear()
            found.append(_frame(whole, 0, size))
        while position + HEADER.size <= len(view):
            size = _frame_bytes(view, position)
            if position + size > len(view):
                break
            found.append(_frame(view, position, size))
            position += size
        self._rest += view[position:]
        return found


def _frame_bytes(data: bytearray | memoryview, position: int) -> int:
    """Return the length of a frame with its header. Raises: BrokenStream."""
    offset, size = HEADER.unpack_from(data, position)
    if not 0 <= size <= FRAME_BYTES_MAX or offset < 0:
        raise BrokenStream(f"no frame of a master: offset {offset}, {size} bytes")
    return HEADER.size + int(size)


def _frame(data: memoryview, position: int, size: int) -> LogFrame:
    offset, _ = HEADER.unpack_from(data, position)
    return LogFrame(offset, data[position + HEADER.size : position + size])


def encode_report(offset: int) -> bytes:
    """Return a report."""
    return REPORT.pack(offset)


def encode_header(offset: int, size_bytes: int) -> bytes:
    """Return what goes before `size_bytes` of the log; with 0 it is a heartbeat."""
    return HEADER.pack(offset, size_bytes)
