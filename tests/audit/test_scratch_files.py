"""A scratch file reads as it was written, whatever of it its original stands for."""

import errno
import itertools
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakelog.audit import scratch_files
from wakelog.audit.same_bytes import same_bytes
from wakelog.audit.scratch_files import ScratchFileSystem, Spans, store_originals
from wakelog.storage.file_system import FileSystem
from wakelog.storage.paths import StorePaths

LENGTH = 4096 * 3
ORIGINAL = bytes(i // 7 % 251 for i in range(LENGTH))


def with_original(folder: Path, original: bytes = ORIGINAL) -> tuple[ScratchFileSystem, str, int]:
    """Return files of which one has a original, its path and descriptor."""
    path, original_path = str(folder / "made"), folder / "original"
    original_path.write_bytes(original)
    fs = ScratchFileSystem(lambda asked: str(original_path) if asked == path else None)
    fd = fs.open(path, create=True)
    fs.allocate(fd, LENGTH)
    return fs, path, fd


def test_files_are_holes(tmp_path: Path) -> None:
    fs = ScratchFileSystem()
    path = tmp_path / "file"
    fd = fs.open(str(path), create=True)
    fs.allocate(fd, 1 << 20)
    fs.allocate(fd, 10)
    fs.close(fd)
    assert path.stat().st_size == 1 << 20
    assert path.stat().st_blocks == 0


def test_what_the_original_has_takes_no_room(tmp_path: Path) -> None:
    fs, path, fd = with_original(tmp_path)
    fs.pwrite(fd, memoryview(ORIGINAL)[:5000], 0)
    fs.pwritev(fd, [ORIGINAL[5000:6000], ORIGINAL[6000:]], 5000)
    assert os.stat(path).st_blocks == 0
    assert fs.equals_original(path, str(tmp_path / "original"), LENGTH)
    assert not fs.equals_original(path, str(tmp_path / "other"), LENGTH)
    assert same_bytes(fs, str(tmp_path / "original"), path, LENGTH)
    assert os.stat(path).st_blocks == 0
    assert fs.pread(fd, LENGTH, 0) == ORIGINAL
    assert os.stat(path).st_blocks > 0
    fs.close(fd)


def test_equal_bytes_are_passed_on(tmp_path: Path) -> None:
    fs, path, fd = with_original(tmp_path)
    fs.pwrite(fd, ORIGINAL, 0)
    seen: list[bytes] = []
    assert same_bytes(
        fs, str(tmp_path / "original"), path, 5000, lambda piece: seen.append(bytes(piece))
    )
    assert b"".join(seen) == ORIGINAL[:5000]
    fs.close(fd)


WRITES = st.lists(
    st.tuples(
        st.integers(0, LENGTH - 1),
        st.integers(1, 5000),
        st.sampled_from(["original", "original", "zeros", "other"]),
    ),
    max_size=12,
)


@given(WRITES, st.integers(0, LENGTH), st.integers(0, 3000))
def test_it_reads_as_it_was_written(
    writes: list[tuple[int, int, str]], compared: int, missing: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        fs, path, fd = with_original(Path(folder), ORIGINAL[: LENGTH - missing])
        expected = bytearray(LENGTH)
        for position, length, kind in writes:
            end = min(position + length, LENGTH)
            data = {"original": ORIGINAL[position:end], "zeros": bytes(end - position)}.get(
                kind, b"\xfe" * (end - position)
            )
            fs.pwrite(fd, data, position)
            expected[position:end] = data
        original = ORIGINAL[: LENGTH - missing]
        is_same = len(original) >= compared and expected[:compared] == original[:compared]
        assert fs.equals_original(path, str(Path(folder, "original")), compared) == is_same
        again = fs.open(path, read_only=True)
        assert fs.pread(again, LENGTH, 0) == expected
        fs.close(again)
        fs.close(fd)
        assert Path(path).read_bytes() == expected


def test_a_original_that_ends_early_does_not_have_what_was_read_before(tmp_path: Path) -> None:
    piece = ORIGINAL[: LENGTH // 2]
    fs, _, fd = with_original(tmp_path, piece + piece[:50])
    fs.pwrite(fd, piece, 0)
    fs.pwrite(fd, piece, len(piece))
    assert fs.pread(fd, LENGTH, 0) == piece + piece
    fs.close(fd)


def test_a_original_that_ends_early_is_none_of_as_many_bytes(tmp_path: Path) -> None:
    fs, path, fd = with_original(tmp_path, ORIGINAL[:4096])
    fs.pwrite(fd, ORIGINAL[:4096], 0)
    assert fs.equals_original(path, str(tmp_path / "original"), 4096)
    assert not fs.equals_original(path, str(tmp_path / "original"), 4097)
    fs.close(fd)


def test_what_is_cut_is_not_the_originals_any_more(tmp_path: Path) -> None:
    fs, _, fd = with_original(tmp_path)
    fs.pwrite(fd, ORIGINAL, 0)
    fs.truncate(fd, 100)
    fs.truncate(fd, LENGTH)
    assert fs.pread(fd, LENGTH, 0) == ORIGINAL[:100] + bytes(LENGTH - 100)
    fs.close(fd)


def test_a_write_extends_the_file(tmp_path: Path) -> None:
    fs, _, fd = with_original(tmp_path)
    fs.truncate(fd, 10)
    fs.pwrite(fd, ORIGINAL, 0)
    assert fs.size(fd) == LENGTH
    fs.close(fd)


def test_a_file_in_whose_place_another_comes_has_no_original(tmp_path: Path) -> None:
    fs, path, fd = with_original(tmp_path)
    fs.pwrite(fd, ORIGINAL, 0)
    fs.close(fd)
    (tmp_path / "new").write_bytes(b"new".ljust(LENGTH))
    fs.rename(str(tmp_path / "new"), path)
    fd = fs.open(path)
    assert fs.pread(fd, LENGTH, 0) == b"new".ljust(LENGTH)
    fs.close(fd)


def test_a_file_with_another_name_is_whole(tmp_path: Path) -> None:
    fs, path, fd = with_original(tmp_path)
    fs.pwrite(fd, ORIGINAL, 0)
    fs.close(fd)
    fs.rename(path, str(tmp_path / "renamed"))
    assert (tmp_path / "renamed").read_bytes() == ORIGINAL
    fs.unlink(str(tmp_path / "renamed"))


def test_a_file_that_is_made_again_is_another(tmp_path: Path) -> None:
    fs, path, fd = with_original(tmp_path)
    fs.pwrite(fd, ORIGINAL, 0)
    fs.close(fd)
    fs.unlink(path)
    fd = fs.open(path, create=True)
    fs.allocate(fd, LENGTH)
    assert fs.pread(fd, LENGTH, 0) == bytes(LENGTH)
    fs.close(fd)


def test_a_descriptor_that_is_closed_is_of_no_original(tmp_path: Path) -> None:
    """Its number comes again, with another file."""
    fs, _, fd = with_original(tmp_path)
    assert fd in fs._by_fd
    fs.close(fd)
    assert not fs._by_fd


def test_a_file_that_is_only_read_needs_no_original(tmp_path: Path) -> None:
    """Twins of the index are given out one after the other."""
    (tmp_path / "file").touch()
    asked: list[str] = []
    fs = ScratchFileSystem(asked.append)
    fs.close(fs.open(str(tmp_path / "file"), read_only=True))
    assert asked == []


class Unreadable(FileSystem):
    """A disk that gives nothing."""

    def pread_into(self, fd: int, buffer: bytearray | memoryview, position: int) -> int:
        raise OSError(errno.EIO, "Input/output error")


def test_a_original_that_the_disk_does_not_give_has_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs, path, fd = with_original(tmp_path)
    monkeypatch.setattr(scratch_files, "_FILES", Unreadable())
    fs.pwrite(fd, ORIGINAL, 0)
    fs.close(fd)
    assert Path(path).read_bytes() == ORIGINAL


@pytest.mark.parametrize("kind", ["missing", "directory"])
def test_a_original_that_is_no_file_is_none(tmp_path: Path, kind: str) -> None:
    made, store = StorePaths(str(tmp_path / "made")), StorePaths(str(tmp_path / "store"))
    queue = Path(store.consume_queue("t", 0))
    if kind == "directory":
        (queue / ("0" * 20)).mkdir(parents=True)
    original_of = store_originals(ScratchFileSystem(), made, store)
    assert original_of(f"{made.consume_queue('t', 0)}/{0:020d}") is None


def test_files_of_the_index_follow_one_another(tmp_path: Path) -> None:
    made, store = StorePaths(str(tmp_path / "made")), StorePaths(str(tmp_path / "store"))
    index = Path(store.index_directory)
    index.mkdir(parents=True)
    names = ["20260101000000000", "20260101000000001"]
    for name in names:
        (index / name).touch()
    original_of = store_originals(ScratchFileSystem(), made, store)
    asked = [original_of(f"{made.index_directory}/2027{i:013d}") for i in range(3)]
    assert asked == [str(index / names[0]), str(index / names[1]), None]
    assert original_of(f"{made.root}/wakelog.new.reput") is None


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30), st.integers(1, 10)), max_size=20))
def test_spans_are_those_of_a_set(steps: list[tuple[bool, int, int]]) -> None:
    spans, places = Spans(), set[int]()
    for is_added, begin, length in steps:
        if is_added:
            spans.add(begin, begin + length)
            places |= set(range(begin, begin + length))
        else:
            spans.remove(begin, begin + length)
            places -= set(range(begin, begin + length))
    found = list(spans)
    assert {place for begin, end in found for place in range(begin, end)} == places
    assert all(one[1] < other[0] for one, other in itertools.pairwise(found))
    gaps = {place for begin, end in spans.gaps(25) for place in range(begin, end)}
    assert gaps == set(range(25)) - places
