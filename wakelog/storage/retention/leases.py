"""Decide who may keep segments of the log from being removed, and for how long.

A lease is a reader's word that it still needs the log from a place on: a Spark job that was given a
snapshot, for one. `lease_file.py` keeps leases where they survive the broker; Retention asks here.

    granted, renewed   holds for LEASE_MS from then; a reader at work renews it in time
    expired            nobody renewed it: its reader is done, or dead
    ended              its reader gave it back
    lost               Retention had to remove what it held; it is kept until it would have expired,
                       so that its reader is told why

Invariants:
- At most `LEASES_MAX` leases hold at once; one more is refused, and none goes for it.
- No lease holds for more than `LEASE_MS` from now on, whatever the clock did.
- A lease that was lost never holds again.

Source: none upstream: 4.9.3 removes what a consumer reads.

The leases of a store in its root: the file `wakelog.leases`, one JSON text.

    {"version":1,"leases":[{"leaseId":"...","holder":"...","begin":0,"end":4096,
     "expiresMs":1767225600000,"lost":""}]}

Retention alone writes it, whole and in one step. Anybody may read it, as a reader whose segment is
gone does, to learn why. 4.9.3 neither writes nor minds it. A text that cannot be read is as good as
none: what it held may go, and its readers find segments missing.

Invariants:
- What `LeaseBook` answers for a reader is durable: it survives Retention, the Broker and the
  machine.

Source: none upstream.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from posixpath import dirname
from typing import Final

import msgspec

from wakelog.storage.errors import StoreError, store_failure
from wakelog.storage.file_system import FileSystem, write_synced
from wakelog.storage.paths import StorePaths

LEASE_MS: Final = 600_000
"""Long enough for a driver that waits for executors or has paused, and short for a disk: what a
dead driver held goes ten minutes later."""

LEASES_MAX: Final = 64
"""Readers at once. Each run of Retention looks at all of them, and the file is written whole."""

GRACE_MS: Final = 180_000
"""What a lease has left at least when a broker starts: nobody could renew it before, and a reader
at work tries to every two minutes."""

HOLDER_CHARACTERS_MAX: Final = 200


class Lease(msgspec.Struct, frozen=True, rename="camel"):
    """One reader's lease on [begin, end) of the log.

    holder: the reader's own words about itself, for people.
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


class Leases:
    """The leases of one store. No clock, no file."""

    __slots__ = (
        "_by_id",
        "_expired_count",
        "_granted_count",
        "_lost_count",
        "_refused_count",
    )

    def __init__(self, kept: Iterable[Lease] = (), now_ms: int = 0) -> None:
        """Take over what a file has kept, each with `GRACE_MS` to be renewed."""
        self._by_id: dict[str, Lease] = {}
        for lease in kept:
            expires_ms = min(max(lease.expires_ms, now_ms + GRACE_MS), now_ms + LEASE_MS)
            self._keep(msgspec.structs.replace(lease, expires_ms=expires_ms))
        self._granted_count = self._refused_count = self._expired_count = self._lost_count = 0

    def grant(
        self, lease_id: str, holder: str, *, begin: int, end: int, now_ms: int
    ) -> Lease | None:
        """Hold [begin, end) for a new reader; None if too many hold already."""
        assert lease_id not in self._by_id and 0 <= begin <= end
        if self._held_count >= LEASES_MAX:
            self._refused_count += 1
            return None
        self._granted_count += 1
        text = holder[:HOLDER_CHARACTERS_MAX]
        return self._keep(Lease(lease_id, text, begin, end, now_ms + LEASE_MS))

    def renew(self, lease_id: str, now_ms: int) -> Lease | None:
        """Hold on; return the lease, as it was if it is lost, None if there is no such lease."""
        lease = self._by_id.get(lease_id)
        if lease is None or lease.lost:
            return lease
        return self._keep(msgspec.structs.replace(lease, expires_ms=now_ms + LEASE_MS))

    def end(self, lease_id: str) -> bool:
        """Hold no more for a reader that is done; return whether there was such a lease."""
        return self._by_id.pop(lease_id, None) is not None

    def expire(self, now_ms: int) -> bool:
        """Drop what was not renewed in time; return whether anything has changed."""
        latest_ms = now_ms + LEASE_MS
        expired = [lease for lease in self.all() if lease.expires_ms <= now_ms]
        for lease in expired:
            del self._by_id[lease.lease_id]
            self._expired_count += not lease.lost
        too_long = [lease for lease in self.all() if lease.expires_ms > latest_ms]
        for lease in too_long:  # the clock was set back
            self._keep(msgspec.structs.replace(lease, expires_ms=latest_ms))
        return bool(expired or too_long)

    def lose_below(self, physical_offset: int, why: str) -> list[Lease]:
        """Let what lies below an offset go all the same; return the leases that are lost by it."""
        lost = [x for x in self.all() if x.begin < physical_offset and not x.lost]
        for lease in lost:
            self._keep(msgspec.structs.replace(lease, lost=why))
        self._lost_count += len(lost)
        self._forget_lost()
        return lost

    @property
    def held_from(self) -> int | None:
        """The first physical offset that is held, None if nothing is."""
        return min((lease.begin for lease in self.all() if not lease.lost), default=None)

    def all(self) -> list[Lease]:
        """Return every lease, those that are lost included, in the order of their granting."""
        return list(self._by_id.values())

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

    def _forget_lost(self) -> None:
        """Keep no more of the lost than may hold: readers ask for theirs at once."""
        lost = [lease for lease in self.all() if lease.lost]
        for lease in lost[: max(len(lost) - LEASES_MAX, 0)]:
            del self._by_id[lease.lease_id]


