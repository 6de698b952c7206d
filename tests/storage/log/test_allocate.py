"""Segments are asked for ahead of need, and appear whole or not at all."""

import errno
from posixpath import dirname

import pytest

from tests.fakes.logs import read_file, small_config, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.storage.errors import DamagedStore, StoreFailed, StoreFull
from wakelog.storage.log.allocate import (
    Allocate,
    FilesAhead,
    InlineSegments,
    clean_unfinished,
    make_segment,
)
from wakelog.storage.log.commit_log_reader import commit_log_files
from wakelog.storage.paths import StorePaths, offset_name

SIZE = 4096
PATH = "/store/commitlog/" + offset_name(0)
UNFINISHED = "/store/wakelog.new.broker." + offset_name(0)


AHEAD = "/store/wakelog.new.broker.ahead"


def make(fs: MemoryFileSystem) -> bool:
    return make_segment(fs, PATH, SIZE, temporary_path=UNFINISHED)


def test_the_next_two_segments_are_asked_for_once() -> None:
    allocate = Allocate(100)
    assert allocate.step(0) == [100, 200]
    assert allocate.step(0) == []
    assert allocate.step(100) == [300]
    assert allocate.step(300) == [400, 500]


def test_a_failed_segment_is_asked_for_again() -> None:
    allocate = Allocate(100)
    allocate.step(0)
    allocate.failed(100)
    assert allocate.step(0) == [100]


@pytest.mark.parametrize("has_half", [False, True])
def test_a_segment_appears_whole(fs: MemoryFileSystem, has_half: bool) -> None:
    if has_half:
        write_file(fs, UNFINISHED, b"half made by one that died")
    fs.calls.clear()
    assert make(fs)
    assert read_file(fs, PATH) == bytes(SIZE)
    assert not fs.exists(UNFINISHED)
    assert fs.calls["sync"] == 1 and fs.calls["sync_directory"] == 1


def test_a_name_may_be_made_durable_later(fs: MemoryFileSystem) -> None:
    unsynced: list[str] = []
    make_segment(fs, PATH, SIZE, temporary_path=UNFINISHED, unsynced=unsynced)
    assert fs.calls["sync"] == 1 and fs.calls["sync_directory"] == 0
    assert unsynced[-1] == dirname(PATH)


def test_a_name_whose_sync_failed_is_synced_when_it_is_asked_for_again(
    fs: MemoryFileSystem,
) -> None:
    fs.make_directories("/store/commitlog")
    fs.fail("sync_directory")
    with pytest.raises(StoreFailed):
        make_segment(fs, PATH, 4096, temporary_path="/store/new")
    assert fs.exists(PATH)
    synced_count = fs.calls["sync_directory"]
    assert not make_segment(fs, PATH, 4096, temporary_path="/store/new")
    assert fs.calls["sync_directory"] == synced_count + 1


def test_making_it_again_keeps_what_was_written(fs: MemoryFileSystem) -> None:
    make(fs)
    write_file(fs, PATH, b"x" * SIZE)
    assert not make(fs)
    assert read_file(fs, PATH) == b"x" * SIZE


def test_a_maker_that_wakes_late_cannot_put_zeros_over_the_log(fs: MemoryFileSystem) -> None:
    class Overtaken(MemoryFileSystem):
        def rename_new(self, source: str, target: str) -> None:
            make_segment(fs, PATH, SIZE, temporary_path="/store/wakelog.new.other")
            write_file(fs, PATH, b"x" * SIZE)
            super().rename_new(source, target)

    late = Overtaken(fs.other_process()._disk)
    assert not make(late)
    assert read_file(fs, PATH) == b"x" * SIZE
    assert fs.list_directory("/store") == ["commitlog"]


@pytest.mark.parametrize("operation", ["truncate", "sync", "rename_new", "open"])
def test_a_failure_leaves_nothing_in_the_data_folder(fs: MemoryFileSystem, operation: str) -> None:
    fs.fail(operation, number=errno.ENOSPC)
    with pytest.raises(StoreFull):
        make(fs)
    assert fs.list_directory("/store/commitlog") == []
    assert not fs.exists(UNFINISHED)
    assert make(fs)
    assert fs.descriptor_count == 0


def test_a_file_of_another_length_is_not_taken(fs: MemoryFileSystem) -> None:
    write_file(fs, PATH, b"short")
    with pytest.raises(DamagedStore):
        make(fs)
    assert read_file(fs, PATH) == b"short"


def test_a_file_of_another_length_that_came_meanwhile_is_not_taken(fs: MemoryFileSystem) -> None:
    class Overtaken(MemoryFileSystem):
        def rename_new(self, source: str, target: str) -> None:
            write_file(fs, PATH, b"short")
            super().rename_new(source, target)

    with pytest.raises(DamagedStore):
        make(Overtaken(fs.other_process()._disk))
    assert read_file(fs, PATH) == b"short"


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EACCES])
def test_a_folder_on_a_disk_of_its_own_is_built_in(fs: MemoryFileSystem, number: int) -> None:
    fs.fail("rename_new", number=number)
    assert make(fs)
    assert read_file(fs, PATH) == bytes(SIZE)
    assert fs.list_directory("/store") == ["commitlog"]


