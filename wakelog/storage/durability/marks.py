"""The abort file: empty, there while a broker runs, so its presence at a start means a crash.

Invariant: it is durable before the first append, and removed only when everything else is durable.
A file that appeared only in the page cache would make a power loss look like a clean stop.

Source: org.apache.rocketmq.store.DefaultMessageStore.createTempFile, shutdown (4.9.3), which syncs
neither the file nor the directory.

The mark of a failed sync of queues or index: an empty file `wakelog.failed-sync` in the root.

After a failed sync the page cache shows what the disk never got, and calls it clean: who comes next
must not take derived files as they look. The mark tells it. It need not be durable: it has to
outlive the process, not the machine, and after a crash of the machine everything is checked anyway.

Where it cannot be made, as on a full disk, the file that says how far queues and index are durable
takes its name: that needs neither space nor a descriptor, and what the file says is not to be
believed any more.

4.9.3 neither writes nor minds the file.

Source: none upstream; 4.9.3 takes a failed force() for a done one.
"""

from __future__ import annotations

from posixpath import dirname
from typing import Final

from wakelog.storage.errors import store_failure
from wakelog.storage.file_system import FileSystem
from wakelog.storage.paths import StorePaths


class AbortFile:
    """The mark of a running broker."""

    __slots__ = ("_fs", "_path")

    def __init__(self, fs: FileSystem, path: str) -> None:
        """Name the file; nothing is touched."""
        self._fs = fs
        self._path = path

    def exists(self) -> bool:
        """Tell whether the last broker did not stop in order."""
        return self._fs.exists(self._path)

    def create(self) -> None:
        """Make the mark durable. Raises: StoreFailed, StoreFull."""
        try:
            self._fs.make_directories(dirname(self._path))
            fd = self._fs.open(self._path, create=True)
            try:
                self._fs.sync(fd)
            finally:
                self._fs.close(fd)
            self._fs.sync_directory(dirname(self._path))
        except OSError as error:
            raise store_failure(self._path, "create", error) from error

    def remove(self) -> None:
        """Remove the mark durably: the stop was in order. Raises: StoreFailed."""
        try:
            self._fs.unlink(self._path)
            self._fs.sync_directory(dirname(self._path))
        except FileNotFoundError:
            return
        except OSError as error:
            raise store_failure(self._path, "remove", error) from error


NAME: Final = "wakelog.failed-sync"


class FailedSyncMark:
    """The mark of one store."""

    __slots__ = ("_fs", "_path", "_spare")

    def __init__(self, fs: FileSystem, paths: StorePaths) -> None:
        """Name the file; nothing is touched."""
        self._fs = fs
        self._path = f"{paths.root}/{NAME}"
        self._spare = paths.dispatched

    def is_set(self) -> bool:
        """Tell whether derived files must be read from the disk and checked."""
        return self._fs.exists(self._path)

    def set(self) -> None:
        """Say that a sync failed. Raises: StoreFailed, StoreFull."""
        try:
            self._fs.close(self._fs.open(self._path, create=True))
        except OSError as error:
            try:
                self._fs.rename(self._spare, self._path)
            except OSError:
                raise store_failure(self._path, "create", error) from error

    def clear(self) -> None:
        """Say that derived files were checked. Raises: StoreFailed."""
        try:
            self._fs.unlink(self._path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise store_failure(self._path, "remove", error) from error
