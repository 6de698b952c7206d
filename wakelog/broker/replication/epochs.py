"""Epochs: who wrote which part of the log, and the highest epoch that this replica has promised.

A line says that the bytes from `start` on, up to the next line, were written by the one master of
`epoch`. Two logs with the same line are equal up to its start, and as far as both have the epoch.

Rules:
- A line is durable before the first byte behind its start is appended.
- The log is cut durably before lines are. Otherwise bytes of a lost epoch would count as older.
- The promise never falls. It is durable before an acknowledgement in its epoch, and before this
  replica proposes itself for it.
- A replica that is being seeded is no candidate, whatever the register says.

The file `wakelog.epochs` has two slots of one page each, see `slot_file.py`. A slot is longer than
a sector; its checksum tells a torn one. Only the newest `LINES_MAX` lines are kept. A log without
a line in common is seeded again.

Source: 5.x's EpochFileCache (org.apache.rocketmq.store.ha.autoswitch), which is not synced.
"""

import struct
from typing import Final, NamedTuple, Protocol

from wakelog.storage.durability.slot_file import SlotFormat

LINES_MAX: Final = 250
LOG_ID_BYTES: Final = 16
NO_LOG_ID: Final = bytes(LOG_ID_BYTES)

_LINE: Final = struct.Struct(">qq")


class EpochLine(NamedTuple):
    """The bytes from `start` on are of `epoch`."""

    epoch: int
    start: int


Lines = tuple[EpochLine, ...]


def common_point(own: Lines, own_end: int, other: Lines, other_end: int) -> int | None:
    """Return up to where two logs are surely equal; None if no line is the same in both."""
    theirs = {line: i for i, line in enumerate(other)}
    for i in range(len(own) - 1, -1, -1):
        j = theirs.get(own[i])
        if j is not None:
            own_part_end = own[i + 1].start if i + 1 < len(own) else own_end
            other_part_end = other[j + 1].start if j + 1 < len(other) else other_end
            return min(own_part_end, other_part_end)
    return None


def line_at(lines: Lines, offset: int) -> int:
    """Return the index of the line that a byte at `offset` belongs to, -1 for none."""
    for i in range(len(lines) - 1, -1, -1):
        if lines[i].start <= offset:
            return i
    return -1


class EpochSlot(NamedTuple):
    """One slot. is_seeding: 1 while the log is not known to have every acknowledged byte."""

    sequence: int = 0
    promise: int = 0
    log_id: bytes = NO_LOG_ID
    is_seeding: int = 0
    line_count: int = 0
    packed: bytes = b""

    @property
    def is_possible(self) -> bool:
        """Whether a writer can have written it."""
        return self.promise >= 0 and 0 <= self.line_count <= LINES_MAX

    @property
    def lines(self) -> Lines:
        """The lines, oldest first."""
        size = self.line_count * _LINE.size
        return tuple(EpochLine(*pair) for pair in _LINE.iter_unpack(self.packed[:size]))


SLOTS: Final = SlotFormat(
    b"WLEP", struct.Struct(f">4sqq{LOG_ID_BYTES}sii{LINES_MAX * _LINE.size}s"), EpochSlot
)


class SlotWriter(Protocol):
    """A SlotFile of such slots. All it does may raise StoreFailed or StoreFull."""

    @property
    def mark(self) -> EpochSlot:
        """The newest slot."""

    def write(self, slot: EpochSlot) -> None:
        """Make this the slot that counts. It is durable on return."""


class Epochs:
    """The file, with what it says in memory. What changes it is durable on return.

    promise: the highest epoch that this replica has seen and accepted.
    log_id: NO_LOG_ID until the replica belongs to a group.
    """

    def __init__(self, file: SlotWriter, log_end: int) -> None:
        """Read the file beside a log that ends at `log_end`."""
        self._file = file
        slot = file.mark
        self.promise = slot.promise
        self.log_id = slot.log_id
        self.is_seeding = bool(slot.is_seeding)
        # A cut, or a crash of a new master, may have left lines that no byte belongs to.
        self.lines: Lines = tuple(line for line in slot.lines if line.start <= log_end)

    def make_promise(self, epoch: int) -> None:
        """Accept no lower epoch from now on."""
        assert epoch >= self.promise, (epoch, self.promise)
        if epoch > self.promise:
            self._write(epoch, self.log_id, self.lines, is_seeding=self.is_seeding)

    def begin(self, line: EpochLine) -> None:
        """Add a line: the next byte of the log is the first of its epoch here."""
        last = self.lines[-1] if self.lines else EpochLine(-1, -1)
        assert line.epoch > last.epoch and line.start >= last.start, (line, last)
        assert line.epoch <= self.promise, (line, self.promise)
        lines = (*self.lines, line)[-LINES_MAX:]
        self._write(self.promise, self.log_id, lines, is_seeding=self.is_seeding)

    def cut(self, lines: Lines) -> None:
        """Forget the lines that are not among `lines`; the log was cut before."""
        if lines != self.lines:
            self._write(self.promise, self.log_id, lines, is_seeding=self.is_seeding)

    def join(self, log_id: bytes, lines: Lines = (), *, is_seeding: bool) -> None:
        """Belong to a group from now on, with a log that begins with these lines."""
        self._write(self.promise, log_id, lines, is_seeding=is_seeding)

    def end_seeding(self) -> None:
        """Know that the log has every acknowledged byte."""
        if self.is_seeding:
            self._write(self.promise, self.log_id, self.lines, is_seeding=False)

    def _write(self, promise: int, log_id: bytes, lines: Lines, *, is_seeding: bool) -> None:
        packed = b"".join(_LINE.pack(*line) for line in lines)
        sequence = self._file.mark.sequence + 1
        self._file.write(EpochSlot(sequence, promise, log_id, int(is_seeding), len(lines), packed))
        self.promise, self.log_id, self.lines = promise, log_id, lines
        self.is_seeding = is_seeding
