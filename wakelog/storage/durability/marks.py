"""Two empty files in the store's root: `abort` and `wakelog.failed-sync`.

`abort` exists while a broker runs, so its presence at a start means a crash. It is durable before
the first append, else a power loss would look like a clean stop. It goes when all else is durable.

`wakelog.failed-sync` says that a sync of queues or index failed. After that the page cache shows
data that the disk never got, as clean pages, so the next process must not trust derived files. The
mark has to outlive the process, not the machine: after a crash of the machine everything is checked
anyway. 4.9.3 ignores the file.

Source: org.apache.rocketmq.store.DefaultMessageStore.createTempFile, shutdown (4.9.3), which syncs
neither the file nor the directory, and takes a failed force() for a done one.
"""

from contextlib import suppress
from posixpath import dirname
from typing import Final

from wakelog.storage.errors import store_errors, store_failure
from wakelog.storage.file_system import FileSystem, opened
from wakelog.storage.paths import StorePaths

FAILED_SYNC_NAME: Final = "wakelog.failed-sync"


class AbortFile:
    """The mark of a running broker."""

    __slots__ = ("_fs", "_path")

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._fs = fs
        self._path = path

    def exists(self) -> bool:
        """Tell whether the last broker did not stop cleanly."""
        return self._fs.exists(self._path)

    def create(self) -> None:
        """Make the mark durable. Raises: StoreFailed, StoreFull."""
        with store_errors(self._path, "create"):
            self._fs.make_directories(dirname(self._path))
            with opened(self._fs, self._path, create=True) as fd:
                self._fs.sync(fd)
            self._fs.sync_directory(dirname(self._path))

    def remove(self) -> None:
        """Remove the mark durably after a clean stop. Raises: StoreFailed."""
        with store_errors(self._path, "remove"):
            try:
                self._fs.unlink(self._path)
            except FileNotFoundError:
                return
            self._fs.sync_directory(dirname(self._path))


class FailedSyncMark:
    """The mark of a failed sync of queues or index."""

    __slots__ = ("_fs", "_path", "_spare")

    def __init__(self, fs: FileSystem, paths: StorePaths) -> None:
        self._fs = fs
        self._path = f"{paths.root}/{FAILED_SYNC_NAME}"
        self._spare = paths.dispatched

    def is_set(self) -> bool:
        """Tell whether derived files must be reread from the disk and checked."""
        return self._fs.exists(self._path)

    def set(self) -> None:
        """Make the mark. Raises: StoreFailed, StoreFull.

        Where it cannot be made, as on a full disk, `wakelog.dispatched` gets its name. A rename
        needs neither space nor a descriptor, and that file is no longer true.
        """
        try:
            self._fs.close(self._fs.open(self._path, create=True))
        except OSError as error:
            try:
                self._fs.rename(self._spare, self._path)
            except OSError:
                raise store_failure(self._path, "create", error) from error

    def clear(self) -> None:
        """Remove the mark: derived files were checked. Raises: StoreFailed."""
        with store_errors(self._path, "remove"), suppress(FileNotFoundError):
            self._fs.unlink(self._path)
