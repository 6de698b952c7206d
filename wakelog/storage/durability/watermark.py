"""The durable watermark, `wakelog.watermark` in the root: below it all of the log is durable.

Recovery uses it to tell a torn tail from damage. A crash tears only what lies at the watermark or
above; anything damaged below was durable once. 4.9.3 ignores the file. docs/formats/watermark.md
has its layout, `slot_file.py` says how its slots are used.

Invariants:
- A slot is written after the log up to there was synced; it may lag, never lead.
- It is durable before the checkpoint's first time exceeds the time in it.

Source: none upstream.
"""

import struct
from hashlib import blake2b
from typing import Final, NamedTuple

from wakelog.storage.durability.slot_file import SlotFile, SlotFormat, read_slot
from wakelog.storage.file_system import FileSystem

DIGEST_BYTES: Final = 16


class Seal(NamedTuple):
    """The store's state when it was left cleanly; another broker changes some of it."""

    checkpoint_digest: bytes = bytes(DIGEST_BYTES)
    segment_bytes: int = 0
    modified_ms: int = 0


class Mark(NamedTuple):
    """One slot."""

    is_sealed: bool = False
    sequence: int = 0
    physical_offset: int = 0
    physic_ms: int = 0
    checkpoint_digest: bytes = bytes(DIGEST_BYTES)
    segment_bytes: int = 0
    modified_ms: int = 0

    @property
    def seal(self) -> Seal | None:
        """The seal, None while a broker runs."""
        return Seal(*self[-3:]) if self.is_sealed else None

    @property
    def is_possible(self) -> bool:
        """Whether a writer can have written it."""
        return self.physical_offset >= 0


SLOTS: Final = SlotFormat(b"WLWM", struct.Struct(">4siqqq16sqq"), Mark)


class Watermark(SlotFile[Mark]):
    """The file, open for the process that makes the log durable; one writer at a time."""

    __slots__ = ()

    def __init__(self, fs: FileSystem, path: str) -> None:
        super().__init__(fs, path, SLOTS)

    def note(self, physical_offset: int, physic_ms: int, seal: Seal | None = None) -> None:
        """Record how far the log is durable; call after its sync.

        physic_ms: what the checkpoint's first time is, or will be set to.
        """
        assert physical_offset >= self.mark.physical_offset, (physical_offset, self.mark)
        self._write(physical_offset, max(physic_ms, self.mark.physic_ms), seal)

    def lower(self, physical_offset: int) -> None:
        """Record that nothing above `physical_offset` is known to be durable: it will be cut."""
        if physical_offset < self.mark.physical_offset:
            self._write(physical_offset, self.mark.physic_ms, None)

    def _write(self, physical_offset: int, physic_ms: int, seal: Seal | None) -> None:
        sequence = self.mark.sequence + 1
        self.write(Mark(seal is not None, sequence, physical_offset, physic_ms, *(seal or Seal())))


def read_mark(fs: FileSystem, path: str) -> Mark:
    """Return the newest valid mark, zeros if there is none. Raises: StoreFailed."""
    return read_slot(fs, path, SLOTS)


def checkpoint_digest(data: bytes) -> bytes:
    """Return the digest of a whole checkpoint file."""
    return blake2b(data, digest_size=DIGEST_BYTES).digest()
