"""How far a file that grows has blocks on the disk: ahead of its writer, in steps.

A file has its full length from the start and takes only the disk that its content needs. Before a
write the writer has `cover` reserve what it needs, in whole steps. So a full disk is met before a
write and never inside it, nor later in a sync or in the copy from the transient pool.

Invariants:
- Every byte that a writer with a reservation wrote lies below `end`, or was there at its start.
- A step that could not be reserved leaves `end` as it was: the next `cover` tries again.

Source: none: 4.9.3 writes into holes of a map, where a full disk kills the process.
"""

from typing import Final

from wakelog.storage.log.mapped_file import MappedFile

LOG_STEP_BYTES: Final = 64 << 20
"""Some 60,000 messages of 1 KiB; a step of a segment takes the disk a tenth of a millisecond."""
QUEUE_STEP_BYTES: Final = 64 << 10
"""3,276 entries: small, because a broker may have thousands of queues."""
QUEUE_FIRST_BYTES: Final = 4 << 10
"""204 entries, a block of most file systems: most of thousands of queues have few messages."""


def step_end(position: int, step_bytes: int, file_bytes: int) -> int:
    """Return where the step ends that holds the byte before `position`, cut at the file's end."""
    return min(-(-position // step_bytes) * step_bytes, file_bytes)


class Reservation:
    """The reserved end of a sequence of files with one writer.

    end: the offset in the sequence below which the writer needs to reserve nothing.
    """

    __slots__ = ("_first_bytes", "_step_bytes", "end")

    def __init__(self, step_bytes: int, first_bytes: int | None = None) -> None:
        """Begin with nothing: what was reserved before is not known.

        first_bytes: the first step of each file, if it is smaller; each later one ends at twice the
            size until `step_bytes` are reached.
        """
        self._step_bytes = step_bytes
        self._first_bytes = first_bytes or step_bytes
        self.end = 0

    def cover(self, file: MappedFile, begin: int, end: int) -> None:
        """Before [begin, end) of the sequence is written in `file`: reserve it to its step's end.

        Raises: StoreFull, StoreFailed.
        """
        if end > max(begin, self.end):
            position = file.position_of(max(begin, self.end))
            wanted, step_bytes = file.position_of(end), self._first_bytes
            while step_bytes < min(wanted, self._step_bytes):
                step_bytes *= 2
            reserved_end = step_end(wanted, step_bytes, file.size_bytes)
            file.reserve(position, reserved_end - position)
            self.end = file.start_offset + reserved_end

    def forget_from(self, start_offset: int) -> None:
        """Note that the file that starts here was just made."""
        self.end = min(self.end, start_offset)
