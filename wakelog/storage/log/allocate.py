"""Making segments ahead of need: which ones, and how one appears whole or not at all.

When the log rolls into a segment, the next one should be there already and the one behind it under
way: `Allocate` says which to make. `make_segment` makes one: built under a name of its maker's own
outside the data folder, allocated to full length, synced, then given its name in one step that
refuses a taken name, and the folder synced. So a crash leaves no short file where 4.9.3 would
refuse the store, and a maker that was stopped and wakes late cannot put zeros over a segment
that was written meanwhile.

`FilesAhead` keeps a few such files without a name, for queues that nobody has heard of yet: the
first message of one then waits for no sync.

Source: org.apache.rocketmq.store.AllocateMappedFileService (4.9.3), which creates the file under
its own name and lets it grow sparse.
"""

from __future__ import annotations

import contextlib
import errno
from collections import deque
from posixpath import basename, dirname, join

from wakelog.storage.errors import DamagedStore, StoreError, store_failure
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.mapped_file_queue import MappedFileQueue
from wakelog.storage.paths import StorePaths

# 4.9.3 asks for the next file and the one behind it.
SEGMENTS_AHEAD_COUNT = 2

# Building beside the folder can be impossible: it is a mount point, or its parent is not ours.
_CANNOT_BUILD_BESIDE = frozenset({errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS})


class Allocate:
    """Which segments to ask for. Asks for each once; a failed one is asked for again."""

    __slots__ = ("_asked", "_file_bytes")

    def __init__(self, file_bytes: int) -> None:
        """Start with nothing asked for."""
        self._file_bytes = file_bytes
        self._asked: set[int] = set()

    def step(self, taken_start_offset: int) -> list[int]:
        """Return the start offsets to make now that the log writes to the segment named.

        In ascending order, and to be made in it: a later segment without the earlier one would
        leave a gap.
        """
        self._asked = {start for start in self._asked if start > taken_start_offset}
        ahead = range(1, SEGMENTS_AHEAD_COUNT + 1)
        wanted = [taken_start_offset + i * self._file_bytes for i in ahead]
        missing = [start for start in wanted if start not in self._asked]
        self._asked.update(missing)
        return missing

    def failed(self, start_offset: int) -> None:
        """Note that a segment could not be made: the next step asks for it again."""
        self._asked.discard(start_offset)


class InlineSegments:
    """The segment source of a log without an allocating neighbour: makes each when it is needed."""

    __slots__ = ("_files", "_fs", "_owner", "_paths", "failure", "made_count")

    def __init__(
        self, fs: FileSystem, paths: StorePaths, files: MappedFileQueue, owner: str
    ) -> None:
        """Make segments of `files` under unfinished names of `owner`."""
        self._fs = fs
        self._paths = paths
        self._files = files
        self._owner = owner
        self.failure: StoreError | None = None
        self.made_count = 0

    def take_segment(self, start_offset: int) -> str | None:
        """Make the segment if it is not there; None if that failed, with the reason kept."""
        path = self._files.path_for(start_offset)
        temporary_path = self._paths.new_file(path, self._owner)
        size_bytes = self._files.file_size_bytes
        try:
            made = make_segment(self._fs, path, size_bytes, temporary_path=temporary_path)
        except StoreError as error:
            self.failure = error
            return None
        self.failure = None
        self.made_count += made
        return path


class FilesAhead:
    """Zero files of one length, made and synced ahead, that have only an unfinished name yet.

    Who takes one has it for good. `make` may run in another thread than `take`, but not beside
    `remove`.
    """

    __slots__ = ("_count", "_fs", "_made_count", "_name", "_ready", "_size_bytes", "_sparse")

    def __init__(
        self, fs: FileSystem, name: str, size_bytes: int, *, count: int, sparse: bool = False
    ) -> None:
        """Make nothing yet.

        name: an unfinished name as `StorePaths.new_file` gives it, which gets a number behind it.
        """
        self._fs = fs
        self._name = name
        self._size_bytes = size_bytes
        self._count = count
        self._sparse = sparse
        self._made_count = 0
        self._ready: deque[str] = deque()

    def take_file(self) -> str | None:
        """Return the path of a file, the caller's from now on; None if none is ready."""
        try:
            return self._ready.popleft()
        except IndexError:
            return None

    def make(self) -> None:
        """Make as many as are missing. Raises: StoreFull, StoreFailed."""
        while len(self._ready) < self._count:
            path = f"{self._name}.{self._made_count}"
            self._made_count += 1
            try:
                _build_beside(self._fs, path, self._size_bytes, sparse=self._sparse)
            except OSError as error:
                raise store_failure(path, "allocate", error) from error
            self._ready.append(path)

    def remove(self) -> None:
        """Remove those that nobody took; what cannot be removed is left to `clean_unfinished`."""
        while (path := self.take_file()) is not None:
            with contextlib.suppress(OSError):
                self._fs.unlink(path)


