"""What a deployment in one process leaves in the temporary directory: nothing, in the end."""

import os
from pathlib import Path

import pytest

from wakelog.actors.deploy.runtime_directory import (
    LOCK_NAME,
    PREFIX,
    YOUNG_SECONDS,
    RuntimeDirectory,
)


def make_old(path: Path) -> None:
    long_ago = path.stat().st_mtime - 2 * YOUNG_SECONDS
    os.utime(path, (long_ago, long_ago))


def leave(parent: Path, *files: str) -> Path:
    """Make the directory of a process that is gone."""
    path = parent / f"{PREFIX}gone"
    path.mkdir()
    for name in files:
        (path / name).write_text("")
    make_old(path)
    return path


def test_remove_deletes_the_directory(tmp_path: Path) -> None:
    directory = RuntimeDirectory(tmp_path)
    (directory.path / "broker-a").mkdir()
    directory.remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("files", [(LOCK_NAME, "words"), ("words",), ()])
def test_the_directory_of_a_dead_process_is_removed(tmp_path: Path, files: tuple[str, ...]) -> None:
    left = leave(tmp_path, *files)
    directory = RuntimeDirectory(tmp_path)
    assert not left.exists()
    directory.remove()


def test_the_directory_of_a_living_process_stays(tmp_path: Path) -> None:
    first = RuntimeDirectory(tmp_path)
    make_old(first.path)
    second = RuntimeDirectory(tmp_path)
    assert first.path.exists()
    first.remove()
    second.remove()


def test_a_young_directory_stays(tmp_path: Path) -> None:
    young = tmp_path / f"{PREFIX}young"
    young.mkdir()
    RuntimeDirectory(tmp_path).remove()
    assert young.exists()


def test_the_directory_of_another_user_stays(tmp_path: Path) -> None:
    others = tmp_path / "wakelog-of-ray"
    others.mkdir()
    make_old(others)
    RuntimeDirectory(tmp_path).remove()
    assert others.exists()
