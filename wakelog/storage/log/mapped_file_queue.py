"""Files of one length in sequence: the segments of the log, the pieces of one queue.

A reader in another process than the writer's calls `refresh` when `find` fails.

The log may lie in several directories. As in 4.9.3 new files go to the sorted writeable ones in
turn, by their number. A directory on a nearly full disk gets none while another has room.

Invariants:
- Files are sorted, of equal length, and without a gap. `load` leaves out files that break this, and
  reports them. In a sequence that bridges gaps, a `MissingFile` takes the place of each file that
  is missing in front of a written one.
- After `truncate(offset)` every byte from `offset` on is zero on the disk, so that no old record
  comes back after the next crash.

Source: org.apache.rocketmq.store.MappedFileQueue, MultiPathMappedFileQueue (4.9.3). 4.9.3 refuses
any file of another length, does not look for gaps, and truncates by moving positions in memory.
"""

from collections.abc import Sequence
from posixpath import join
from typing import Final

import msgspec

from wakelog.storage.errors import DamagedStore, store_errors, store_failure
from wakelog.storage.file_system import FileSystem, opened, size_of
from wakelog.storage.log.mapped_file import MappedFile, MissingFile, OpenFiles
from wakelog.storage.paths import offset_name, parse_offset_name

# A tail is compared and zeroed in pieces of this size; larger writes gain nothing.
ZERO_PIECE_BYTES = 1 << 16
# A written file begins with a size and a magic.
HEAD_BYTES: Final = 8
# 4.9.3's rocketmq.broker.diskSpaceCleanForciblyRatio, from which on it deletes as well.
DIRECTORY_FULL_PERCENT: Final = 85
# 4 TB of segments of the default size. A file so far away was named by hand, and replacing all
# missing files would take more memory than there is.
GAP_FILES_MAX: Final = 4096


class LoadReport(msgspec.Struct, frozen=True):
    """What `load` found beside sound files.

    short_last: a last file that is too short, half-made or half-copied; it is left out.
    gap_after: the end offset of the file after which some are missing.
    beyond_gap: the files after that gap; they are left out.
    """

    short_last: str | None = None
    gap_after: int | None = None
    beyond_gap: tuple[str, ...] = ()