def make_segment(
    fs: FileSystem,
    path: str,
    size_bytes: int,
    *,
    temporary_path: str,
    is_built: bool = False,
    sparse: bool = False,
    unsynced: list[str] | None = None,
) -> bool:
    """Make a zero file of full length appear at `path` in one step; False if one was there.

    temporary_path: where it is built, see `StorePaths.new_file`.
    is_built: it is there already, taken from `FilesAhead`.
    sparse: take no room on the disk before it is written to.
    unsynced: gets the directories that its maker has to sync before the name is durable; without
        it the name is durable on return.
    Raises: StoreFull, StoreFailed, DamagedStore when a file of another length has the name.
    """
    try:
        if fs.exists(path):
            _check_length(fs, path, size_bytes)
            # Whoever made it may have failed, or died, before its name was durable.
            sync_name(fs, path, unsynced)
            return False
        fs.make_directories(dirname(path), unsynced)
        try:
            if not is_built:
                _build_beside(fs, temporary_path, size_bytes, sparse=sparse)
            made = _name_beside(fs, path, size_bytes, temporary_path)
        except OSError as error:
            if error.errno not in _CANNOT_BUILD_BESIDE:
                raise
            _make_in_place(fs, path, size_bytes, sparse=sparse)
            made = True
        if made:
            sync_name(fs, path, unsynced)
        return made
    except OSError as error:
        raise store_failure(path, "allocate", error) from error


def sync_name(fs: FileSystem, path: str, unsynced: list[str] | None = None) -> None:
    """Make a name durable now, or note its directory for whoever does. Raises: OSError."""
    if unsynced is None:
        fs.sync_directory(dirname(path))
    else:
        unsynced.append(dirname(path))


def clean_unfinished(fs: FileSystem, paths: StorePaths, owner: str) -> list[str]:
    """Remove what `owner` left unfinished when it died; return the paths. Raises: StoreFailed."""
    removed = []
    for directory in paths.new_file_directories:
        try:
            names = fs.list_directory(directory)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise store_failure(directory, "list", error) from error
        for name in names:
            path = join(directory, name)
            if paths.is_new_file(path, owner):
                try:
                    fs.unlink(path)
                except OSError as error:
                    raise store_failure(path, "remove", error) from error
                removed.append(path)
    return removed


def _build_beside(fs: FileSystem, temporary_path: str, size_bytes: int, *, sparse: bool) -> None:
    try:
        _build(fs, temporary_path, size_bytes, empty=True, sparse=sparse)
    except OSError:
        with contextlib.suppress(OSError):
            fs.unlink(temporary_path)
        raise


def _name_beside(fs: FileSystem, path: str, size_bytes: int, temporary_path: str) -> bool:
    try:
        fs.rename_new(temporary_path, path)
    except FileExistsError:
        # Somebody else was faster, and may have written to it already.
        fs.unlink(temporary_path)
        _check_length(fs, path, size_bytes)
        return False
    except OSError:
        with contextlib.suppress(OSError):
            fs.unlink(temporary_path)
        raise
    return True


def _make_in_place(fs: FileSystem, path: str, size_bytes: int, *, sparse: bool) -> None:
    """Build under the final name: a crash can leave a short file, which our recovery extends.

    What the file holds by then is kept: another maker's log may be in it.
    """
    _build(fs, path, size_bytes, empty=False, sparse=sparse)


def _build(fs: FileSystem, path: str, size_bytes: int, *, empty: bool, sparse: bool) -> None:
    fd = fs.open(path, create=True)
    try:
        if empty:
            fs.truncate(fd, 0)
        if not sparse:
            fs.allocate(fd, size_bytes)
        elif fs.size(fd) < size_bytes:
            fs.truncate(fd, size_bytes)
        fs.sync(fd)
    finally:
        fs.close(fd)


def _check_length(fs: FileSystem, path: str, size_bytes: int) -> None:
    fd = fs.open(path, read_only=True)
    try:
        found_bytes = fs.size(fd)
    finally:
        fs.close(fd)
    if found_bytes != size_bytes:
        raise DamagedStore(
            path,
            f"{basename(path)} has {found_bytes} bytes instead of {size_bytes}",
            "stop the broker and start it again: recovery completes or removes the file",
        )
