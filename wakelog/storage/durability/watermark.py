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

The second slot, alike, is at 4096, the file 8192 bytes long; `slot_file.py` says how they are used.

Invariants:
- A slot is written only after what it claims was synced; it may be behind, never ahead.
- It is durable before the checkpoint's first time goes above the time it names.

Source: none upstream.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from wakelog.storage.durability.slot_file import SlotFile, SlotFormat, read_slot
from wakelog.storage.file_system import FileSystem

DIGEST_BYTES: Final = 16


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


def _pack(mark: Mark) -> tuple[Any, ...]:
    seal = mark.seal or Seal(bytes(DIGEST_BYTES), 0, 0)
    is_sealed = mark.seal is not None
    return (is_sealed, mark.sequence, mark.physical_offset, mark.physic_ms, *seal)


def _unpack(
    is_sealed: int, sequence: int, physical_offset: int, physic_ms: int, *seal: Any
) -> Mark | None:
    if sequence < 0 or physical_offset < 0:
        return None
    return Mark(sequence, physical_offset, physic_ms, Seal(*seal) if is_sealed else None)


SLOTS: Final = SlotFormat(b"WLWM", struct.Struct(">4siqqq16sqq"), _pack, _unpack, Mark())


class Watermark:
    """The file, open for whoever makes the log durable; one writer at a time."""

    __slots__ = ("_file",)

    def __init__(self, fs: FileSystem, path: str) -> None:
        """Open the file, made with zeros if it is missing. Raises: StoreFailed, StoreFull."""
        self._file = SlotFile(fs, path, SLOTS)

    @property
    def mark(self) -> Mark:
        """The newest slot, as far as this object knows."""
        return self._file.slot

    def note(self, physical_offset: int, physic_ms: int, seal: Seal | None = None) -> None:
        """Say durably how far the log is; call after its sync. Raises: StoreFailed, StoreFull.

        physic_ms: what the checkpoint's first time is, or will be set to.
        """
        assert physical_offset >= self.mark.physical_offset, (physical_offset, self.mark)
        self._write(physical_offset, max(physic_ms, self.mark.physic_ms), seal)

    def lower(self, physical_offset: int) -> None:
        """Say durably that above `physical_offset` nothing is known: it is about to be cut.

        Raises: StoreFailed, StoreFull.
        """
        if physical_offset < self.mark.physical_offset:
            self._write(physical_offset, self.mark.physic_ms, None)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, physical_offset: int, physic_ms: int, seal: Seal | None) -> None:
        self._file.write(Mark(self.mark.sequence + 1, physical_offset, physic_ms, seal))


def read_mark(fs: FileSystem, path: str) -> Mark:
    """Return what the file says, 0 where there is none or it cannot be believed.

    Raises: StoreFailed.
    """
    return read_slot(fs, path, SLOTS)


def checkpoint_digest(data: bytes) -> bytes:
    """Return the digest of a whole checkpoint file."""
    return blake2b(data, digest_size=DIGEST_BYTES).digest()
