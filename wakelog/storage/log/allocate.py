"""Make segments ahead of need: decide which ones, and make each appear whole or not at all.

When the log rolls into a segment, the next one should exist and the one after it be under way.
`make_segment` builds a file under a name of its maker's own, outside the data folder. It sets the
full length, syncs, renames the file in one step that refuses a taken name, and syncs the folder. So
a crash leaves no short file, for which 4.9.3 would refuse the store. And a maker that was stopped
and resumes late cannot zero a segment that was written since. The file is sparse: its writer has
blocks reserved ahead of what it writes (`reservation.py`).

Source: org.apache.rocketmq.store.AllocateMappedFileService (4.9.3), which creates the file under
its own name.
"""

import contextlib
import errno
from collections import deque
from collections.abc import Sequence
from itertools import count as numbers
from posixpath import basename, dirname, join

from wakelog.storage.errors import DamagedStore, StoreError, store_errors
from wakelog.storage.file_system import FileSystem, names_in, opened, size_of
from wakelog.storage.log.mapped_file_queue import MappedFileQueue
from wakelog.storage.paths import StorePaths

SEGMENTS_AHEAD_COUNT = 2  # 4.9.3 asks for the next file and the one after it

# Building beside the folder can be impossible: it is a mount point, or its parent is not ours.
_CANNOT_BUILD_BESIDE = frozenset({errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS})


class Allocate:
    """Which segments to request. Requests each once, and a failed one again."""

    def __init__(self, file_bytes: int) -> None:
        self._file_bytes = file_bytes
        self._asked: set[int] = set()

    def step(self, taken_start_offset: int) -> list[int]:
        """Return the start offsets to make, now that the log writes to this segment.

        Make them in this ascending order: a later segment without the earlier one leaves a gap.
        """
        self._asked = {start for start in self._asked if start > taken_start_offset}
        ahead = range(1, SEGMENTS_AHEAD_COUNT + 1)
        wanted = [taken_start_offset + i * self._file_bytes for i in ahead]
        missing = [start for start in wanted if start not in self._asked]
        self._asked.update(missing)
        return missing

    def failed(self, start_offset: int) -> None:
        """Note that a segment could not be made: the next step requests it again."""
        self._asked.discard(start_offset)


class InlineSegments:
    """The segment source of a log without an allocating service: makes each when it is needed."""

    def __init__(
        self, fs: FileSystem, paths: StorePaths, files: MappedFileQueue, owner: str
    ) -> None:
        self._fs = fs
        self._paths = paths
        self._files = files
        self._owner = owner
        self.failure: StoreError | None = None

    def take_segment(self, start_offset: int) -> str | None:
        """Make the segment if it does not exist; None on failure, which `failure` then names."""
        path = self._files.path_for(start_offset)
        temporary_path = self._paths.new_file(path, self._owner)
        size_bytes = self._files.file_size_bytes
        try:
            make_segment(self._fs, path, size_bytes, temporary_path=temporary_path)
        except StoreError as error:
            self.failure = error
            return None
        self.failure = None
        return path


class FilesAhead:
    """Files of zeros, of one length, built and synced ahead: a new queue then waits for no sync.

    `make` may run in another thread than `take_file` or `make_more`, but not at the same time as
    `remove`.
    """

    def __init__(self, fs: FileSystem, name: str, size_bytes: int, *, count: int) -> None:
        """`name` is an unfinished name from `StorePaths.new_file`; each file appends a number."""
        self._fs = fs
        self._name = name
        self._size_bytes = size_bytes
        self._count = count
        self._numbers = numbers()
        self._ready: deque[str] = deque()

    def take_file(self) -> str | None:
        """Return the path of a file, which the caller then owns; None if none is ready."""
        try:
            return self._ready.popleft()
        except IndexError:
            return None

    def make(self) -> None:
        """Make as many as are missing. Raises: StoreFull, StoreFailed."""
        while len(self._ready) < self._count:
            self.make_more(1)

    def make_more(self, count: int) -> None:
        """Make so many files whose syncs are shared. Raises: StoreFull, StoreFailed."""
        paths = [f"{self._name}.{next(self._numbers)}" for _ in range(count)]
        with store_errors(paths[0], "allocate"):
            try:
                self._build_all(paths)
            except OSError:
                for path in paths:
                    _remove_if_there(self._fs, path)
                raise
        self._ready.extend(paths)

    def _build_all(self, paths: Sequence[str]) -> None:
        with contextlib.ExitStack() as files:
            fds = []
            for path in paths:
                fds.append(files.enter_context(opened(self._fs, path, create=True)))
                _fill(self._fs, fds[-1], self._size_bytes, empty=True)
            self._fs.sync_all(fds)

    def remove(self) -> None:
        """Remove the files left; `clean_unfinished` removes later what this cannot."""
        while (path := self.take_file()) is not None:
            _remove_if_there(self._fs, path)


