"""The abort file: empty, there while a broker runs, so its presence at a start means a crash.

Invariant: it is durable before the first append, and removed only when everything else is durable.
A file that appeared only in the page cache would make a power loss look like a clean stop.

Source: org.apache.rocketmq.store.DefaultMessageStore.createTempFile, shutdown (4.9.3), which syncs
neither the file nor the directory.
"""

from __future__ import annotations

from posixpath import dirname

from wakelog.storage.errors import store_failure
from wakelog.storage.file_system import FileSystem


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