VERSION: Final = 1
FILE_BYTES_MAX: Final = 2 * LEASES_MAX * 4096
"""Those that hold and those that are lost, each far below a page."""

_OWNER: Final = "retention"


class _LeaseFile(msgspec.Struct, frozen=True):
    version: int
    leases: tuple[Lease, ...]


class LeaseBook:
    """The leases of one store, with their file."""

    __slots__ = ("_fs", "_is_saved", "_leases", "_paths", "was_unreadable")

    def __init__(self, fs: FileSystem, paths: StorePaths, now_ms: int) -> None:
        """Take over what the file keeps. Raises: StoreFailed."""
        self._fs = fs
        self._paths = paths
        kept = read_leases(fs, paths)
        self.was_unreadable = kept is None
        self._leases = Leases(kept or (), now_ms)
        self._is_saved = True

    @property
    def held_from(self) -> int | None:
        """The first physical offset that is held, None if nothing is."""
        return self._leases.held_from

    def grant(
        self, lease_id: str, holder: str, *, begin: int, end: int, now_ms: int
    ) -> Lease | None:
        """Hold [begin, end) for a new reader; None if too many hold already.

        Raises: StoreFull, StoreFailed; then nothing is held.
        """
        lease = self._leases.grant(lease_id, holder, begin=begin, end=end, now_ms=now_ms)
        if lease is not None:
            try:
                self._save()
            except StoreError:
                self._leases.end(lease_id)
                raise
        return lease

    def renew(self, lease_id: str, now_ms: int) -> Lease | None:
        """Hold on; see `Leases.renew`. Raises: StoreFull, StoreFailed."""
        lease = self._leases.renew(lease_id, now_ms)
        if lease is not None and not lease.lost:
            self._save()
        return lease

    def end(self, lease_id: str) -> bool:
        """Hold no more; return whether there was such a lease. Raises: StoreFull, StoreFailed."""
        was_there = self._leases.end(lease_id)
        if was_there:
            self._save()
        return was_there

    def expire(self, now_ms: int) -> None:
        """Drop what was not renewed in time, to be saved by `save_changes`."""
        self._is_saved = not self._leases.expire(now_ms) and self._is_saved

    def lose_below(self, physical_offset: int, why: str) -> list[Lease]:
        """Let what lies below an offset go, to be saved by `save_changes`; return what is lost."""
        lost = self._leases.lose_below(physical_offset, why)
        self._is_saved = not lost and self._is_saved
        return lost

    def save_changes(self) -> None:
        """Write what has changed and nobody waits for. Raises: StoreFull, StoreFailed."""
        if not self._is_saved:
            self._save()

    def statistics(self) -> LeaseStatistics:
        """Return what there is and what happened."""
        return self._leases.statistics()

    def _save(self) -> None:
        self._is_saved = False
        write_leases(self._fs, self._paths, self._leases.all())
        self._is_saved = True


def read_leases(fs: FileSystem, paths: StorePaths) -> tuple[Lease, ...] | None:
    """Return what the file keeps, nothing without one, None if it cannot be understood.

    Raises: StoreFailed.
    """
    try:
        fd = fs.open(paths.leases, read_only=True)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise store_failure(paths.leases, "read", error) from error
    try:
        data = fs.pread(fd, FILE_BYTES_MAX, 0)
    except OSError as error:
        raise store_failure(paths.leases, "read", error) from error
    finally:
        fs.close(fd)
    try:
        found = msgspec.json.decode(data, type=_LeaseFile)
    except (ValueError, RecursionError):
        return None
    return found.leases if found.version == VERSION else None


def write_leases(fs: FileSystem, paths: StorePaths, leases: Sequence[Lease]) -> None:
    """Replace the file durably; without leases there is none. Raises: StoreFull, StoreFailed."""
    try:
        if leases:
            new_path = paths.new_file(paths.leases, _OWNER)
            text = msgspec.json.encode(_LeaseFile(VERSION, tuple(leases))) + b"\n"
            write_synced(fs, new_path, text)
            fs.rename(new_path, paths.leases)
        elif fs.exists(paths.leases):
            fs.unlink(paths.leases)
        fs.sync_directory(dirname(paths.leases))
    except OSError as error:
        raise store_failure(paths.leases, "write", error) from error
