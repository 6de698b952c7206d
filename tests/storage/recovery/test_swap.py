"""Folders change places in renames that can be done the other way round."""

from __future__ import annotations

from pathlib import Path

import pytest

from wakelog.storage.errors import StoreFailed
from wakelog.storage.file_system import RealFileSystem
from wakelog.storage.paths import StorePaths
from wakelog.storage.recovery.swap import Move, swap_in, undo

FS = RealFileSystem()
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
        # Entries without their units are made up for, units without entries are nobody's.
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


def test_a_refused_rename_names_its_place(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match="nowhere"):
        undo(FS, [Move(str(tmp_path / "index"), str(tmp_path / "nowhere"))])
