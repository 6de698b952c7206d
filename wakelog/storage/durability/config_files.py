"""The JSON texts under `config/`: topics, groups, offsets, delay offsets, filters.

A text is replaced in one step: written to `.tmp` and synced, the old text kept as `.bak`, renamed,
the directory synced. A reader uses the file, or `.bak` where the file is missing, empty or broken.
Here the texts are strings; the broker parses them.

Invariants:
- After `save` returned the new text is durable; a crash leaves the old or the new one, whole.
- None means that neither file exists. A text that exists but cannot be read is an error: taking
  it for "no offsets yet" would let every consumer start over.

Source: org.apache.rocketmq.common.ConfigManager, MixAll.string2File, file2String (4.9.3), which
deletes the file before it renames the new one, and syncs nothing.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from posixpath import dirname
from typing import NamedTuple, TypeVar

from wakelog.storage.errors import DamagedStore, StoreError, store_errors
from wakelog.storage.file_system import FileSystem, opened, write_synced

# A text of a store with a million queues has about 40 MB; a file above this is not one of ours.
TEXT_BYTES_MAX = 1 << 30

T = TypeVar("T")


class Backup(NamedTuple):
    """Why a `.bak` was loaded instead of its text, and when it was written."""

    reason: str
    saved_ms: int


_NO_NUMBER = re.compile(r"invalid literal for int\(\) with base 10: (.*)", re.DOTALL)


def damage_words(error: Exception) -> str:
    """Return in words why a text cannot be decoded; Python's say nothing to who has to mend it."""
    if isinstance(error, DamagedStore):
        return error.reason
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8 from byte {error.start} on"
    if isinstance(error, UnicodeError):
        return "it has half a character"
    if isinstance(error, AttributeError | TypeError):
        return "a single value or a list stands where a table has to be"
    no_number = _NO_NUMBER.fullmatch(str(error))
    return f"{no_number[1]} is no whole number" if no_number else str(error)


class ConfigFiles:
    """Loads and saves texts by file name, such as `topics.json`."""

    __slots__ = ("_broken", "_fs", "_path_of", "backups")

    def __init__(self, fs: FileSystem, path_of: Callable[[str], str]) -> None:
        """Keep `path_of`, such as `StorePaths.config`: it returns a text's path by its name.

        backups: why a backup was loaded, by the text's name.
        """
        self.backups: dict[str, Backup] = {}
        self._fs = fs
        self._path_of = path_of
        self._broken: set[str] = set()

    def load(self, name: str, decode: Callable[[str], T]) -> T | None:
        """Return the decoded text, else the decoded backup, None where neither exists.

        decode: raises ValueError or DamagedStore for a text that it cannot read.
        Raises: DamagedStore when texts exist and none can be decoded; StoreFailed.
        """
        path = self._path_of(name)
        reason = None
        for candidate in (path, backup := path + ".bak"):
            try:
                data = self._read(candidate)
                if data is None:
                    continue
                if not data.strip():
                    reason = reason or "it is empty"
                    continue
                decoded = decode(data.decode())
                if reason is not None:
                    self._broken.add(name)
                if candidate == backup:
                    with store_errors(backup, "read"):
                        saved_ms = self._fs.modified_ms(backup)
                    self.backups[name] = Backup(f"{path}: {reason or 'it is missing'}", saved_ms)
                return decoded
            except (ValueError, DamagedStore) as error:
                reason = reason or f"it cannot be read: {damage_words(error)}"
        if reason is None:
            return None
        raise DamagedStore(path, reason, "restore it, or remove it and its .bak to start without")

    def save(self, name: str, text: str) -> None:
        """Replace the text durably.

        Raises: StoreFull, StoreFailed; then the old text stays, and nothing beside it.
        """
        path = self._path_of(name)
        try:
            self._replace(name, path, text)
        except StoreError:
            for unfinished in (path + ".tmp", path + ".bak.tmp"):
                with suppress(OSError):
                    self._fs.unlink(unfinished)
            raise
        self._broken.discard(name)

    def _replace(self, name: str, path: str, text: str) -> None:
        with store_errors(path, "save"):
            self._fs.make_directories(dirname(path))
            write_synced(self._fs, path + ".tmp", text.encode())
            # A broken text as its own backup leaves nothing to load if the next rename is lost.
            old = None if name in self._broken else self._read(path)
            if old:
                # Not in place: a torn .bak beside a lost file would leave nothing to load.
                write_synced(self._fs, path + ".bak.tmp", old)
                self._fs.rename(path + ".bak.tmp", path + ".bak")
            self._fs.rename(path + ".tmp", path)
            self._fs.sync_directory(dirname(path))

    def _read(self, path: str) -> bytes | None:
        with store_errors(path, "read"):
            try:
                with opened(self._fs, path, read_only=True) as fd:
                    size = self._fs.size(fd)
                    if size > TEXT_BYTES_MAX:
                        raise ValueError(f"{size} bytes are no configuration")
                    return self._fs.pread(fd, size, 0)
            except FileNotFoundError:
                return None
