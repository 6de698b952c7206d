"""One contract, three file systems: the real one, a plain one in memory, the simulated disk's."""

import errno
import fcntl
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.memory_file_system import MemoryFileSystem
from tests.simulation.disk import SimulatedDisk, SimulatedFileSystem
from wakelog.storage.file_system import (
    WRITE_BUFFER_COUNT_MAX,
    DiskUsage,
    FileSystem,
    write_synced,
)


@pytest.fixture(params=["real", "memory", "simulated"])
def fs(request: pytest.FixtureRequest) -> FileSystem:
    if request.param == "simulated":
        return SimulatedDisk().process()
    return FileSystem() if request.param == "real" else MemoryFileSystem()


@pytest.fixture
def root(fs: FileSystem, tmp_path: Path) -> str:
    path = str(tmp_path / "disk")
    fs.make_directories(path)
    return path


class TestContract:
    def test_a_file_reads_back_what_was_written(self, fs: FileSystem, root: str) -> None:
        fd = fs.open(f"{root}/file", create=True)
        fs.pwrite(fd, b"wakelog", 3)
        fs.pwrite(fd, memoryview(b"LOG"), 7)
        assert fs.pread(fd, 100, 0) == b"\0\0\0wakeLOG"
        assert fs.pread(fd, 4, 3) == b"wake"
        assert fs.pread(fd, 4, 50) == b""
        assert fs.size(fd) == 10
        fs.close(fd)

    def test_an_open_file_may_have_no_name(self, fs: FileSystem, root: str) -> None:
        fd = fs.open(f"{root}/file", create=True)
        assert fs.name_count(fd) == 1
        fs.unlink(f"{root}/file")
        assert fs.name_count(fd) == 0
        fs.close(fd)

    def test_pread_into_counts_to_the_end(self, fs: FileSystem, root: str) -> None:
        fd = fs.open(f"{root}/file", create=True)
        fs.pwrite(fd, b"0123456789", 0)
        buffer = bytearray(6)
        assert fs.pread_into(fd, buffer, 0) == 6
        assert buffer == b"012345"
        assert fs.pread_into(fd, memoryview(buffer)[:4], 8) == 2
        assert buffer == b"892345"
        fs.close(fd)

    def test_reading_without_waiting_is_all_or_nothing(self, fs: FileSystem, root: str) -> None:
        fd = fs.open(f"{root}/file", create=True)
        fs.pwrite(fd, b"0123456789", 0)
        buffer = bytearray(4)
        assert fs.pread_into_nowait(fd, buffer, 2) and buffer == b"2345"
        assert fs.pread_into_nowait(fd, memoryview(buffer)[1:3], 0) and buffer == b"2015"
        assert not fs.pread_into_nowait(fd, buffer, 8)
        fs.close(fd)

    def test_a_gathered_write_takes_more_buffers_than_the_system(
        self, fs: FileSystem, root: str
    ) -> None:
        fd = fs.open(f"{root}/file", create=True)
        buffers = [b"%05d" % i for i in range(WRITE_BUFFER_COUNT_MAX * 2 + 7)]
        fs.pwritev(fd, buffers, 11)
        assert fs.pread(fd, 11 + 5 * len(buffers), 0) == b"\0" * 11 + b"".join(buffers)
        fs.close(fd)

    def test_allocate_grows_and_keeps(self, fs: FileSystem, root: str) -> None:
        fd = fs.open(f"{root}/file", create=True)
        fs.pwrite(fd, b"data", 0)
        fs.allocate(fd, 10_000)
        assert fs.size(fd) == 10_000
        assert fs.pread(fd, 10_000, 0) == b"data" + bytes(9_996)
        fs.allocate(fd, 100)
        assert fs.size(fd) == 10_000
        fs.datasync(fd)
        fs.sync(fd)
        fs.forget_cached(fd)
        fs.read_ahead(fd, 10_000, 0)
        assert fs.pread(fd, 4, 0) == b"data"
        fs.close(fd)

    def test_reserve_keeps_content_and_length(self, fs: FileSystem, root: str) -> None:
        fd = fs.open(f"{root}/file", create=True)
        fs.pwrite(fd, b"data", 0)
        fs.truncate(fd, 10_000)
        fs.reserve(fd, 4, 9_996)
        fs.reserve(fd, 100, 8_000)
        assert fs.size(fd) == 10_000
        assert fs.pread(fd, 10_000, 0) == b"data" + bytes(9_996)
        fs.close(fd)

    def test_truncate_cuts_and_zeros(self, fs: FileSystem, root: str) -> None:
        fd = fs.open(f"{root}/file", create=True)
        fs.pwrite(fd, b"0123456789", 0)
        fs.truncate(fd, 4)
        fs.truncate(fd, 8)
        assert fs.pread(fd, 100, 0) == b"0123\0\0\0\0"
        fs.close(fd)

    def test_next_data_never_skips_data(self, fs: FileSystem, root: str) -> None:
        fd = fs.open(f"{root}/file", create=True)
        fs.allocate(fd, 1 << 20)
        fs.pwrite(fd, b"x", 700_000)
        found = fs.next_data(fd, 0)
        assert found is not None and found <= 700_000
        assert fs.next_data(fd, 700_000) == 700_000
        assert fs.next_data(fd, 1 << 20) is None
        fs.close(fd)

    def test_data_ends_at_a_hole_or_with_the_file(self, fs: FileSystem, root: str) -> None:
        fd = fs.open(f"{root}/file", create=True)
        fs.truncate(fd, 1 << 20)
        fs.pwrite(fd, b"x", 0)
        fs.pwrite(fd, b"x", 700_000)
        end = fs.data_end(fd, 0)
        assert 0 < end <= 1 << 20
        assert not fs.pread(fd, 700_000 - end, end).strip(b"\0")
        assert 700_000 < fs.data_end(fd, 700_000) <= 1 << 20
        fs.close(fd)

    def test_open_says_what_is_missing(self, fs: FileSystem, root: str) -> None:
        with pytest.raises(FileNotFoundError):
            fs.open(f"{root}/file")
        with pytest.raises(FileNotFoundError):
            fs.open(f"{root}/folder/file", create=True)
        with pytest.raises(FileNotFoundError):
            fs.unlink(f"{root}/file")
        with pytest.raises(FileNotFoundError):
            fs.list_directory(f"{root}/folder")
        with pytest.raises(FileNotFoundError):
            fs.modified_ms(f"{root}/file")

    def test_rename_replaces_and_rename_new_refuses(self, fs: FileSystem, root: str) -> None:
        for name in ("one", "two"):
            fd = fs.open(f"{root}/{name}", create=True)
            fs.pwrite(fd, name.encode(), 0)
            fs.close(fd)
        with pytest.raises(FileExistsError):
            fs.rename_new(f"{root}/one", f"{root}/two")
        assert fs.list_directory(root) == ["one", "two"]
        fs.rename(f"{root}/one", f"{root}/two")
        assert fs.list_directory(root) == ["two"]
        fs.rename_new(f"{root}/two", f"{root}/three")
        assert fs.list_directory(root) == ["three"]
        fd = fs.open(f"{root}/three", read_only=True)
        assert fs.pread(fd, 10, 0) == b"one"
        fs.close(fd)

    def test_a_removed_file_stays_readable_while_open(self, fs: FileSystem, root: str) -> None:
        fd = fs.open(f"{root}/file", create=True)
        fs.pwrite(fd, b"still here", 0)
        fs.unlink(f"{root}/file")
        assert not fs.exists(f"{root}/file")
        assert fs.pread(fd, 10, 0) == b"still here"
        fs.close(fd)

    def test_directories_come_and_go(self, fs: FileSystem, root: str) -> None:
        fs.make_directories(f"{root}/a/b")
        fs.make_directories(f"{root}/a/b")
        fs.close(fs.open(f"{root}/a/file", create=True))
        fs.sync_directory(f"{root}/a")
        assert fs.list_directory(f"{root}/a") == ["b", "file"]
        assert fs.is_file(f"{root}/a/file") and not fs.is_file(f"{root}/a/b")
        with pytest.raises(OSError):
            fs.remove_directory(f"{root}/a")
        fs.remove_directory(f"{root}/a/b")
        assert not fs.exists(f"{root}/a/b")

    def test_a_file_that_is_given_its_content_has_nothing_else(
        self, fs: FileSystem, root: str
    ) -> None:
        """A process that was killed may have left a longer one under the name."""
        for text in (b"left behind", b"new"):
            write_synced(fs, f"{root}/file", text)
        fd = fs.open(f"{root}/file", read_only=True)
        assert fs.pread(fd, 100, 0) == b"new"
        fs.close(fd)

    def test_directories_can_be_noted_to_be_synced_later(self, fs: FileSystem, root: str) -> None:
        unsynced: list[str] = []
        fs.make_directories(f"{root}/a/b", unsynced)
        assert unsynced == [root.rpartition("/")[0] or "/", root, f"{root}/a"]
        for path in unsynced:
            fs.sync_directory(path)

    def test_usage_adds_up(self, fs: FileSystem, root: str) -> None:
        usage = fs.disk_usage(root)
        assert 0 < usage.free_bytes <= usage.total_bytes
        assert usage.used_bytes + usage.free_bytes <= usage.total_bytes

    def test_a_process_may_lock_its_own_byte_again(self, fs: FileSystem, root: str) -> None:
        fd = fs.open(f"{root}/lock", create=True)
        assert fs.lock_byte(fd, 0) and fs.lock_byte(fd, 0)
        assert fs.lock_holder(fd, 0) is None
        fs.unlock_byte(fd, 0)
        fs.close(fd)


