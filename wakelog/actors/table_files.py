"""TableFiles: the tables of a broker or a name server on disk, loaded at the start and saved later.

At most one save of a table is under way, in a thread. Saves requested meanwhile are one more, of
the table as it is then. A table of positions in the log waits for the disk first: the file must not
count messages that a power cut takes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol

from wakelog.actors.transport.batching import BatchWorker
from wakelog.storage.durability.config_files import ConfigFiles
from wakelog.telemetry.logs import Log, logger

OnSaved = Callable[[BaseException | None], None]
"""Called on the loop after a save, with the reason if it failed."""


SAVED_AT_ONCE_MAX = 64
"""Some 0.5 ms to answer them. Ten thousand changes of a name server may wait for one save."""

WaitDurable = Callable[[str], Awaitable[None]]
"""Called after a table of this name was copied; returns when the copy may be saved, or raises."""


class Table(Protocol):
    """What is saved as one file."""

    def snapshot(self) -> Callable[[], str]:
        """Return a function that encodes the table as it is now, for any thread."""


class TableOwner(Protocol):
    """A core with tables."""

    @property
    def tables(self) -> Mapping[str, Table]:
        """The tables by name, in the order in which to load them."""

    def load(self, name: str, text: str) -> None:
        """Read the text of a table. Raises: ValueError, DamagedStore."""


class TableFiles:
    """The files of one owner's tables."""

    def __init__(
        self,
        files: ConfigFiles,
        log: Log,
        thread_name: str,
        wait_durable: WaitDurable | None = None,
    ) -> None:
        """Save nothing yet. `wait_durable`: what the save of some tables waits for."""
        self._files = files
        self._wait_durable = wait_durable
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=thread_name)
        self._workers: dict[str, BatchWorker] = {}
        self._waiting: dict[str, list[OnSaved]] = {}
        self._kept: Mapping[str, str] = {}
        self._is_closed = False
        self._log = logger(log)
        self.saved_count = 0
        self.failed_count = 0

    def load_all(self, owner: TableOwner, kept: Mapping[str, str]) -> None:
        """Load every table that has a file.

        kept: files that have another name while the store is open.

        Raises: DamagedStore, StoreFailed.
        """
        self._kept = kept
        for name in owner.tables:
            self._files.load(self._file_name(name), partial(owner.load, name))

    def save_soon(self, owner: TableOwner, name: str, on_saved: OnSaved = lambda _: None) -> None:
        """Save a table as it is now or later, and call `on_saved` then."""
        self._waiting.setdefault(name, []).append(on_saved)
        if name not in self._workers:
            save = partial(self._save_waiting, owner, name)
            self._workers[name] = BatchWorker(f"save {name}", save)
        self._workers[name].request()

    def save_all(self, owner: TableOwner, *, except_for: Collection[str] = ()) -> None:
        """Save every table and return when all are durable; failures are logged."""
        self.close()
        for name in [name for name in owner.tables if name not in except_for]:
            try:
                self._save(name, owner.tables[name].snapshot())
            except Exception as error:
                self._note_failure(name, error)

    async def wait_saved(self) -> None:
        """Return when no save is under way."""
        for worker in list(self._workers.values()):
            await worker.wait_idle()

    def close(self) -> None:
        """End the thread after its saves."""
        self._is_closed = True
        self._thread.shutdown()

    async def _save_waiting(self, owner: TableOwner, name: str) -> bool:
        if self._is_closed:
            return False
        waiting, failure = self._waiting.pop(name), None
        save = partial(self._save, name, owner.tables[name].snapshot())
        try:
            if self._wait_durable is not None:
                await self._wait_durable(name)
            if self._is_closed:
                return False  # `save_all` has saved a later copy
            await asyncio.get_running_loop().run_in_executor(self._thread, save)
            self.saved_count += 1
        except Exception as error:
            failure = error
            self._note_failure(name, error)
        for number, on_saved in enumerate(waiting, 1):
            on_saved(failure)
            if not number % SAVED_AT_ONCE_MAX:
                await asyncio.sleep(0)
        return False

    def _save(self, name: str, encode: Callable[[], str]) -> None:
        self._files.save(self._file_name(name), encode())

    def _file_name(self, name: str) -> str:
        return self._kept.get(f"{name}.json", f"{name}.json")

    def _note_failure(self, name: str, error: BaseException) -> None:
        self.failed_count += 1
        self._log.error("table not saved", table=name, error=str(error))
