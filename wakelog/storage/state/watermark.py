"""The durable watermark, `wakelog.watermark` in the root: below it all of the log is durable.

It tells recovery a torn tail from damage: what a crash tore lies at the watermark or above it, and
what is not sound below it was sound once. 4.9.3 neither writes nor minds the file. Big endian:

    offset  width  field
    0       4      magic, "WLWM"
    4       4      1 if the store was left in order, and the seal below counts; else 0
    8       8      sequence: the slot with the higher one counts
    16      8      the watermark, a physical offset at which a record ends
    24      8      the highest first time of the checkpoint that was written together with it, ms
    32      16     seal: BLAKE2b of the checkpoint file
    48      8      seal: length of the segment that the log ends in
    56      8      seal: when that segment was written last, ms
    64      4      CRC-32 of the 64 bytes before

The second slot, alike, is at 4096, the file 8192 bytes long. Slots are written in turn, each by one
write within a sector: of a slot that a crash tore the CRC differs, and the other one counts.

Invariants:
- A slot is written only after what it claims was synced; it may be behind, never ahead.
- It is durable before the checkpoint's first time goes above the time it names.
- Who writes has read it from the disk: else one whose sync failed would look lowered, and is not.

Source: none upstream.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from posixpath import dirname
from typing import Final, NamedTuple
from zlib import crc32

from wakelog.storage.errors import store_failure
from wakelog.storage.file_system import FileSystem, pread_anew

SLOT_POSITIONS: Final = (0, 4096)
"""Pages of their own, so that no write of one can tear the other."""
WATERMARK_BYTES: Final = 8192
DIGEST_BYTES: Final = 16

_MAGIC: Final = b"WLWM"
_SLOT: Final = struct.Struct(">4siqqq16sqq")
_CRC: Final = struct.Struct(">I")


class Seal(NamedTuple):
    """What the store looked like when it was left in order: another broker changes some of it."""

    checkpoint_digest: bytes
    segment_bytes: int
    modified_ms: int


class Mark(NamedTuple):
    """One slot; the seal is None while a broker runs."""

    sequence: int = 0
    physical_offset: int = 0
    physic_ms: int = 0
    seal: Seal | None = None


class Watermark:
    """The file, open for whoever makes the log durable; one writer at a time."""

    __slots__ = ("_fd", "_fs", "_mark", "_path")

    def __init__(self, fs: FileSystem, path: str) -> None:
        """Open the file, made with zeros if it is missing. Raises: StoreFailed, StoreFull."""
        self._fs = fs
        self._path = path
        try:
            is_new = not fs.exists(path)
            self._fd = fs.open(path, create=True)
            try:
                if fs.size(self._fd) < WATERMARK_BYTES:
                    fs.allocate(self._fd, WATERMARK_BYTES)
                    fs.sync(self._fd)
                if is_new:
                    fs.sync_directory(dirname(path))
                self._mark = decode_watermark(pread_anew(fs, self._fd, WATERMARK_BYTES))
            except OSError:
                fs.close(self._fd)
                raise
        except OSError as error:
            raise store_failure(path, "open", error) from error

    @property
    def mark(self) -> Mark:
        """The newest slot, as far as this object knows."""
        return self._mark

    def note(self, physical_offset: int, physic_ms: int, seal: Seal | None = None) -> None:
        """Say durably how far the log is; call after its sync. Raises: StoreFailed, StoreFull.

        physic_ms: what the checkpoint's first time is, or will be set to.
        """
        assert physical_offset >= self._mark.physical_offset, (physical_offset, self._mark)
        self._write(physical_offset, max(physic_ms, self._mark.physic_ms), seal)

    def lower(self, physical_offset: int) -> None:
        """Say durably that above `physical_offset` nothing is known: it is about to be cut.

        Raises: StoreFailed, StoreFull.
        """
        if physical_offset < self._mark.physical_offset:
            self._write(physical_offset, self._mark.physic_ms, None)

    def close(self) -> None:
        """Close the file."""
        self._fs.close(self._fd)

    def _write(self, physical_offset: int, physic_ms: int, seal: Seal | None) -> None:
        mark = Mark(self._mark.sequence + 1, physical_offset, physic_ms, seal)
        try:
            position = SLOT_POSITIONS[mark.sequence % len(SLOT_POSITIONS)]
            self._fs.pwrite(self._fd, encode_slot(mark), position)
            self._fs.datasync(self._fd)
        except OSError as error:
            raise store_failure(self._path, "write", error) from error
        self._mark = mark


def read_mark(fs: FileSystem, path: str) -> Mark:
    """Return what the file says, 0 where there is none or it cannot be believed.

    Raises: StoreFailed.
    """
    try:
        fd = fs.open(path, read_only=True)
        try:
            return decode_watermark(fs.pread(fd, WATERMARK_BYTES, 0))
        finally:
            fs.close(fd)
    except FileNotFoundError:
        return Mark()
    except OSError as error:
        raise store_failure(path, "read", error) from error


def encode_slot(mark: Mark) -> bytes:
    """Build one slot."""
    seal = mark.seal or Seal(bytes(DIGEST_BYTES), 0, 0)
    fields = (mark.sequence, mark.physical_offset, mark.physic_ms, *seal)
    data = _SLOT.pack(_MAGIC, mark.seal is not None, *fields)
    return data + _CRC.pack(crc32(data))


def decode_watermark(data: bytes) -> Mark:
    """Return the newest slot that is whole, zeros if none is."""
    found = [_decode_slot(data[position:]) for position in SLOT_POSITIONS]
    return max(found, key=lambda mark: mark.sequence)


def checkpoint_digest(data: bytes) -> bytes:
    """Return the digest of a whole checkpoint file."""
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


def _decode_slot(data: bytes) -> Mark:
    if len(data) < _SLOT.size + _CRC.size:
        return Mark()
    slot = data[: _SLOT.size]
    if _CRC.unpack_from(data, _SLOT.size)[0] != crc32(slot):
        return Mark()
    magic, is_sealed, sequence, physical_offset, physic_ms, *seal = _SLOT.unpack(slot)
    if magic != _MAGIC or sequence < 0 or physical_offset < 0:
        return Mark()
    return Mark(sequence, physical_offset, physic_ms, Seal(*seal) if is_sealed else None)