def make_segment(
    fs: FileSystem,
    path: str,
    size_bytes: int,
    *,
    temporary_path: str,
    is_built: bool = False,
    unsynced: list[str] | None = None,
) -> bool:
    """Make a file of zeros of full length appear at `path` in one step; False if one was there.

    temporary_path: where it is built, see `StorePaths.new_file`.
    is_built: it exists already, from `FilesAhead`.
    unsynced: gets the directories that the caller has to sync to make the name durable; without it
        the name is durable on return.
    Raises: StoreFull, StoreFailed, DamagedStore when a file of another length has the name.
    """
    with store_errors(path, "allocate"):
        if fs.exists(path):
            _check_length(fs, path, size_bytes)
            # Its maker may have failed, or died, before its name was durable.
            sync_name(fs, path, unsynced)
            return False
        fs.make_directories(dirname(path), unsynced)
        try:
            if not is_built:
                _build(fs, temporary_path, size_bytes, empty=True)
            fs.rename_new(temporary_path, path)
        except FileExistsError:
            # Another maker was faster, and the log may have written to its file already.
            fs.unlink(temporary_path)
            _check_length(fs, path, size_bytes)
            return False
        except OSError as error:
            _remove_if_there(fs, temporary_path)
            if error.errno not in _CANNOT_BUILD_BESIDE:
                raise
            # Under the final name, keep what the file holds: it may be another maker's log. A
            # crash can leave a short file, which our recovery extends.
            _build(fs, path, size_bytes, empty=False)
        sync_name(fs, path, unsynced)
        return True


def sync_name(fs: FileSystem, path: str, unsynced: list[str] | None = None) -> None:
    """Make a name durable now, or note its directory for a later sync. Raises: OSError."""
    if unsynced is None:
        fs.sync_directory(dirname(path))
    else:
        unsynced.append(dirname(path))


def clean_unfinished(fs: FileSystem, paths: StorePaths, owner: str) -> list[str]:
    """Remove what `owner` left unfinished; return the paths. Raises: StoreFailed."""
    removed = []
    for directory in paths.new_file_directories:
        for name in names_in(fs, directory):
            path = join(directory, name)
            if paths.is_new_file(path, owner):
                with store_errors(path, "remove"):
                    fs.unlink(path)
                removed.append(path)
    return removed


def _remove_if_there(fs: FileSystem, path: str) -> None:
    with contextlib.suppress(OSError):
        fs.unlink(path)


def _build(fs: FileSystem, path: str, size_bytes: int, *, empty: bool) -> None:
    with opened(fs, path, create=True) as fd:
        _fill(fs, fd, size_bytes, empty=empty)
        fs.sync(fd)


def _fill(fs: FileSystem, fd: int, size_bytes: int, *, empty: bool) -> None:
    """Give a file its length; `empty`: without what it held."""
    if empty:
        fs.truncate(fd, 0)
    if fs.size(fd) < size_bytes:
        fs.truncate(fd, size_bytes)


def _check_length(fs: FileSystem, path: str, size_bytes: int) -> None:
    found_bytes = size_of(fs, path)
    if found_bytes != size_bytes:
        raise DamagedStore(
            path,
            f"{basename(path)} has {found_bytes} bytes instead of {size_bytes}",
            "stop the broker and start it again: recovery completes or removes the file",
        )
