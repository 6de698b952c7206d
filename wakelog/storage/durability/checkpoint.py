"""The checkpoint file: how far, in store time, log, queues and index are known to be durable.

docs/formats/checkpoint.md has its layout, which never changes. wakelog recovers by offsets
(`watermark.py`, `dispatched.py`) and falls back to these times. Each field has one writer, which
writes only its own eight bytes: Flush the first, Reput the others. A start lowers the second to
where dispatch begins again, before Reput runs.

Invariant: a field is written after the data it describes was synced; it may lag, never lead.

Source: org.apache.rocketmq.store.StoreCheckpoint (4.9.3).
"""

import struct
from posixpath import dirname

import msgspec

from wakelog.storage.errors import store_errors
from wakelog.storage.file_system import FileSystem, read_file

CHECKPOINT_BYTES = 4096
PHYSIC_POSITION = 0
LOGICS_POSITION = 8
INDEX_POSITION = 16
# 4.9.3 steps back by this much, since the three times are taken one after the other.
SAFETY_MS = 3_000

_FIELD = struct.Struct(">q")
_FIELDS = struct.Struct(">qqq")


class CheckpointTimes(msgspec.Struct, frozen=True):
    """The three times of a checkpoint, in their order on disk."""

    physic_ms: int = 0
    logics_ms: int = 0
    index_ms: int = 0

    @property
    def min_ms(self) -> int:
        """The time up to which both log and queues are durable, with 4.9.3's margin."""
        return max(0, min(self.physic_ms, self.logics_ms) - SAFETY_MS)

    @property
    def min_index_ms(self) -> int:
        """The time up to which log, queues and index are durable."""
        return min(self.min_ms, self.index_ms)


class Checkpoint:
    """The checkpoint file, open for one process's fields. Its methods raise StoreFailed."""

    __slots__ = ("_fd", "_fs", "_path")

    def __init__(self, fs: FileSystem, path: str) -> None:
        """Open the file, made with zeros if it is missing. Raises: StoreFailed, StoreFull."""
        self._fs = fs
        self._path = path
        with store_errors(path, "open"):
            is_new = not fs.exists(path)
            self._fd = fs.open(path, create=True)
            try:
                if fs.size(self._fd) < CHECKPOINT_BYTES:
                    fs.allocate(self._fd, CHECKPOINT_BYTES)
                if is_new:
                    fs.sync(self._fd)
                    fs.sync_directory(dirname(path))
            except OSError:
                fs.close(self._fd)
                raise

    def read(self) -> CheckpointTimes:
        """Return the times as they are in the file now."""
        with store_errors(self._path, "read"):
            return decode_checkpoint(self._fs.pread(self._fd, _FIELDS.size, 0))

    def set_physic(self, store_timestamp_ms: int) -> None:
        """Note a durable message of the log; call after its sync."""
        self._set(PHYSIC_POSITION, store_timestamp_ms)

    def set_logics(self, store_timestamp_ms: int) -> None:
        """Note a durable queue entry; call after its sync."""
        self._set(LOGICS_POSITION, store_timestamp_ms)

    def set_index(self, store_timestamp_ms: int) -> None:
        """Note a full and durable index file; call after its sync."""
        self._set(INDEX_POSITION, store_timestamp_ms)

    def sync(self) -> None:
        """Make the times durable."""
        with store_errors(self._path, "sync"):
            self._fs.datasync(self._fd)

    def close(self) -> None:
        """Close the file."""
        self._fs.close(self._fd)

    def _set(self, position: int, value_ms: int) -> None:
        with store_errors(self._path, "write"):
            self._fs.pwrite(self._fd, _FIELD.pack(value_ms), position)


def read_times(fs: FileSystem, path: str) -> CheckpointTimes:
    """Return the times of a checkpoint without making one; zeros if there is none.

    Raises: StoreFailed.
    """
    return decode_checkpoint(read_file(fs, path, _FIELDS.size) or b"")


def decode_checkpoint(data: bytes) -> CheckpointTimes:
    """Read the times; what a short file lacks is 0, which makes recovery start early."""
    return CheckpointTimes(*_FIELDS.unpack(data[: _FIELDS.size].ljust(_FIELDS.size, b"\0")))
