"""Leases: which readers keep segments of the log from being removed, and for how long.

A lease says that a reader still needs the log from an offset on, such as a Spark job that was given
a snapshot. Retention asks here before it removes a segment.

    granted, renewed   holds for LEASE_MS from then; a running reader renews it in time
    expired            was not renewed: its reader is done, or dead
    ended              its reader gave it back
    lost               Retention had to remove what it held; kept until it would have expired, so
                       that its reader learns why

All leases are in the file `wakelog.leases` in the store's root, one JSON text:

    {"version":1,"leases":[{"leaseId":"...","holder":"...","begin":0,"end":4096,
     "expiresMs":1767225600000,"lost":""}]}

Retention alone writes it, whole and in one step. Any process may read it; a reader whose segment is
gone does, to learn why. 4.9.3 ignores it. A text that cannot be parsed counts as no leases.

Invariants:
- At most `LEASES_MAX` leases hold at once. One more is refused and displaces none.
- No lease holds for more than `LEASE_MS` from now on, whatever the clock did.
- A lost lease never holds again.
- A lease that `grant`, `renew` or `end` returned is durable.

Source: none upstream: 4.9.3 removes what a consumer reads.
"""

from collections.abc import Sequence
from posixpath import dirname
from typing import Final

import msgspec

from wakelog.storage.errors import StoreError, store_errors
from wakelog.storage.file_system import FileSystem, read_file, replace_file
from wakelog.storage.paths import StorePaths
from wakelog.typed_values import decode_json

LEASE_MS: Final = 600_000
"""Long enough for a driver that waits for executors, short for a disk: what a dead driver held goes
ten minutes later."""

LEASES_MAX: Final = 64
"""Readers at once. Each run of Retention walks all leases, and the file is written whole."""

GRACE_MS: Final = 180_000
"""What a lease has left at least when a broker starts. It could not be renewed before, and a
running reader tries every two minutes."""

HOLDER_CHARACTERS_MAX: Final = 200
VERSION: Final = 1
FILE_BYTES_MAX: Final = 2 * LEASES_MAX * 4096
"""Leases that hold and leases that are lost, each far below a page."""

_OWNER: Final = "retention"


class Lease(msgspec.Struct, frozen=True, rename="camel"):
    """One reader's lease on [begin, end) of the log.

    holder: the reader's description of itself, for people.
    lost: why it holds no more, empty while it does.
    """

    lease_id: str
    holder: str
    begin: int
    end: int
    expires_ms: int
    lost: str = ""


class LeaseStatistics(msgspec.Struct, frozen=True):
    """What there is, and what happened since the start.

    begin: the first physical offset that is held, 0 if nothing is.
    """

    held_count: int
    begin: int
    granted_count: int
    refused_count: int
    expired_count: int
    lost_count: int


class _LeaseFile(msgspec.Struct, frozen=True):
    version: int
    leases: tuple[Lease, ...]


