"""The stores that a path names, and the segments of each.

    storePath                             what it names
    /data/store                           a store directory: commitlog/, consumequeue/, config/ ...
    /data/copied                          a folder of commit-log files alone
    broker-a=/data/a,broker-b=/data/b     several, with the names their rows get
    /data/*/store                         every path that matches
    file:///data/store                    a path as Spark writes it

A name has no slash: `/data/day=1/store` is a path without a name. A store without a given name has
the name in its `wakelog.store` file, or else the name of its folder.

A directory is listed once, at planning. A later segment belongs to a later query or micro-batch. A
task that opens a removed segment reports it.

Invariants: nothing is written, locked or mapped; files whose names are no offsets are ignored.

Source: org.apache.rocketmq.store.MappedFileQueue#load (4.9.3).
"""

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
from wakelog.storage.file_system import FileSystem, size_of
from wakelog.storage.paths import StorePaths, parse_offset_name

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")


class Segment(NamedTuple):
    """One file of the log, with the physical offsets that it covers."""

    path: str
    begin: int
    end: int


class StoreLog(NamedTuple):
    """One store. root: "" for commit-log files alone."""

    broker: str
    root: str
    segments: tuple[Segment, ...]

    @property
    def begin(self) -> int:
        """The first physical offset of the log, 0 without a log."""
        return self.segments[0].begin if self.segments else 0

    @property
    def files_end(self) -> int:
        """The physical offset after the last file, 0 without a log."""
        return self.segments[-1].end if self.segments else 0

    @property
    def paths(self) -> StorePaths | None:
        """The paths of the files beside the log, None if there are none."""
        return StorePaths(self.root) if self.root else None

    def parts(self, begin: int, end: int) -> Iterator[tuple[Segment, int, int]]:
        """Yield each segment that has bytes of [begin, end), and the range that it has."""
        for segment in self.segments:
            low, high = max(begin, segment.begin), min(end, segment.end)
            if low < high:
                yield segment, low, high


def find_stores(fs: FileSystem, store_path: str) -> list[StoreLog]:
    """Return the stores that an option's text names, in its order.

    Raises: StoreUnreadable, OptionError.
    """
    found: dict[str, StoreLog] = {}
    for name, path in named_paths(store_path):
        paths = sorted(glob(path)) if has_magic(path) else [path]
        if not paths:
            raise StoreUnreadable(f"no path matches {path!r}")
        if name and len(paths) > 1:
            raise OptionError(f"{name!r} is one name, and {path!r} matches {len(paths)} paths")
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
    """Yield the names ("" for none) and the absolute paths in an option's text.

    Raises: OptionError.
    """
    for word in filter(None, (part.strip() for part in store_path.split(","))):
        name, _, path = word.partition("=")
        if not path or "/" in name:
            name, path = "", word
        scheme = _SCHEME.match(path)
        if scheme is not None and scheme[1].lower() != "file":
            raise OptionError(
                f"{path} is on no file system of this machine: mount it, or copy the commit log"
            )
        if scheme is not None:
            path = "/" + unquote(path[scheme.end() :]).lstrip("/")
        # A task may run in another working directory than the driver.
        yield name.strip(), abspath(path.strip())


def open_store(fs: FileSystem, path: str, name: str = "") -> StoreLog:
    """List one store. Raises: StoreUnreadable."""
    if not isdir(path):
        raise StoreUnreadable(f"{path} is no directory on this machine")
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
    """Return the broker name in a store, else its folder's name. Raises: StoreUnreadable."""
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
    for before, after in itertools.pairwise(found):
        if after.begin < before.end:
            raise StoreUnreadable(f"{before.path} overlaps {after.path}: they are not one log")
    return tuple(found)


def _size(fs: FileSystem, path: str) -> int:
    """Return the length of a file, 0 for a path that is gone or is no file."""
    try:
        return size_of(fs, path) if fs.is_file(path) else 0
    except FileNotFoundError:
        return 0


def is_being_written(store: StoreLog) -> bool:
    """Return whether a broker on this machine holds the store's lock; False if it is unknown.

    This reads the kernel's list of locks. To open and close the lock file would free the lock if
    this is the broker's own process.
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


def open_segment(fs: FileSystem, segment: Segment) -> "OpenSegment | None":
    """Open a segment; return None if it was removed since the log was listed. Raises: OSError."""
    try:
        return OpenSegment(fs, segment)
    except FileNotFoundError:
        return None


class OpenSegment:
    """The file of a segment, open for reading until `close`."""

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
        """Return the next place that may have bytes other than zero, or the segment's end."""
        found = self._fs.next_data(self._fd, physical_offset - self._begin)
        return self.end if found is None else min(self._begin + found, self.end)

    def close(self) -> None:
        """Close the descriptor."""
        self._fs.close(self._fd)