class MappedFileQueue:
    """A growing sequence of fixed-size files over one or several directories.

    files: in order; only this class changes the list.
    """

    def __init__(
        self,
        fs: FileSystem,
        directories: Sequence[str],
        file_size_bytes: int,
        *,
        read_only_directories: Sequence[str] = (),
        read_only: bool = False,
        open_files: OpenFiles | None = None,
        bridges_gaps: bool = False,
    ) -> None:
        """Describe the sequence; nothing is read before `load`.

        read_only_directories: are searched and never get a file.
        read_only: open every file for reading alone.
        open_files: limits the descriptors over many queues.
        bridges_gaps: let `refresh` continue after files that are missing in front of written ones.
        """
        assert file_size_bytes > 0 and directories
        self._fs = fs
        self._directories = tuple(directories)
        self._read_only_directories = tuple(read_only_directories)
        self.file_size_bytes = file_size_bytes
        self._read_only = read_only
        self._open_files = open_files
        self._bridges_gaps = bridges_gaps
        self.files: list[MappedFile] = []
        self._chosen: dict[int, str] = {}

    @property
    def first(self) -> MappedFile | None:
        """The file with the lowest offsets, None without files."""
        return self.files[0] if self.files else None

    @property
    def last(self) -> MappedFile | None:
        """The file with the highest offsets, None without files."""
        return self.files[-1] if self.files else None

    @property
    def min_offset(self) -> int:
        """The first offset that a file covers, 0 without files."""
        return self.files[0].start_offset if self.files else 0

    @property
    def max_file_end(self) -> int:
        """The end of the last file, 0 without files; how far it is written is not known."""
        return self.files[-1].end_offset if self.files else 0

    def missing_stretches(self) -> list[tuple[int, int]]:
        """Return [begin, end) where files are missing between others, in order."""
        found: list[tuple[int, int]] = []
        for file in self.files:
            if not file.is_missing:
                continue
            if found and found[-1][1] == file.start_offset:
                found[-1] = found[-1][0], file.end_offset
            else:
                found.append((file.start_offset, file.end_offset))
        return found

    def load(self, *, bridge: bool = False) -> LoadReport:
        """List the directories and add every sound file in order.

        bridge: add files after a gap as well; `gap_after` is then None.

        Raises: DamagedStore when a file is too long, or too short and not the last. Also when two
        directories hold the same file, or a gap is too long to bridge. StoreFailed.
        """
        self.close()
        found = self._scan()
        offsets = sorted(found)
        for i, offset in enumerate(offsets):
            path = found[offset]
            if bridge:
                self._bridge_to(offset, path)
            if self.files and offset != self.max_file_end:
                beyond = tuple(found[later] for later in offsets[i:])
                return LoadReport(None, self.max_file_end, beyond)
            size = self._size(path)
            if size < self.file_size_bytes and i == len(offsets) - 1:
                return LoadReport(path)
            if size != self.file_size_bytes:
                raise DamagedStore(
                    path,
                    f"its length is {size}, configured are {self.file_size_bytes}",
                    "configure the file size the store was written with, or restore the file",
                )
            self.files.append(self._mapped(path, offset))
        return LoadReport()

    def refresh(self) -> bool:
        """Add files that another process made and drop those it removed; True if any changed.

        Files of another length are left out: a foreign writer may be growing them.
        """
        found = self._scan()
        before = self.files
        known: dict[int, MappedFile] = {}
        for file in before:
            if not file.is_missing and found.get(file.start_offset) == file.path:
                known[file.start_offset] = file
            else:
                file.release()
        files: list[MappedFile] = []
        expected = gap_end = min(known or found, default=0)
        while True:
            path = found.get(expected)
            if expected in known:
                files.append(known[expected])
            elif path is not None:
                if self._size(path) != self.file_size_bytes:
                    break
                files.append(self._mapped(path, expected))
            else:
                if self._bridges_gaps and expected >= gap_end:
                    gap_end = self._gap_end(found, expected)
                if expected >= gap_end:
                    break
                files.append(self._missing(expected))
            expected += self.file_size_bytes
        self.files = files  # at once: another thread may be reading the list
        return _named(before) != _named(files)

    def find(self, offset: int) -> MappedFile | None:
        """Return the file that covers `offset`, None where there is none."""
        files = self.files
        if not files:
            return None
        index = (offset - files[0].start_offset) // self.file_size_bytes
        return files[index] if 0 <= index < len(files) else None

    def path_for(self, start_offset: int) -> str:
        """Return where the file that starts at `start_offset` is or belongs.

        The result stays the same while disks fill: another process may be making the file there.
        """
        assert start_offset % self.file_size_bytes == 0, start_offset
        writeable = [d for d in self._directories if d not in self._read_only_directories]
        name = offset_name(start_offset)
        if len(writeable) == 1:
            return join(writeable[0], name)
        path = self._chosen.get(start_offset)
        if path is None:
            there = (join(d, name) for d in writeable if self._fs.exists(join(d, name)))
            path = next(there, None) or self._next_place(start_offset, writeable)
            self._chosen[start_offset] = path
        return path

    def add(self, path: str, start_offset: int) -> MappedFile:
        """Add a file that was just made after the last one."""
        assert not self.files or start_offset == self.max_file_end, (start_offset, path)
        file = self._mapped(path, start_offset)
        self.files.append(file)
        self._chosen = {x: where for x, where in self._chosen.items() if x > start_offset}
        return file

    def extend_short_last(self, path: str) -> MappedFile:
        """Extend a short last file with zeros to its full length, and add it."""
        start_offset = parse_offset_name(path.rpartition("/")[2])
        assert start_offset is not None, path
        with store_errors(path, "allocate"), opened(self._fs, path) as fd:
            self._fs.truncate(fd, self.file_size_bytes)
            self._fs.sync(fd)
        return self.add(path, start_offset)

    def truncate(
        self, offset: int, *, keep_empty: bool = False, is_durable: bool = False
    ) -> list[str]:
        """Remove everything from `offset` on, durably; return the paths of the removed files.

        Files are removed from the last one on: a crash in between leaves a shorter sequence without
        a gap, and the next start truncates again.

        keep_empty: zero a file that begins at `offset` and keep it, so that the sequence continues
            there.
        is_durable: the last file needs no sync if it is zero from `offset` on: its present content
            is durable, or the caller makes it so.
        """
        removed = []
        kept_from = offset + 1 if keep_empty else offset
        while self.files and self.files[-1].start_offset >= kept_from:
            removed.append(self._remove(self.files.pop()))
        last = self.last
        if last is not None and offset < last.end_offset:
            with store_errors(last.path, "truncate"):
                position = last.position_of(offset)
                if zero_from(self._fs, last.fd, position, last.size_bytes) or not is_durable:
                    self._fs.datasync(last.fd)
        return removed

    def remove_before(self, offset: int) -> list[str]:
        """Remove files that end at or before `offset`, oldest first, never the last one."""
        removed = []
        while len(self.files) > 1 and self.files[0].end_offset <= offset:
            removed.append(self._remove(self.files.pop(0)))
        return removed

    def forget_before(self, offset: int) -> None:
        """Drop files that end at or before `offset`, which another process has removed."""
        while len(self.files) > 1 and self.files[0].end_offset <= offset:
            self.files.pop(0).release()

    def forget_last(self) -> None:
        """Drop the last file; it stays on the disk."""
        self.files.pop().release()

    def close(self) -> None:
        """Close every descriptor and forget the files."""
        for file in self.files:
            file.release()
        self.files = []

    def _next_place(self, start_offset: int, directories: Sequence[str]) -> str:
        """Choose among the directories that have room, or among all if none has."""
        roomy = [d for d in directories if not self._is_full(d)] or directories
        number = start_offset // self.file_size_bytes
        return join(roomy[number % len(roomy)], offset_name(start_offset))

    def _is_full(self, directory: str) -> bool:
        try:
            percent = self._fs.disk_usage(directory).used_percent
        except OSError:
            return False  # it may not exist yet; making the file will show
        return percent is not None and percent > DIRECTORY_FULL_PERCENT

    def _mapped(self, path: str, start_offset: int) -> MappedFile:
        frozen = any(path.startswith(d + "/") for d in self._read_only_directories)
        return MappedFile(
            self._fs,
            path,
            start_offset=start_offset,
            size_bytes=self.file_size_bytes,
            read_only=self._read_only or frozen,
            open_files=self._open_files,
        )

    def _bridge_to(self, offset: int, path: str) -> None:
        if self.files and self._is_too_far(self.max_file_end, offset):
            raise DamagedStore(
                path,
                f"the files before it are missing from {self.max_file_end} on: more than any log"
                " can have lost",
                "move the file away",
            )
        while self.files and self.max_file_end < offset:
            self.files.append(self._missing(self.max_file_end))

    def _missing(self, start_offset: int) -> MissingFile:
        path = join(self._directories[0], offset_name(start_offset))
        return MissingFile(
            self._fs, path, start_offset=start_offset, size_bytes=self.file_size_bytes
        )

    def _gap_end(self, found: dict[int, str], offset: int) -> int:
        """Return where files continue after a gap at `offset`; `offset` where the sequence ends.

        Blank files do not count: they were made ahead of need, and one between may be missing.
        """
        later = [start for start in found if start > offset]
        if any(not self._begins_blank(found[start]) for start in later):
            end = min(later)
            if not self._is_too_far(offset, end):
                return end
        return offset

    def _is_too_far(self, begin: int, end: int) -> bool:
        return end - begin > GAP_FILES_MAX * self.file_size_bytes

    def _begins_blank(self, path: str) -> bool:
        with store_errors(path, "read"), opened(self._fs, path, read_only=True) as fd:
            return not self._fs.pread(fd, HEAD_BYTES, 0).strip(b"\0")

    def _scan(self) -> dict[int, str]:
        """Return the files that are named as offsets; others are left alone."""
        found: dict[int, str] = {}
        for directory in dict.fromkeys((*self._directories, *self._read_only_directories)):
            try:
                names = self._fs.list_directory(directory)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise store_failure(directory, "list", error) from error
            for name in names:
                path = join(directory, name)
                offset = parse_offset_name(name)
                if offset is None or not self._fs.is_file(path):
                    continue
                if offset in found:
                    raise DamagedStore(path, f"{found[offset]} too", "remove one of the two")
                if offset % self.file_size_bytes:
                    raise DamagedStore(
                        path,
                        f"its offset is no multiple of the file size {self.file_size_bytes}",
                        "configure the file size the store was written with",
                    )
                found[offset] = path
        return found

    def _size(self, path: str) -> int:
        with store_errors(path, "open"):
            return size_of(self._fs, path)

    def _remove(self, file: MappedFile) -> str:
        file.release()
        try:
            self._fs.unlink(file.path)
            self._fs.sync_directory(file.path.rpartition("/")[0])
        except FileNotFoundError:
            pass  # another process removed it already
        except OSError as error:
            raise store_failure(file.path, "remove", error) from error
        return file.path


def _named(files: Sequence[MappedFile]) -> list[tuple[str, bool]]:
    return [(file.path, file.is_missing) for file in files]


def zero_from(fs: FileSystem, fd: int, position: int, size_bytes: int) -> bool:
    """Make [position, size_bytes) of a file zero, from the front; not durable yet.

    Returns: whether anything was written for it.

    What was never written is not read: thousands of queues have megabytes of it. All pieces are
    found before the first is read, because a page that was read, or read ahead, then counts as
    data.

    Raises: OSError.
    """
    pieces = []
    begin = fs.next_data(fd, position)
    while begin is not None and begin < size_bytes:
        step_end = begin - begin % ZERO_PIECE_BYTES + ZERO_PIECE_BYTES
        end = min(step_end, size_bytes, fs.data_end(fd, begin))
        pieces.append((begin, end))
        begin = fs.next_data(fd, end)
    zeros = bytes(ZERO_PIECE_BYTES)
    is_written = False
    for begin, end in pieces:
        # A comparison runs at memory speed; most of a tail is zero already.
        piece_zeros = zeros[: end - begin]
        if fs.pread(fd, len(piece_zeros), begin) != piece_zeros:
            fs.pwrite(fd, piece_zeros, begin)
            is_written = True
    return is_written
