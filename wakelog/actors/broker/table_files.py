"""TableFiles: the broker's tables on disk; loaded at the start, saved in a thread while it runs.

At most one save of a table is under way. Saves requested meanwhile are one more, of the table as it
is then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from wakelog.broker.broker import Broker
from wakelog.storage.durability.config_files import ConfigFiles
from wakelog.storage.file_system import FileSystem
from wakelog.storage.paths import StorePaths
from wakelog.telemetry.logs import Log, logger


class TableFiles:
    """The config files of one broker."""

    def __init__(self, fs: FileSystem, paths: StorePaths) -> None:
        """Touch nothing yet."""
        self._files = ConfigFiles(fs, paths)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="broker-save")
        self._saving: dict[str, bool] = {}
        self._kept: Mapping[str, str] = {}
        self._closed = False
        self._log = logger(Log.BROKER)
        self.saved_count = 0
        self.failed_count = 0

    def load_all(self, broker: Broker, kept: Mapping[str, str]) -> None:
        """Load every table there is a file of.

        kept: files that have another name while the store is open.

        Raises: DamagedStore, StoreFailed.
        """
        self._kept = kept
        for name in broker.file_names():
            self._files.load(self._file_name(name), partial(broker.load, name))

    def save_soon(self, broker: Broker, name: str) -> None:
        """Save a table later; the caller does not wait."""
        if name in self._saving:
            self._saving[name] = True
            return
        self._saving[name] = False
        save = partial(self._save, name, broker.snapshot(name))
        future = asyncio.get_running_loop().run_in_executor(self._thread, save)
        future.add_done_callback(partial(self._saved, broker, name))

    def save_all(self, broker: Broker) -> None:
        """Save every table and return when all are durable; failures are logged."""
        self.close()
        for persist in broker.files_to_write():
            try:
                self._save(persist.name, broker.snapshot(persist.name))
            except Exception as error:
                self._failed(persist.name, error)

    def close(self) -> None:
        """End the thread after its saves."""
        self._closed = True
        self._thread.shutdown()

    def _save(self, name: str, encode: Callable[[], str]) -> None:
        self._files.save(self._file_name(name), encode())

    def _file_name(self, name: str) -> str:
        return self._kept.get(f"{name}.json", f"{name}.json")

    def _saved(self, broker: Broker, name: str, done: asyncio.Future[None]) -> None:
        again = self._saving.pop(name)
        error = done.exception()
        if error is None:
            self.saved_count += 1
        else:
            self._failed(name, error)
        if again and not self._closed:
            self.save_soon(broker, name)

    def _failed(self, name: str, error: BaseException) -> None:
        self.failed_count += 1
        self._log.error("table not saved", table=name, error=str(error))
