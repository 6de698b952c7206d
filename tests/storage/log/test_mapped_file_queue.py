"""Files in sequence: what loads, what is damage, both ends cut durably."""

import errno

import pytest

from tests.fakes.logs import read_file, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.storage.errors import DamagedStore, StoreFailed
from wakelog.storage.file_system import DiskUsage
from wakelog.storage.log.mapped_file_queue import GAP_FILES_MAX, LoadReport, MappedFileQueue
from wakelog.storage.paths import offset_name

SIZE = 100


def make(fs: MemoryFileSystem, *offsets: int, directory: str = "/q", fill: bytes = b"x") -> None:
    for offset in offsets:
        write_file(fs, f"{directory}/{offset_name(offset)}", fill * SIZE)


def queue(fs: MemoryFileSystem, *directories: str) -> MappedFileQueue:
    return MappedFileQueue(fs, directories or ("/q",), SIZE)


def loaded(fs: MemoryFileSystem, *offsets: int) -> MappedFileQueue:
    """Make files at these offsets, and return them as a queue."""
    make(fs, *offsets)
    files = queue(fs)
    files.load()
    return files


def starts(files: MappedFileQueue) -> list[int]:
    return [file.start_offset for file in files.files]


def test_a_missing_directory_is_an_empty_queue(fs: MemoryFileSystem) -> None:
    files = queue(fs)
    report = files.load()
    assert (report.short_last, report.gap_after) == (None, None)
    assert (files.first, files.last, files.min_offset, files.max_file_end) == (None, None, 0, 0)
    assert files.find(0) is None


def test_files_are_found_by_offset(fs: MemoryFileSystem) -> None:
    files = loaded(fs, 300, 100, 200)
    assert starts(files) == [100, 200, 300]
    assert (files.min_offset, files.max_file_end) == (100, 400)
    for offset, start in [(100, 100), (199, 100), (200, 200), (399, 300)]:
        file = files.find(offset)
        assert file is not None and file.start_offset == start
    assert files.find(99) is None and files.find(400) is None and files.find(-1) is None


def test_unknown_names_are_left_alone(fs: MemoryFileSystem) -> None:
    make(fs, 0)
    write_file(fs, "/q/notes.txt", b"?")
    fs.make_directories("/q/" + offset_name(100))
    files = queue(fs)
    assert files.load() == LoadReport()
    assert starts(files) == [0]
    assert fs.list_directory("/q") == [offset_name(0), offset_name(100), "notes.txt"]


@pytest.mark.parametrize("length", [0, 1, SIZE - 1])
def test_a_short_last_file_is_reported_and_can_be_completed(
    fs: MemoryFileSystem, length: int
) -> None:
    make(fs, 0)
    write_file(fs, "/q/" + offset_name(100), b"y" * length)
    files = queue(fs)
    report = files.load()
    assert report.short_last == "/q/" + offset_name(100)
    assert starts(files) == [0]
    fs.calls.clear()
    files.extend_short_last(report.short_last)
    assert fs.calls["sync"] == 1
    assert read_file(fs, report.short_last) == b"y" * length + bytes(SIZE - length)
    assert starts(files) == [0, 100]


@pytest.mark.parametrize(("offset", "length"), [(0, 50), (0, 150), (100, 150)])
def test_other_lengths_are_damage(fs: MemoryFileSystem, offset: int, length: int) -> None:
    make(fs, 0, 100)
    path = "/q/" + offset_name(offset)
    write_file(fs, path, bytes(length))
    with pytest.raises(DamagedStore, match=str(length)) as caught:
        queue(fs).load()
    assert caught.value.path == path


def test_an_offset_that_no_file_can_start_at_is_damage(fs: MemoryFileSystem) -> None:
    make(fs, 0, 150)
    with pytest.raises(DamagedStore, match="multiple"):
        queue(fs).load()


def test_what_lies_beyond_a_gap_is_left_out(fs: MemoryFileSystem) -> None:
    make(fs, 100, 200, 400, 500)
    files = queue(fs)
    report = files.load()
    assert report.gap_after == 300
    assert report.beyond_gap == ("/q/" + offset_name(400), "/q/" + offset_name(500))
    assert starts(files) == [100, 200]


def test_a_reader_continues_after_files_that_are_missing_in_front_of_written_ones(
    fs: MemoryFileSystem,
) -> None:
    make(fs, 100, 400)
    make(fs, 600, fill=b"\0")
    files = MappedFileQueue(fs, ("/q",), SIZE, bridges_gaps=True)
    assert files.refresh()
    assert starts(files) == [100, 200, 300, 400]
    assert [file.is_missing for file in files.files] == [False, True, True, False]
    assert not files.refresh()
    make(fs, 200)
    assert files.refresh()
    assert [file.is_missing for file in files.files] == [False, False, True, False]
    fs.unlink("/q/" + offset_name(100))
    assert files.refresh()
    assert starts(files) == [200, 300, 400]
    assert files.remove_before(300) == ["/q/" + offset_name(200)]
    assert files.remove_before(400) == ["/q/" + offset_name(300)]
    assert starts(files) == [400]
    fs.fail("pread")
    make(fs, 700)
    with pytest.raises(StoreFailed):
        files.refresh()


