"""StartGuard: keeps a 4.9.3 broker that is started on a store of ours from cutting into it.

4.9.3 takes the store's lock at the end of its start. By then it has recovered: it has removed
segments and index files that our broker has open, and what our broker writes to them is lost. The
lock refuses it too late. But before it looks at the log it loads its configuration files, and
refuses to start if neither a file nor its backup can be read. One of them, consumerFilter.json,
holds only what clients say again with their next heartbeats. So while we run

    config/consumerFilter.json       leads to /proc/<our process>/fd/<lock>, whose text is no JSON
    config/consumerFilter.json.bak   leads to config/consumerFilter.json

and a 4.9.3 broker ends with "load config/consumerFilter.json Failed" before it opens the log. When
our process is gone, however that came about, the first link leads nowhere. To 4.9.3 both files are
then absent, which it accepts, and it replaces the links when it first writes.

A broker that was refused writes consumerFilter.json anew on its way out, so the links are renewed.
Meanwhile the file and its backup have other names, to which our broker writes too: `kept`. An
ordered stop gives them their own names back.

Systems without /proc do without; there the lock is all there is, as between two 4.9.3 brokers.

Source: org.apache.rocketmq.broker.BrokerController.initialize, org.apache.rocketmq.common
.{ConfigManager, MixAll} (4.9.3).
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from wakelog.storage.durability.store_lock import StoreLock
from wakelog.storage.errors import store_failure
from wakelog.storage.file_system import FileSystem
from wakelog.storage.paths import StorePaths

GUARDED: Final = "consumerFilter.json"
KEPT: Final = "consumerFilterKept.json"


class StartGuard:
    """The two links; made and taken away by whoever holds the store's lock."""

    __slots__ = ("_directory", "_fs", "_links")

    def __init__(self, fs: FileSystem, paths: StorePaths, lock: StoreLock) -> None:
        """Put away what a real broker left, and make the links.

        Raises: StoreFailed.
        """
        self._fs = fs
        self._directory = paths.config_directory
        path = paths.config(GUARDED)
        target = fs.path_while_open(lock.fd)
        self._links = {} if target is None else {path: target, f"{path}.bak": path}
        try:
            if self._links:
                fs.make_directories(self._directory)
                self._put_away()
        except OSError as error:
            raise store_failure(self._directory, "guard", error) from error
        self.renew()

    @property
    def kept(self) -> dict[str, str]:
        """The file that has another name meanwhile, by its own; its backup is `.bak` beside it."""
        return {GUARDED: KEPT} if self._links else {}

    def renew(self) -> None:
        """Make the links again where something replaced them; cheap where nothing did.

        Raises: StoreFailed.
        """
        try:
            for path, target in self._links.items():
                if self._fs.read_link(path) != target:
                    self._fs.symlink(target, path)
        except OSError as error:
            raise store_failure(self._directory, "guard", error) from error

    def remove(self) -> None:
        """Take the links away and put back what was there.

        Raises: StoreFailed.
        """
        try:
            for path in self._links:
                with suppress(FileNotFoundError):
                    self._fs.unlink(path)
                if self._fs.exists(_kept(path)):
                    self._fs.rename(_kept(path), path)
        except OSError as error:
            raise store_failure(self._directory, "guard", error) from error

    def _put_away(self) -> None:
        for path in self._links:
            # Links are those of a broker of ours that died, which has put the file away before.
            if self._fs.read_link(path) is None and self._fs.exists(path):
                self._fs.rename(path, _kept(path))


def _kept(path: str) -> str:
    directory, _, name = path.rpartition(GUARDED)
    return directory + KEPT + name
