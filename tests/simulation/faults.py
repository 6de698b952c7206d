"""Which calls on a simulated disk fail, and how a failed sync leaves the file.

The three ways of a failed sync are those that ext4, XFS and Btrfs were seen to have (Rebello et
al., "Can Applications Recover from fsync Failures?", USENIX ATC 2020). In each, pages are called
clean afterwards: a second sync of them succeeds and proves nothing.
"""

import enum
import errno
from collections import Counter
from random import Random
from typing import NamedTuple

SECTOR_BYTES = 512
ANY_CALL = "any"
WRITE_BACK = "write_back"
"""Not a call: what the kernel does in its own time with what was written; one for each write."""


class SyncFailure(enum.Enum):
    """What a file is like after its sync failed; what the disk holds of it differs in each."""

    CLEAN_NEW = "readers see the new content"
    CLEAN_OLD = "readers see the content of the last good sync"
    LATE = "the failing sync reports success, the next one the error"


class Failure(NamedTuple):
    """One failing call."""

    number: int = errno.EIO
    is_short: bool = False
    sync_failure: SyncFailure = SyncFailure.CLEAN_NEW


class Faults:
    """A plan of failures by call name and count, and the counts while there is one."""

    def __init__(self) -> None:
        self._plan: dict[tuple[str, int], Failure] = {}
        self._always: dict[str, Failure] = {}
        self._misdirected: dict[int, int | None] = {}
        self.calls: Counter[str] = Counter()
        self.struck_count = 0

    def fail(self, name: str, failure: Failure, *, nth: int) -> None:
        """Let the nth call from now on fail; `ANY_CALL` counts calls of every name."""
        self._plan[name, self.calls[name] + nth] = failure

    def fail_always(self, name: str, failure: Failure) -> None:
        """Let every call of a name fail until `heal`."""
        self._always[name] = failure

    def misdirect(self, *, nth: int, by: int | None) -> None:
        """Let the nth write from now on land so many bytes further on, or nowhere if None."""
        self._misdirected[self.calls["pwrite"] + nth] = by

    def landing(self, position: int) -> int | None:
        """Return where the write that was counted last lands, None if nowhere."""
        by = self._misdirected.pop(self.calls["pwrite"], 0)
        return None if by is None else position + by

    def heal(self) -> None:
        """Forget what has not failed yet."""
        self._plan.clear()
        self._always.clear()

    def failure(self, name: str) -> Failure | None:
        """Count a call and return how it fails, None if it does not.

        Where nothing is planned nothing is counted: plans count from when they are made.
        """
        if not (self._plan or self._always or self._misdirected):
            return None
        self.calls[name] += 1
        self.calls[ANY_CALL] += 1
        failure = (
            self._plan.pop((name, self.calls[name]), None)
            or self._plan.pop((ANY_CALL, self.calls[ANY_CALL]), None)
            or self._always.get(name)
        )
        self.struck_count += failure is not None
        return failure


def survived(old: bytes, new: bytes, seed: int) -> bytes:
    """Return what the disk holds after a failed write-back: of each sector the old or the new."""
    rng = Random(seed)
    pieces = []
    for begin in range(0, max(len(old), len(new)), SECTOR_BYTES):
        chosen = new if rng.random() < 0.3 else old
        piece = chosen[begin : begin + SECTOR_BYTES]
        pieces.append(piece.ljust(min(SECTOR_BYTES, len(new) - begin), b"\0"))
    return b"".join(pieces)[: len(new)]
