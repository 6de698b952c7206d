"""The leases of a store in its root: the file `wakelog.leases`, one JSON text.

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

from collections.abc import Sequence
from posixpath import dirname
from typing import Final

import msgspec

from wakelog.storage.errors import StoreError, store_failure
from wakelog.storage.file_system import FileSystem, write_synced
from wakelog.storage.paths import StorePaths
from wakelog.storage.retention.leases import LEASES_MAX, Lease, Leases, LeaseStatistics

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