class LeaseBook:
    """The leases of one store, with their file. No clock. Saving raises StoreFull, StoreFailed."""

    def __init__(self, fs: FileSystem, paths: StorePaths, now_ms: int) -> None:
        """Read the file; each lease in it has `GRACE_MS` to be renewed. Raises: StoreFailed."""
        self._fs = fs
        self._paths = paths
        self._by_id: dict[str, Lease] = {}
        kept = read_leases(fs, paths)
        self.was_unreadable = kept is None
        for lease in kept or ():
            expires_ms = min(max(lease.expires_ms, now_ms + GRACE_MS), now_ms + LEASE_MS)
            self._keep(msgspec.structs.replace(lease, expires_ms=expires_ms))
        self._is_saved = True
        self._granted_count = self._refused_count = self._expired_count = self._lost_count = 0

    @property
    def held_from(self) -> int | None:
        """The first physical offset that is held, None if nothing is."""
        return min((lease.begin for lease in self.all() if not lease.lost), default=None)

    def all(self) -> list[Lease]:
        """Return every lease, lost ones included, in the order of their granting."""
        return list(self._by_id.values())

    def grant(
        self, lease_id: str, holder: str, *, begin: int, end: int, now_ms: int
    ) -> Lease | None:
        """Hold [begin, end) for a new reader; None if too many hold. An error holds nothing."""
        assert lease_id not in self._by_id and 0 <= begin <= end
        if self._held_count >= LEASES_MAX:
            self._refused_count += 1
            return None
        self._granted_count += 1
        text = holder[:HOLDER_CHARACTERS_MAX]
        lease = self._keep(Lease(lease_id, text, begin, end, now_ms + LEASE_MS))
        try:
            self._save()
        except StoreError:
            del self._by_id[lease_id]
            raise
        return lease

    def renew(self, lease_id: str, now_ms: int) -> Lease | None:
        """Extend a lease and return it; a lost one unchanged, None if there is no such lease."""
        lease = self._by_id.get(lease_id)
        if lease is not None and not lease.lost:
            lease = self._keep(msgspec.structs.replace(lease, expires_ms=now_ms + LEASE_MS))
            self._save()
        return lease

    def end(self, lease_id: str) -> bool:
        """Drop a lease; return whether there was such a one."""
        was_there = self._by_id.pop(lease_id, None) is not None
        if was_there:
            self._save()
        return was_there

    def expire(self, now_ms: int) -> bool:
        """Drop what was not renewed in time; True if that is for `save_changes` to write."""
        latest_ms = now_ms + LEASE_MS
        changed = [x for x in self.all() if not now_ms < x.expires_ms <= latest_ms]
        for lease in changed:
            if lease.expires_ms > latest_ms:  # the clock was set back
                self._keep(msgspec.structs.replace(lease, expires_ms=latest_ms))
            else:
                del self._by_id[lease.lease_id]
                self._expired_count += not lease.lost
        self._is_saved &= not changed
        return bool(changed)

    def lose_below(self, physical_offset: int, why: str) -> list[Lease]:
        """Give up what lies below an offset, for `save_changes` to write; return what is lost."""
        lost = [x for x in self.all() if x.begin < physical_offset and not x.lost]
        for lease in lost:
            self._keep(msgspec.structs.replace(lease, lost=why))
        self._lost_count += len(lost)
        # As many lost ones stay as may hold at once.
        all_lost = [lease for lease in self.all() if lease.lost]
        for lease in all_lost[: max(len(all_lost) - LEASES_MAX, 0)]:
            del self._by_id[lease.lease_id]
        self._is_saved &= not lost
        return lost

    def save_changes(self) -> None:
        """Write what `expire` and `lose_below` changed."""
        if not self._is_saved:
            self._save()

    def statistics(self) -> LeaseStatistics:
        """Return what there is and what happened."""
        return LeaseStatistics(
            held_count=self._held_count,
            begin=self.held_from or 0,
            granted_count=self._granted_count,
            refused_count=self._refused_count,
            expired_count=self._expired_count,
            lost_count=self._lost_count,
        )

    @property
    def _held_count(self) -> int:
        return sum(not lease.lost for lease in self._by_id.values())

    def _keep(self, lease: Lease) -> Lease:
        self._by_id[lease.lease_id] = lease
        return lease

    def _save(self) -> None:
        self._is_saved = False
        write_leases(self._fs, self._paths, self.all())
        self._is_saved = True


def read_leases(fs: FileSystem, paths: StorePaths) -> tuple[Lease, ...] | None:
    """Return the leases in the file, none without a file, None if it cannot be parsed.

    Raises: StoreFailed.
    """
    data = read_file(fs, paths.leases, FILE_BYTES_MAX)
    if data is None:
        return ()
    try:
        found = decode_json(data, _LeaseFile)
    except (ValueError, RecursionError):
        return None
    return found.leases if found.version == VERSION else None


def write_leases(fs: FileSystem, paths: StorePaths, leases: Sequence[Lease]) -> None:
    """Replace the file durably; without leases remove it. Raises: StoreFull, StoreFailed."""
    if leases:
        text = msgspec.json.encode(_LeaseFile(VERSION, tuple(leases))) + b"\n"
        temporary_path = paths.new_file(paths.leases, _OWNER)
        replace_file(fs, paths.leases, text, temporary_path=temporary_path)
        return
    with store_errors(paths.leases, "write"):
        if fs.exists(paths.leases):
            fs.unlink(paths.leases)
        fs.sync_directory(dirname(paths.leases))
