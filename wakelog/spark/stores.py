"""Which stores a path names, and which segments each of them has.

    storePath                             what it names
    /data/store                           a store directory: commitlog/, consumequeue/, config/ ...
    /data/copied                          a folder of commit-log files alone
    broker-a=/data/a,broker-b=/data/b     several, with the names their rows get
    /data/*/store                         every path that the pattern fits
    file:///data/store                    a path as Spark writes it

A name has no slash, so that what follows one is part of a path: `/data/day=1/store` has no name. A
store whose name is not given is called what its `wakelog.store` file says, or as its folder is.

A directory is listed once, at planning. Segments that come later belong to a later query or
micro-batch; one that goes is met when a task opens it.

Invariants: nothing is written, locked or mapped; a file whose name is no offset is passed over.

Source: org.apache.rocketmq.store.MappedFileQueue#load (4.9.3).
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from glob import glob, has_magic
from os.path import abspath, basename, isdir, join
from typing import Final, NamedTuple
from urllib.parse import unquote

from wakelog.spark.errors import OptionError, StoreUnreadable
from wakelog.storage.durability.store_identity import read_identity
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import FileSystem
from wakelog.storage.paths import StorePaths, parse_offset_name

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")


class Segment(NamedTuple):
    """One file of the log: where it lies, and the physical offsets that it covers."""

    path: str
    begin: int
    end: int


class StoreLog(NamedTuple):
    """One store. `root` is empty for commit-log files alone."""

    broker: str
    root: str
    segments: tuple[Segment, ...]

    @property
    def begin(self) -> int:
        """The first physical offset that there is, 0 without a log."""
        return self.segments[0].begin if self.segments else 0

    @property
    def files_end(self) -> int:
        """The physical offset behind the last file, 0 without a log."""
        return self.segments[-1].end if self.segments else 0

    @property
    def paths(self) -> StorePaths | None:
        """The names of everything beside the log, None where there is nothing."""
        return StorePaths(self.root) if self.root else None


def find_stores(fs: FileSystem, store_path: str) -> list[StoreLog]:
    """Return the stores that an option's text names, in its order.

    Raises: StoreUnreadable, OptionError.
    """
    found: dict[str, StoreLog] = {}
    for name, path in named_paths(store_path):
        paths = sorted(glob(path)) if has_magic(path) else [path]
        if not paths:
            raise StoreUnreadable(f"no path fits {path!r}")
        if name and len(paths) > 1:
            raise OptionError(f"{name!r} is one name, and {path!r} fits {len(paths)} paths")
        for each in paths:
            store = open_store(fs, each, name)
            if store.broker in found:
                raise OptionError(
                    f"two stores are called {store.broker!r}: name them in storePath, as in "
                    "broker-a=/data/a,broker-b=/data/b"
                )
            found[store.broker] = store
    return list(found.values())


def named_paths(store_path: str) -> Iterator[tuple[str, str]]:
    """Yield the names, empty where none is given, and the absolute paths of an option's text.

    Raises: OptionError.
    """
    for word in filter(None, (part.strip() for part in store_path.split(","))):
        name, _, path = word.partition("=")
        if not path or "/" in name:
            name, path = "", word
        scheme = _SCHEME.match(path)
        if scheme is not None and scheme[1].lower() != "file":
            raise OptionError(
                f"{path} is on no file system of this machine: a log is read from files, so mount "
                "it, or copy the commit log"
            )
        if scheme is not None:
            path = "/" + unquote(path[scheme.end() :]).lstrip("/")
        # A task may run in another folder than the driver.
        yield name.strip(), abspath(path.strip())


def open_store(fs: FileSystem, path: str, name: str = "") -> StoreLog:
    """Look at one directory. Raises: StoreUnreadable."""
    if not isdir(path):
        raise StoreUnreadable(f"{path} is no directory that can be seen from here")
    log = join(path, "commitlog")
    if isdir(log):
        return StoreLog(name or own_name(fs, path), path, _segments(fs, log))
    segments = _segments(fs, path)
    if not segments:
        raise StoreUnreadable(
            f"{path} holds neither a commitlog folder nor files of a commit log, whose names are "
            "20 digits"
        )
    return StoreLog(name or basename(path), "", segments)


def own_name(fs: FileSystem, path: str) -> str:
    """Return what a store says its broker is called, else its folder. Raises: StoreUnreadable."""
    try:
        identity = read_identity(fs, StorePaths(path).store_identity)
    except StoreError as error:
        raise StoreUnreadable(str(error)) from error
    return basename(path) if identity is None else identity.broker_name


def _segments(fs: FileSystem, directory: str) -> tuple[Segment, ...]:
    found = []
    try:
        for file_name in fs.list_directory(directory):
            begin = parse_offset_name(file_name)
            path = join(directory, file_name)
            if begin is not None and (size := _size(fs, path)):
                found.append(Segment(path, begin, begin + size))
    except OSError as error:
        raise StoreUnreadable(f"{directory} cannot be listed: {error.strerror}") from error
    for before, behind in itertools.pairwise(found):
        if behind.begin < before.end:
            raise StoreUnreadable(f"{before.path} reaches into {behind.path}: not one log")
    return tuple(found)


def _size(fs: FileSystem, path: str) -> int:
    """Return a file's length, 0 for one that is gone or is no file."""
    try:
        if not fs.is_file(path):
            return 0
        fd = fs.open(path, read_only=True)
    except FileNotFoundError:
        return 0
    try:
        return fs.size(fd)
    finally:
        fs.close(fd)


def is_being_written(store: StoreLog) -> bool:
    """Tell whether a broker on this machine holds the store's lock; False where nobody knows.

    The system's list is read: to open the lock file, in the broker's own process, would free it.
    """
    if store.paths is None:
        return False
    try:
        lock = os.stat(store.paths.lock)
        with open("/proc/locks", encoding="ascii") as file:
            held = [line.split() for line in file]
    except OSError:
        return False
    device = f"{os.major(lock.st_dev):02x}:{os.minor(lock.st_dev):02x}:{lock.st_ino}"
    return any("WRITE" in words and device in words for words in held)


class OpenSegment:
    """A segment's file, open for reading; closed by `close`."""

    def __init__(self, fs: FileSystem, segment: Segment) -> None:
        """Open it. Raises: OSError."""
        self._fs = fs
        self._begin = segment.begin
        self.end = segment.end
        self._fd = fs.open(segment.path, read_only=True)

    def read_into(self, buffer: memoryview, physical_offset: int) -> int:
        """Fill `buffer`; return the count, short at the file's end. Raises: OSError."""
        return self._fs.pread_into(self._fd, buffer, physical_offset - self._begin)

    def read(self, physical_offset: int, length_max: int) -> bytes:
        """Return up to `length_max` bytes, fewer at the file's end. Raises: OSError."""
        length = min(length_max, self.end - physical_offset)
        return self._fs.pread(self._fd, length, physical_offset - self._begin)

    def next_data(self, physical_offset: int) -> int:
        """Return where bytes that may not be zero go on, the segment's end if nowhere."""
        found = self._fs.next_data(self._fd, physical_offset - self._begin)
        return self.end if found is None else min(self._begin + found, self.end)

    def close(self) -> None:
        """Close the descriptor."""
        self._fs.close(self._fd)
