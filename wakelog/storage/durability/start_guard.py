"""StartGuard: keep a 4.9.3 broker that starts on our running store from changing it.

4.9.3 takes the store's lock at the end of its start, after its recovery (docs/adr/0007). But first
it loads its configuration files, and refuses to start if neither a file nor its backup can be
parsed. So while our broker runs

    config/consumerFilter.json       leads to /proc/<our process>/fd/<lock>, whose text is no JSON
    config/consumerFilter.json.bak   leads to config/consumerFilter.json

and a 4.9.3 broker ends with "load config/consumerFilter.json Failed" before it opens the log. When
our process is gone the first link leads nowhere. 4.9.3 takes both files for absent, which it
accepts, and replaces the links when it first writes.

A refused broker writes consumerFilter.json again on its way out, so the links are renewed. The file
and its backup have other names meanwhile, which our broker writes (`kept`). A clean stop gives them
their own names back. Systems without /proc have only the lock, as between two 4.9.3 brokers.

Source: org.apache.rocketmq.broker.BrokerController.initialize, org.apache.rocketmq.common
.{ConfigManager, MixAll} (4.9.3).
"""

from contextlib import suppress
from typing import Final

from wakelog.storage.durability.store_lock import StoreLock
from wakelog.storage.errors import store_errors
from wakelog.storage.file_system import FileSystem
from wakelog.storage.paths import StorePaths

GUARDED: Final = "consumerFilter.json"
KEPT: Final = "consumerFilterKept.json"


class StartGuard:
    """The two links; only the holder of the store's lock makes and removes them."""

    __slots__ = ("_directory", "_fs", "_links")

    def __init__(self, fs: FileSystem, paths: StorePaths, lock: StoreLock) -> None:
        """Rename the files that a real broker left, and make the links. Raises: StoreFailed."""
        self._fs = fs
        self._directory = paths.config_directory
        path = paths.config(GUARDED)
        target = fs.path_while_open(lock.fd)
        self._links = {} if target is None else {path: target, f"{path}.bak": path}
        if self._links:
            with store_errors(self._directory, "guard"):
                fs.make_directories(self._directory)
                for path in self._links:
                    # A link is from a broker of ours that died: it has renamed the file already.
                    if fs.read_link(path) is None and fs.exists(path):
                        fs.rename(path, _kept(path))
        self.renew()

    @property
    def kept(self) -> dict[str, str]:
        """The renamed file: its own name to its present one; its backup is `.bak` beside it."""
        return {GUARDED: KEPT} if self._links else {}

    def renew(self) -> None:
        """Make the links again where something replaced them. Raises: StoreFailed."""
        with store_errors(self._directory, "guard"):
            for path, target in self._links.items():
                if self._fs.read_link(path) != target:
                    self._fs.symlink(target, path)

    def remove(self) -> None:
        """Remove the links and give the files their own names back. Raises: StoreFailed."""
        with store_errors(self._directory, "guard"):
            for path in self._links:
                with suppress(FileNotFoundError):
                    self._fs.unlink(path)
                if self._fs.exists(_kept(path)):
                    self._fs.rename(_kept(path), path)


def _kept(path: str) -> str:
    directory, _, name = path.rpartition(GUARDED)
    return directory + KEPT + name