@pytest.mark.parametrize("gap_count", [GAP_FILES_MAX, GAP_FILES_MAX + 1, (1 << 62) // SIZE])
def test_a_gap_that_no_log_can_have_is_not_bridged(fs: MemoryFileSystem, gap_count: int) -> None:
    far = SIZE * (1 + gap_count)
    make(fs, 0, far)
    files = MappedFileQueue(fs, ("/q",), SIZE, bridges_gaps=True)
    files.refresh()
    if gap_count == GAP_FILES_MAX:
        assert files.missing_stretches() == [(SIZE, far)]
        assert files.load(bridge=True).gap_after is None
    else:
        assert starts(files) == [0]
        with pytest.raises(DamagedStore, match="from 100 on"):
            files.load(bridge=True)


def test_two_directories_must_not_hold_the_same_file(fs: MemoryFileSystem) -> None:
    make(fs, 0)
    make(fs, 0, directory="/p")
    with pytest.raises(DamagedStore):
        queue(fs, "/p", "/q").load()


def test_new_files_go_round_the_writeable_directories(fs: MemoryFileSystem) -> None:
    files = MappedFileQueue(fs, ("/a", "/b", "/c"), SIZE, read_only_directories=("/b",))
    placed = [files.path_for(offset).split("/")[1] for offset in (0, 100, 200, 300)]
    assert placed == ["a", "c", "a", "c"]
    make(fs, 0, directory="/b")
    make(fs, 100, directory="/c")
    files.load()
    assert starts(files) == [0, 100]


class Disks(MemoryFileSystem):
    """A disk for each folder of the root, filled to so many percent."""

    def __init__(self, **percents: int) -> None:
        super().__init__()
        self.percents = percents

    def disk_usage(self, path: str) -> DiskUsage:
        if path.split("/")[1] not in self.percents:
            raise FileNotFoundError(errno.ENOENT, "no such folder", path)
        percent = self.percents[path.split("/")[1]]
        return DiskUsage(100, percent, 100 - percent)


@pytest.mark.parametrize(
    ("percents", "placed"),
    [
        ({"a": 85, "b": 0}, "ababa"),  # nearly full begins above that
        ({"a": 86, "b": 85}, "bbbbb"),
        ({"a": 86, "b": 99}, "ababa"),  # nowhere is room
        ({"a": 86}, "bbbbb"),  # of the other one nothing is known
    ],
)
def test_a_directory_without_room_gets_no_new_file_while_another_has_some(
    percents: dict[str, int], placed: str
) -> None:
    files = queue(Disks(**percents), "/a", "/b")
    assert "".join(files.path_for(n * SIZE).split("/")[1] for n in range(5)) == placed


def test_a_file_stays_where_it_is_to_be_or_lies_already() -> None:
    disks = Disks(a=86, b=0)
    files = queue(disks, "/a", "/b")
    asked = files.path_for(0)
    disks.percents = {"a": 0, "b": 86}
    assert files.path_for(0) == asked == f"/b/{offset_name(0)}"
    assert files.path_for(SIZE).startswith("/a/")
    make(disks, 0, directory="/b")
    assert queue(disks, "/a", "/b").path_for(0) == asked  # as another process is told


def test_refresh_follows_another_process(fs: MemoryFileSystem) -> None:
    files = loaded(fs, 0, 100)
    assert not files.refresh()
    make(fs, 200)
    write_file(fs, "/q/" + offset_name(300), b"half")
    fs.unlink("/q/" + offset_name(0))
    assert files.refresh()
    assert starts(files) == [100, 200]
    make(fs, 300)
    assert files.refresh()
    assert starts(files) == [100, 200, 300]


def test_refresh_follows_a_file_to_another_directory(fs: MemoryFileSystem) -> None:
    make(fs, 0, 100, directory="/p")
    files = queue(fs, "/p", "/q")
    files.load()
    fs.make_directories("/q")
    fs.rename("/p/" + offset_name(100), "/q/" + offset_name(100))
    assert files.refresh()
    assert [file.path[:2] for file in files.files] == ["/p", "/q"]


def test_refresh_keeps_what_it_has_where_a_far_older_file_comes_back(fs: MemoryFileSystem) -> None:
    files = loaded(fs, 300, 400)
    make(fs, 0)
    assert not files.refresh()
    assert starts(files) == [300, 400]


def test_refresh_closes_what_is_gone(fs: MemoryFileSystem) -> None:
    files = loaded(fs, 0, 100)
    for file in files.files:
        assert file.fd > 0
    fs.unlink("/q/" + offset_name(0))
    files.refresh()
    assert fs.descriptor_count == 1
    files.close()
    assert fs.descriptor_count == 0


def test_a_reader_during_a_refresh_sees_all_earlier_files() -> None:
    class Watched(MemoryFileSystem):
        def open(self, path: str, *, create: bool = False, read_only: bool = False) -> int:
            seen.append(starts(files))
            return super().open(path, create=create, read_only=read_only)

    seen: list[list[int]] = []
    fs = Watched()
    files = MappedFileQueue(fs, ["/q"], SIZE, read_only=True, bridges_gaps=True)
    make(fs, 0, 200)
    assert files.refresh()
    make(fs, 300)
    seen.clear()
    assert files.refresh()
    assert seen and all(each == [0, 100, 200] for each in seen)
    assert starts(files) == [0, 100, 200, 300]


def test_refresh_starts_over_when_everything_was_replaced(fs: MemoryFileSystem) -> None:
    files = loaded(fs, 0)
    fs.unlink("/q/" + offset_name(0))
    make(fs, 500, 600)
    assert files.refresh()
    assert starts(files) == [500, 600]


def test_truncate_zeros_the_tail_and_removes_what_follows(fs: MemoryFileSystem) -> None:
    files = loaded(fs, 0, 100, 200, 300)
    synced, names_synced = fs.calls["datasync"], fs.calls["sync_directory"]
    assert files.truncate(130) == ["/q/" + offset_name(300), "/q/" + offset_name(200)]
    assert fs.calls["sync_directory"] == names_synced + 2
    assert starts(files) == [0, 100]
    assert read_file(fs, "/q/" + offset_name(100)) == b"x" * 30 + bytes(70)
    assert fs.calls["datasync"] == synced + 1
    writes = fs.calls["pwrite"]
    assert files.truncate(130) == []  # again, it changes nothing
    assert fs.calls["pwrite"] == writes


def test_truncate_at_a_border_keeps_the_file_before(fs: MemoryFileSystem) -> None:
    files = loaded(fs, 0, 100)
    assert files.truncate(100) == ["/q/" + offset_name(100)]
    assert read_file(fs, "/q/" + offset_name(0)) == b"x" * 100
    assert files.truncate(0) == ["/q/" + offset_name(0)]
    assert fs.list_directory("/q") == []


def test_truncate_keeps_an_empty_file_where_the_sequence_goes_on(fs: MemoryFileSystem) -> None:
    files = loaded(fs, 0, 100, 200)
    assert files.truncate(100, keep_empty=True) == ["/q/" + offset_name(200)]
    assert starts(files) == [0, 100]
    assert read_file(fs, "/q/" + offset_name(100)) == bytes(100)


def test_a_large_tail_is_zeroed_in_pieces(fs: MemoryFileSystem) -> None:
    size = 3 << 20
    write_file(
        fs, "/q/" + offset_name(0), b"x" * 10 + bytes(1 << 20) + b"y" * (size - (1 << 20) - 10)
    )
    files = MappedFileQueue(fs, ("/q",), size)
    files.load()
    files.truncate(10)
    assert read_file(fs, "/q/" + offset_name(0)) == b"x" * 10 + bytes(size - 10)


def test_a_failed_truncation_says_so(fs: MemoryFileSystem) -> None:
    files = loaded(fs, 0)
    fs.fail("datasync", number=errno.EIO)
    with pytest.raises(StoreFailed, match="truncate"):
        files.truncate(50)


def test_the_oldest_files_go_and_the_last_one_stays(fs: MemoryFileSystem) -> None:
    files = loaded(fs, 0, 100, 200)
    assert files.remove_before(199) == ["/q/" + offset_name(0)]
    fs.unlink("/q/" + offset_name(100))  # one that is gone is no error
    assert files.remove_before(10_000) == ["/q/" + offset_name(100)]
    assert starts(files) == [200]
    assert fs.list_directory("/q") == [offset_name(200)]
    assert files.truncate(0) == ["/q/" + offset_name(200)]


def test_files_that_retention_removed_are_forgotten(fs: MemoryFileSystem) -> None:
    files = loaded(fs, 0, 100, 200)
    fs.unlink("/q/" + offset_name(0))
    files.forget_before(150)
    assert starts(files) == [100, 200]
    assert files.remove_before(0) == []


def test_a_file_is_added_after_the_last(fs: MemoryFileSystem) -> None:
    files = loaded(fs, 0)
    make(fs, 100)
    assert files.add("/q/" + offset_name(100), 100).end_offset == 200
    with pytest.raises(AssertionError):
        files.add("/q/" + offset_name(300), 300)
