"""Files are complete or absent, and are removed with their range."""

import errno

import pyarrow as pa
import pytest

from tests.fakes.logs import write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.spark.side_files.folder import UNFINISHED, SideFolder, Span, parse_file_name
from wakelog.storage.errors import IllegalName

ROOT = "/store/wakelog.parquet"
TABLE = pa.table({"commitLogOffset": [1]})


def folder_of(fs: MemoryFileSystem) -> SideFolder:
    folder = SideFolder(fs, ROOT)
    folder.open()
    return folder


def names(fs: MemoryFileSystem, topic: str) -> list[str]:
    return fs.list_directory(f"{ROOT}/{topic}")


def test_a_name_says_its_range() -> None:
    span = Span(7, 1 << 40)
    assert span.file_name == "00000000000000000007-00000001099511627776.parquet"
    assert parse_file_name(span.file_name) == span
    assert parse_file_name(UNFINISHED) is None
    assert parse_file_name("part-0.parquet") is None


def test_files_are_found_again(fs: MemoryFileSystem) -> None:
    folder = folder_of(fs)
    assert folder.add(Span(0, 10), {"a": TABLE, "b": TABLE}) > 0
    folder.add(Span(10, 30), {"b": TABLE})
    folder.add(Span(30, 40), {})
    again = folder_of(fs)
    assert again.files_count == folder.files_count == 3
    assert (again.whole_below(40), again.whole_below(30), again.whole_below(29)) == (40, 30, 10)


def test_a_cut_removes_whole_files_and_empty_folders(fs: MemoryFileSystem) -> None:
    folder = folder_of(fs)
    folder.add(Span(0, 10), {"a": TABLE})
    folder.add(Span(10, 30), {"a": TABLE, "b": TABLE})
    assert folder.cut(10) == 2
    assert fs.list_directory(ROOT) == ["a"]
    assert names(fs, "a") == [Span(0, 10).file_name]
    assert folder.remove_before(9) == 0
    assert folder.remove_before(10) == 1
    assert fs.list_directory(ROOT) == []


@pytest.mark.parametrize("operation", ["pwrite", "sync", "rename", "sync_directory"])
@pytest.mark.parametrize("nth", [1, 2])
def test_a_failed_write_leaves_no_files(fs: MemoryFileSystem, operation: str, nth: int) -> None:
    folder = folder_of(fs)
    folder.add(Span(0, 10), {"a": TABLE, "b": TABLE})
    fs.fail(operation, nth=nth, number=errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        folder.add(Span(10, 20), {"a": TABLE, "b": TABLE})
    assert folder.files_count == 2
    folder.add(Span(10, 30), {"b": TABLE})
    assert names(fs, "a") == [Span(0, 10).file_name]
    assert names(fs, "b") == [Span(0, 10).file_name, Span(10, 30).file_name]


def test_unfinished_files_are_removed_and_unknown_names_stay(fs: MemoryFileSystem) -> None:
    folder_of(fs).add(Span(0, 10), {"a": TABLE})
    for name in (f"a/{UNFINISHED}", "a/mine.parquet", "not.a.topic/x"):
        fs.make_directories(f"{ROOT}/{name}".rsplit("/", 1)[0])
        write_file(fs, f"{ROOT}/{name}", b"x")
    write_file(fs, f"{ROOT}/file", b"x")
    assert folder_of(fs).files_count == 1
    assert names(fs, "a") == [Span(0, 10).file_name, "mine.parquet"]
    assert names(fs, "not.a.topic") == ["x"]


@pytest.mark.parametrize("topic", ["", "..", "a/b", "/etc"])
def test_no_topic_leads_elsewhere(fs: MemoryFileSystem, topic: str) -> None:
    with pytest.raises(IllegalName):
        folder_of(fs).add(Span(0, 10), {topic: TABLE})
