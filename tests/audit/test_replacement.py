"""Folders change places in renames that can be done the other way round."""

import errno
from pathlib import Path
from posixpath import dirname

import pytest

from wakelog.audit.operator import Move
from wakelog.audit.replacement import swap_in, undo
from wakelog.storage.durability.dispatched import DispatchedFile, IndexEnd, read_dispatched
from wakelog.storage.errors import StoreFailed
from wakelog.storage.file_system import FileSystem
from wakelog.storage.paths import StorePaths

FS = FileSystem()
FOLDERS = ("consumequeue_ext", "consumequeue", "index")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    for root, text in ((tmp_path, "old"), (tmp_path / "wakelog.rebuild", "new")):
        for folder in FOLDERS:
            (root / folder).mkdir(parents=True)
            (root / folder / "file").write_text(text)
    return tmp_path


def paths_of(directory: Path) -> StorePaths:
    return StorePaths(str(directory))


def texts(root: Path) -> list[str]:
    return [(root / folder / "file").read_text() for folder in FOLDERS]


def test_the_new_is_in_place_and_the_old_is_kept(store: Path) -> None:
    moves = swap_in(FS, paths_of(store), paths_of(store / "wakelog.rebuild"), 5)
    assert len(moves) == 6
    assert texts(store) == ["new", "new", "new"]
    assert texts(store / "wakelog.quarantine" / "replaced.5") == ["old", "old", "old"]


def test_undo_puts_everything_back(store: Path) -> None:
    undo(FS, swap_in(FS, paths_of(store), paths_of(store / "wakelog.rebuild"), 5))
    assert texts(store) == ["old", "old", "old"]
    assert texts(store / "wakelog.rebuild") == ["new", "new", "new"]


def test_no_queue_points_to_units_of_another(store: Path) -> None:
    moves = swap_in(FS, paths_of(store), paths_of(store / "wakelog.rebuild"), 5)
    for done in range(1, len(moves)):
        undo(FS, moves[-1:])
        moves.pop()
        # Missing units are made up for; units without entries are of no use.
        assert not (store / "consumequeue_ext").exists() or (store / "consumequeue").exists(), done
        found = [store / folder / "file" for folder in FOLDERS[:2]]
        texts_there = {path.read_text() for path in found if path.exists()}
        assert len(texts_there) <= 1, done


def test_what_is_not_there_is_not_moved(store: Path) -> None:
    nothing = paths_of(store / "nothing")
    kept = store / "wakelog.quarantine" / "replaced.5"
    assert swap_in(FS, paths_of(store), nothing, 5) == [
        Move(str(store / folder), str(kept / folder)) for folder in FOLDERS
    ]
    assert swap_in(FS, paths_of(store), nothing, 6) == []


class Failing(FileSystem):
    """The nth call of one operation fails."""

    __slots__ = ("_calls", "_nth", "_operation")

    def __init__(self, operation: str, nth: int) -> None:
        super().__init__()
        self._operation, self._nth, self._calls = operation, nth, 0

    def rename(self, source: str, target: str) -> None:
        self._count("rename")
        super().rename(source, target)

    def sync_directory(self, path: str) -> None:
        self._count("sync_directory")
        super().sync_directory(path)

    def _count(self, operation: str) -> None:
        self._calls += operation == self._operation
        if operation == self._operation and self._calls == self._nth:
            raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize("nth", range(1, 7))
@pytest.mark.parametrize("operation", ["rename", "sync_directory"])
def test_what_fails_half_way_is_taken_back(store: Path, operation: str, nth: int) -> None:
    """A start rebuilds queues, but not units that alone are gone."""
    rebuilt = store / "wakelog.rebuild"
    with pytest.raises(StoreFailed, match="Input/output"):
        swap_in(Failing(operation, nth), paths_of(store), paths_of(rebuilt), 5)
    assert texts(store) == ["old", "old", "old"]
    assert texts(rebuilt) == ["new", "new", "new"]


class OneByOne(FileSystem):
    """Refuses a rename while the names that the one before has changed are not durable."""

    __slots__ = ("unsynced",)

    def __init__(self) -> None:
        super().__init__()
        self.unsynced: set[str] = set()

    def rename(self, source: str, target: str) -> None:
        assert not self.unsynced
        super().rename(source, target)
        self.unsynced |= {dirname(source), dirname(target)}

    def sync_directory(self, path: str) -> None:
        super().sync_directory(path)
        self.unsynced.discard(path)


def test_each_rename_is_durable_before_the_next(store: Path) -> None:
    fs = OneByOne()
    moves = swap_in(fs, paths_of(store), paths_of(store / "wakelog.rebuild"), 5)
    assert not fs.unsynced
    undo(fs, moves)
    assert not fs.unsynced


def test_the_position_of_what_goes_is_forgotten_before_it_goes(store: Path) -> None:
    path = paths_of(store).dispatched
    file = DispatchedFile(FS, path)
    file.note(100, IndexEnd(1, 1))
    file.close()
    with pytest.raises(StoreFailed):
        swap_in(Failing("rename", 1), paths_of(store), paths_of(store / "wakelog.rebuild"), 5)
    assert read_dispatched(FS, path).physical_offset == 0


def test_a_refused_rename_names_its_place(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match="nowhere"):
        undo(FS, [Move(str(tmp_path / "index"), str(tmp_path / "nowhere"))])