def test_what_another_maker_began_there_is_kept(fs: MemoryFileSystem) -> None:
    class Overtaken(MemoryFileSystem):
        def rename_new(self, source: str, target: str) -> None:
            write_file(fs, PATH, b"x" * SIZE)
            raise OSError(errno.EXDEV, "on a disk of its own")

    make(Overtaken(fs.other_process()._disk))
    assert read_file(fs, PATH) == b"x" * SIZE


def test_only_the_owners_leftovers_are_cleaned(fs: MemoryFileSystem) -> None:
    paths = small_config().paths
    other = paths.new_file(PATH, "allocate")
    for path in (UNFINISHED, other, "/store/wakelog.store"):
        write_file(fs, path, b"x")
    assert clean_unfinished(fs, paths, "broker") == [UNFINISHED]
    assert fs.exists(other) and fs.exists("/store/wakelog.store")
    assert clean_unfinished(fs, paths, "broker") == []


def test_inline_segments_keep_the_reason_and_recover(fs: MemoryFileSystem) -> None:
    config = small_config()
    segments = InlineSegments(fs, config.paths, commit_log_files(fs, config), "broker")
    fs.fail("truncate", number=errno.ENOSPC)
    assert segments.take_segment(0) is None
    assert isinstance(segments.failure, StoreFull)
    assert segments.take_segment(0) == PATH
    assert segments.failure is None


def test_a_folder_that_cannot_be_listed_is_a_failure_of_the_store(fs: MemoryFileSystem) -> None:
    paths = small_config().paths
    fs.fail("list_directory", number=errno.EMFILE)
    with pytest.raises(StoreFailed, match="list"):
        clean_unfinished(fs, paths, "broker")


def test_a_file_made_ahead_needs_only_its_name(fs: MemoryFileSystem) -> None:
    ahead = FilesAhead(fs, AHEAD, SIZE, count=2)
    ahead.make()
    made_ahead = ahead.take_file()
    assert made_ahead is not None
    fs.calls.clear()
    assert make_segment(fs, PATH, SIZE, temporary_path=made_ahead, is_built=True, unsynced=[])
    assert fs.calls["sync"] == fs.calls["sync_directory"] == 0
    assert read_file(fs, PATH) == bytes(SIZE)
    assert not fs.exists(made_ahead)


def test_as_many_are_made_ahead_as_are_missing_under_new_names(fs: MemoryFileSystem) -> None:
    ahead = FilesAhead(fs, AHEAD, SIZE, count=2)
    assert ahead.take_file() is None
    ahead.make()
    taken = [ahead.take_file(), ahead.take_file(), ahead.take_file()]
    ahead.make()
    taken += [ahead.take_file()]
    assert taken == [f"{AHEAD}.0", f"{AHEAD}.1", None, f"{AHEAD}.2"]
    assert fs.calls["sync"] == 4


def test_files_that_are_made_together_are_synced_together(
    fs: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(fs, "sync_all", lambda fds: synced.append(len(fds)))
    ahead = FilesAhead(fs, AHEAD, SIZE, count=2)
    ahead.make_more(7)
    assert synced == [7]
    taken = [ahead.take_file() for _ in range(8)]
    assert taken == [*(f"{AHEAD}.{number}" for number in range(7)), None]
    assert all(read_file(fs, path) == bytes(SIZE) for path in taken if path)


def test_what_was_made_ahead_and_not_taken_goes(fs: MemoryFileSystem) -> None:
    ahead = FilesAhead(fs, AHEAD, SIZE, count=2)
    ahead.make()
    ahead.take_file()
    ahead.remove()
    assert fs.list_directory("/store") == ["wakelog.new.broker.ahead.0"]
    assert ahead.take_file() is None


def test_a_full_disk_leaves_nothing_made_ahead_in_part(fs: MemoryFileSystem) -> None:
    ahead = FilesAhead(fs, AHEAD, SIZE, count=2)
    fs.fail("truncate", nth=4, number=errno.ENOSPC)
    with pytest.raises(StoreFull):
        ahead.make()
    assert fs.list_directory("/store") == ["wakelog.new.broker.ahead.0"]
    fs.fail("truncate", nth=6, number=errno.ENOSPC)
    with pytest.raises(StoreFull):
        ahead.make_more(3)
    assert fs.list_directory("/store") == ["wakelog.new.broker.ahead.0"]
    ahead.make()
    assert fs.list_directory("/store") == [f"wakelog.new.broker.ahead.{n}" for n in (0, 5)]


def test_a_file_made_ahead_does_not_replace_one_that_is_there(fs: MemoryFileSystem) -> None:
    ahead = FilesAhead(fs, AHEAD, SIZE, count=1)
    ahead.make()
    made_ahead = ahead.take_file()
    assert made_ahead is not None
    fs.make_directories(dirname(PATH))
    write_file(fs, PATH, b"x" * SIZE)
    assert not make_segment(fs, PATH, SIZE, temporary_path=made_ahead, is_built=True)
    assert read_file(fs, PATH) == b"x" * SIZE


def test_another_store_beside_it_keeps_what_it_builds(fs: MemoryFileSystem) -> None:
    ours, theirs = StorePaths("/s", "/disk/log"), StorePaths("/t", "/disk/other")
    built = [
        paths.new_file(f"{paths.commit_log_directories[0]}/{offset_name(0)}", "broker")
        for paths in (ours, theirs)
    ]
    for path in built:
        write_file(fs, path, b"half made")
    assert clean_unfinished(fs, ours, "broker") == built[:1]
    assert fs.exists(built[1])
