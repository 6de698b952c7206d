"""The durable watermark, `wakelog.watermark` in the root: below it all of the log is durable.

Recovery uses it to tell a torn tail from damage. A crash tears only what lies at the watermark or
above; anything damaged below was durable once. 4.9.3 ignores the file. Big endian:

    offset  width  field
    0       4      magic, "WLWM"
    4       4      1 if the store was left cleanly, and the seal below counts; else 0
    8       8      sequence: the slot with the higher one counts
    16      8      the watermark, a physical offset at which a record ends
    24      8      the highest first time of the checkpoint written with it, ms
    32      16     seal: BLAKE2b of the checkpoint file
    48      8      seal: length of the segment that the log ends in
    56      8      seal: modification time of that segment, ms
    64      4      CRC-32 of the 64 bytes before

The second slot, alike, is at 4096, the file 8192 bytes long; `slot_file.py` says how they are used.

Invariants:
- A slot is written after the log up to there was synced; it may lag, never lead.
- It is durable before the checkpoint's first time exceeds the time in it.

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
    """The store's state when it was left cleanly; another broker changes some of it."""

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


class Watermark(SlotFile[Mark]):
    """The file, open for the process that makes the log durable; one writer at a time."""

    __slots__ = ()

    def __init__(self, fs: FileSystem, path: str) -> None:
        """Open the file, made with zeros if it is missing. Raises: StoreFailed, StoreFull."""
        super().__init__(fs, path, SLOTS)

    def note(self, physical_offset: int, physic_ms: int, seal: Seal | None = None) -> None:
        """Record how far the log is durable; call after its sync. Raises: StoreFailed, StoreFull.

        physic_ms: what the checkpoint's first time is, or will be set to.
        """
        assert physical_offset >= self.mark.physical_offset, (physical_offset, self.mark)
        self._write(physical_offset, max(physic_ms, self.mark.physic_ms), seal)

    def lower(self, physical_offset: int) -> None:
        """Record that nothing above `physical_offset` is known to be durable: it will be cut.

        Raises: StoreFailed, StoreFull.
        """
        if physical_offset < self.mark.physical_offset:
            self._write(physical_offset, self.mark.physic_ms, None)

    def _write(self, physical_offset: int, physic_ms: int, seal: Seal | None) -> None:
        self.write(Mark(self.mark.sequence + 1, physical_offset, physic_ms, seal))


def read_mark(fs: FileSystem, path: str) -> Mark:
    """Return the newest valid mark, zeros if there is none. Raises: StoreFailed."""
    return read_slot(fs, path, SLOTS)


def checkpoint_digest(data: bytes) -> bytes:
    """Return the digest of a whole checkpoint file."""
    return blake2b(data, digest_size=DIGEST_BYTES).digest()
