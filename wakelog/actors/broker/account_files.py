"""AccountFiles: the files of access control, read at the start and again when one has changed.

    $ROCKETMQ_HOME/conf/acl/**/*.yml, *.yaml     in the order of their paths
    $ROCKETMQ_HOME/conf/plain_acl.yml            after them

Each second the pool looks at the files: their names, times and lengths. It reads for a tenth of the
time at most: 10,000 accounts take it a second of Python. conf/tools.yml, which has the keys of
mqadmin, is in neither place.

A file that is broken at the start refuses the start. One that breaks later changes nothing: the
accounts of before stay, and an error is logged.

Source: org.apache.rocketmq.srvutil.AclFileWatchService,
acl.plain.PlainPermissionManager.getAllAclFiles (4.9.3).
"""

import asyncio
import os
import stat
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypeAlias

from wakelog.actors.errors import DeploymentFailed
from wakelog.broker.access.accounts import AccessFileRefused, AccessTable
from wakelog.broker.access.control import AccessControl, Edit
from wakelog.telemetry.logs import Log, logger

FILES_MAX = 1_000
FILE_BYTES_MAX = 16 << 20  # ten thousand accounts with long lists
WATCH_SECONDS = 1.0
PAUSE_FACTOR = 9
"""How many times as long as a look at the files has taken no other one follows."""

_SUFFIXES = (".yml", ".yaml")

Seen: TypeAlias = tuple[tuple[str, int, int, int, int], ...]
"""Path, mode, time of change (ns), length (bytes) and inode of each file."""


RunInThread: TypeAlias = Callable[[Callable[[], AccessTable | None]], Awaitable[AccessTable | None]]


class FoundAccounts(NamedTuple):
    """What the files were at the last check."""

    seen: Seen
    table: AccessTable


class AccountFiles:
    """The files in the `conf` of a home. Every method but `watch` may wait for the disk."""

    def __init__(self, home_path: str) -> None:
        home = Path(os.path.abspath(home_path))
        self.main = str(home / "conf" / "plain_acl.yml")
        self._folder = home / "conf" / "acl"
        self._last: Seen = ()
        self._failure = ""
        self._changing = Lock()
        self._log = logger(Log.BROKER)

    async def watch(self, access: AccessControl, run: RunInThread) -> None:
        """Give `access` the accounts whenever they have changed, until cancelled."""
        pause_seconds = WATCH_SECONDS
        while True:
            await asyncio.sleep(pause_seconds)
            began_seconds = time.monotonic()
            table = await run(self.read_changed)
            pause_seconds = next_pause_seconds(time.monotonic() - began_seconds)
            if table is not None:
                access.replace(table)

    def open(self) -> AccessTable:
        """Read all files. Raises: DeploymentFailed for one that cannot be used."""
        try:
            found = self._read(self._check())
        except (AccessFileRefused, OSError) as error:
            raise DeploymentFailed(
                f"the accounts cannot be read: {error}",
                "Correct that file, or start with aclEnable=false.",
            ) from None
        self._note(found)
        if not found.seen:
            self._log.warning("no file of accounts: every request is refused", path=self.main)
        return found.table

    def read_changed(self) -> AccessTable | None:
        """Return the accounts if a file has changed and all can be used; log it if one cannot."""
        try:
            seen = self._check()
            if seen == self._last:
                return None
            found = self._read(seen)
        except (AccessFileRefused, OSError) as error:
            if str(error) != self._failure:
                self._failure = str(error)
                self._log.error("accounts not read again: the old ones stay", cause=str(error))
            return None
        self._note(found)
        self._log.info("accounts read again", accounts=len(found.table))
        return found.table

    def change(self, path: str | None, edit: Edit) -> AccessTable | None:
        """Change one file and return all accounts; `ChangeFile` of the core. One at a time.

        The new file is durable on return, and has the mode of the old one, or 0600.
        """
        path = path or self.main
        with self._changing:
            texts = dict(self._read(self._check()).table.texts)
            new = edit(texts.get(path))
            if new is None:
                return None
            table = AccessTable({**texts, path: new})
            _replace(path, new)
            return table

    def _note(self, found: FoundAccounts) -> None:
        self._last = found.seen
        self._failure = ""
        for warning in found.table.warnings:
            self._log.warning("account left out", cause=warning)
        for path, mode, *_ in found.seen:
            if mode & (stat.S_IRGRP | stat.S_IROTH):
                self._log.warning("others can read the secret keys; chmod 600", path=path)

    def _check(self) -> Seen:
        found = []
        for path in self._paths():
            try:
                now = os.stat(path)
            except FileNotFoundError:
                continue
            found.append((path, now.st_mode, now.st_mtime_ns, now.st_size, now.st_ino))
            if len(found) > FILES_MAX:
                raise AccessFileRefused(str(self._folder), f"it has more than {FILES_MAX} files")
        return tuple(found)

    def _paths(self) -> Iterator[str]:
        for folder, folders, names in os.walk(self._folder, onerror=_raise_unless_missing):
            folders.sort()
            for name in sorted(names):
                path = os.path.join(folder, name)
                if name.endswith(_SUFFIXES):
                    yield path
        yield self.main

    def _read(self, seen: Seen) -> FoundAccounts:
        return FoundAccounts(seen, AccessTable({path: read_text(path) for path, *_ in seen}))


def next_pause_seconds(took_seconds: float) -> float:
    """Return how long to wait after a look at the files that took so long."""
    return max(WATCH_SECONDS, PAUSE_FACTOR * took_seconds)


def _raise_unless_missing(error: OSError) -> None:
    """Let a folder that cannot be read be no empty one: its accounts would be forgotten."""
    if not isinstance(error, FileNotFoundError):
        raise error


def _replace(path: str, text: str) -> None:
    """Write a file beside the old one, sync it and rename it."""
    new_path = f"{path}.new"
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        mode = 0o600
        os.makedirs(os.path.dirname(path), exist_ok=True)
    with suppress(FileNotFoundError):
        os.unlink(new_path)
    # O_EXCL follows no link that someone put there.
    fd = os.open(new_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(fd, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fchmod(fd, mode)
            os.fsync(fd)
        os.rename(new_path, path)
    except OSError:
        with suppress(OSError):
            os.unlink(new_path)  # it has secret keys, and takes room of a full disk
        raise
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_text(path: str) -> str:
    """Return the text of one file. Raises: OSError, AccessFileRefused."""
    with open(path, "rb") as file:
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise AccessFileRefused(path, f"it has more than {FILE_BYTES_MAX} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise AccessFileRefused(path, "it is not UTF-8") from None