def test_modification_times_are_cut_to_the_millisecond(tmp_path: Path) -> None:
    os.utime(tmp_path, ns=(0, 1_700_000_000_123_999_999))
    assert FileSystem().modified_ms(str(tmp_path)) == 1_700_000_000_123


@pytest.mark.parametrize("fake", [MemoryFileSystem, SimulatedFileSystem])
def test_a_disk_of_tests_never_reaches_the_real_one(fake: type[FileSystem]) -> None:
    real = {name for name in vars(FileSystem) if callable(getattr(FileSystem, name))}
    assert real <= vars(fake).keys()


ASK_FOR_LOCK = """
import sys
from wakelog.storage.file_system import FileSystem
fs = FileSystem()
fd = fs.open(sys.argv[1])
print(fs.lock_byte(fd, 0), fs.lock_byte(fd, 1), fs.lock_holder(fd, 0))
"""


class TestReal:
    @pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP])
    def test_where_holes_are_not_known_all_is_data(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
    ) -> None:
        def refuse(*_: object) -> int:
            raise OSError(number, "no holes here")

        fs = FileSystem()
        fd = fs.open(f"{tmp_path}/file", create=True)
        fs.truncate(fd, 100)
        monkeypatch.setattr(os, "lseek", refuse)
        assert [fs.next_data(fd, position) for position in (0, 99, 100)] == [0, 99, None]
        assert fs.data_end(fd, 0) == 100
        fs.close(fd)

    def test_several_files_are_synced_as_each_is(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fs = FileSystem()
        fds = [fs.open(str(tmp_path / str(number)), create=True) for number in range(20)]
        synced: list[int] = []
        monkeypatch.setattr(os, "fsync", synced.append)
        for count in (0, 1, 20):
            fs.sync_all(fds[:count])
        assert sorted(synced) == sorted([fds[0], *fds])
        monkeypatch.undo()
        fs.close(fds[7])
        with pytest.raises(OSError, match="Bad file descriptor"):
            fs.sync_all(fds)
        for fd in fds[:7] + fds[8:]:
            fs.close(fd)

    def test_another_process_is_kept_from_a_locked_byte_alone(self, tmp_path: Path) -> None:
        fs = FileSystem()
        path = str(tmp_path / "lock")
        fd = fs.open(path, create=True)
        assert fs.lock_byte(fd, 0)
        command = [sys.executable, "-c", ASK_FOR_LOCK, path]
        answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert answer.split() == ["False", "True", str(os.getpid())]
        fs.close(fd)
        answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert answer.split() == ["True", "True", "None"]

    def test_a_pipe_in_a_files_place_is_not_waited_for(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "file")
        fs = FileSystem()
        fd = fs.open(str(tmp_path / "file"), read_only=True)
        with pytest.raises(OSError):
            fs.pread(fd, 1, 0)
        fs.close(fd)

    def test_other_users_read_nothing(self, tmp_path: Path) -> None:
        fs = FileSystem()
        fs.make_directories(str(tmp_path / "store" / "commitlog"))
        fs.close(fs.open(str(tmp_path / "store" / "commitlog" / "file"), create=True))
        made = [tmp_path / "store", *(tmp_path / "store").rglob("*")]
        assert len(made) == 3
        assert not any(path.stat().st_mode & 0o007 for path in made)

    def test_a_link_in_a_files_place_is_not_written_through(self, tmp_path: Path) -> None:
        fs = FileSystem()
        outside = tmp_path / "outside"
        outside.write_bytes(b"untouched")
        (tmp_path / "file").symlink_to(outside)
        for create in (False, True):
            with pytest.raises(OSError):
                fs.open(str(tmp_path / "file"), create=create)
        fd = fs.open(str(tmp_path / "file"), read_only=True)
        assert fs.pread(fd, 9, 0) == b"untouched"
        fs.close(fd)

    def test_what_is_no_link_leads_nowhere(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"")
        for path in ("file", "missing", "file/below", "missing/below"):
            assert FileSystem().read_link(str(tmp_path / path)) is None

    def test_a_directory_that_another_process_makes_meanwhile_is_taken(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make = os.mkdir

        def late(path: str, mode: int) -> None:
            make(path, mode)
            make(path, mode)

        monkeypatch.setattr(os, "mkdir", late)
        FileSystem().make_directories(f"{tmp_path}/a/b")
        assert (tmp_path / "a" / "b").is_dir()

    def test_a_directory_that_a_killed_process_made_is_synced(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "left").mkdir()
        synced: list[str] = []
        monkeypatch.setattr(FileSystem, "sync_directory", lambda self, path: synced.append(path))
        FileSystem().make_directories(str(tmp_path / "left" / "new"))
        assert synced == [str(tmp_path), str(tmp_path / "left")]

    def test_short_reads_and_writes_are_continued(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fs = FileSystem()
        fd = fs.open(str(tmp_path / "file"), create=True)
        pread, preadv, pwrite, pwritev = os.pread, os.preadv, os.pwrite, os.pwritev
        monkeypatch.setattr(os, "pread", lambda f, n, p: pread(f, min(n, 3), p))
        monkeypatch.setattr(os, "preadv", lambda f, b, p: preadv(f, (b[0][:3],), p))
        monkeypatch.setattr(os, "pwrite", lambda f, d, p: pwrite(f, d[:3], p))
        monkeypatch.setattr(os, "pwritev", lambda f, b, p: pwritev(f, (b[0][:3],), p))
        fs.pwrite(fd, b"0123456789", 0)
        fs.pwritev(fd, [b"abcdefg", b"hij"], 10)
        assert fs.pread(fd, 30, 0) == b"0123456789abcdefghij"
        buffer = bytearray(30)
        assert fs.pread_into(fd, buffer, 0) == 20
        assert bytes(buffer).rstrip(b"\0") == b"0123456789abcdefghij"
        fs.close(fd)

    def test_reading_without_waiting_falls_back_where_it_is_not_known(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fs = FileSystem()
        fd = fs.open(str(tmp_path / "file"), create=True)
        fs.pwrite(fd, b"0123456789", 0)
        calls: list[int] = []
        read = os.preadv

        def refuse(fd: int, buffers: list[memoryview], position: int, flags: int = 0) -> int:
            if not flags:
                return read(fd, buffers, position)
            calls.append(flags)
            raise OSError(95, "Operation not supported")

        monkeypatch.setattr(os, "preadv", refuse)
        for position, found in ((2, b"2345"), (0, b"0123")):
            buffer = bytearray(4)
            assert fs.pread_into_nowait(fd, buffer, position) and buffer == found
        assert not fs.pread_into_nowait(fd, bytearray(4), 8)
        assert len(calls) <= 1  # asked once, remembered
        fs.close(fd)

    def test_a_disk_without_links_still_refuses_a_taken_name(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fs = FileSystem()

        def refuse(source: str, target: str, *, follow_symlinks: bool) -> None:
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(os, "link", refuse)
        (tmp_path / "one").write_bytes(b"1")
        (tmp_path / "two").write_bytes(b"2")
        with pytest.raises(FileExistsError):
            fs.rename_new(str(tmp_path / "one"), str(tmp_path / "two"))
        fs.rename_new(str(tmp_path / "one"), str(tmp_path / "three"))
        assert (tmp_path / "three").read_bytes() == b"1"


class TestMacos:
    """The branches for a system without fdatasync and posix_fallocate, taken on any system."""

    @pytest.fixture
    def fs(self, monkeypatch: pytest.MonkeyPatch) -> FileSystem:
        monkeypatch.setattr(sys, "platform", "darwin")
        monkeypatch.setattr("fcntl.F_FULLFSYNC", 51, raising=False)
        return FileSystem()

    def test_allocate_writes_zeros_after_the_end(self, fs: FileSystem, tmp_path: Path) -> None:
        fd = fs.open(str(tmp_path / "file"), create=True)
        fs.pwrite(fd, b"data", 0)
        fs.allocate(fd, 3_000_000)
        assert fs.size(fd) == 3_000_000
        assert fs.pread(fd, 5, 0) == b"data\0"
        assert os.stat(tmp_path / "file").st_blocks * 512 >= 3_000_000
        fs.close(fd)

    def test_reserve_writes_zeros_in_pieces(self, fs: FileSystem, tmp_path: Path) -> None:
        fd = fs.open(str(tmp_path / "file"), create=True)
        fs.pwrite(fd, b"data", 0)
        fs.truncate(fd, 4_000_000)
        fs.reserve(fd, 4, 2_999_996)
        assert fs.size(fd) == 4_000_000
        assert fs.pread(fd, 5, 0) == b"data\0"
        assert 3_000_000 <= os.stat(tmp_path / "file").st_blocks * 512 < 3_500_000
        fs.close(fd)

    @pytest.mark.parametrize("sync", [FileSystem.sync, FileSystem.datasync])
    def test_syncs_reach_the_platter(
        self,
        fs: FileSystem,
        monkeypatch: pytest.MonkeyPatch,
        sync: Callable[[FileSystem, int], None],
    ) -> None:
        asked: list[tuple[int, int]] = []
        monkeypatch.setattr("fcntl.fcntl", lambda fd, command: asked.append((fd, command)))
        sync(fs, 7)
        assert asked == [(7, 51)]


class TestMemoryFake:
    def test_the_nth_call_fails(self) -> None:
        fs = MemoryFileSystem()
        fd = fs.open("/file", create=True)
        fs.fail("pwrite", nth=2)
        fs.pwrite(fd, b"one", 0)
        with pytest.raises(OSError):
            fs.pwrite(fd, b"two", 0)
        fs.pwrite(fd, b"six", 0)
        assert fs.pread(fd, 3, 0) == b"six"

    def test_locks_belong_to_processes(self) -> None:
        fs = MemoryFileSystem()
        other = fs.other_process()
        fd, other_fd = fs.open("/lock", create=True), other.open("/lock")
        assert fs.lock_byte(fd, 0)
        assert not other.lock_byte(other_fd, 0) and other.lock_byte(other_fd, 1)
        assert other.lock_holder(other_fd, 0) == fs.pid
        fs.close(fs.open("/lock"))  # closing any descriptor of the file drops the lock
        assert other.lock_byte(other_fd, 0)


def test_how_full_a_disk_without_space_is_cannot_be_said() -> None:
    assert DiskUsage(0, 0, 0).used_percent is None
    assert [DiskUsage(100, used, 100 - used).used_percent for used in (0, 1, 100)] == [0, 1, 100]
    assert DiskUsage(1000, 1, 999).used_percent == 1, "rounded up"


@pytest.mark.parametrize(
    ("kind", "pid", "holder"),
    [
        (fcntl.F_WRLCK, 7, 7),
        (fcntl.F_WRLCK, 1, 1),
        (fcntl.F_WRLCK, 0, None),  # on another machine
        (fcntl.F_WRLCK, -1, None),
        (fcntl.F_UNLCK, 7, None),
    ],
)
@pytest.mark.skipif(sys.platform == "darwin", reason="laid out as Linux does")
def test_the_holder_of_a_lock_is_a_process_of_this_machine(
    monkeypatch: pytest.MonkeyPatch, kind: int, pid: int, holder: int | None
) -> None:
    answered = struct.pack("@hhqqi", kind, 0, 0, 1, pid)
    monkeypatch.setattr("fcntl.fcntl", lambda fd, command, request: answered)
    assert FileSystem().lock_holder(3, 0) == holder
