"""Links that keep a 4.9.3 broker out while we run, and are nothing once we are gone.

That the real broker is refused by them is for `tests/compat/test_store_lock.py`.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.storage.durability.config_files import ConfigFiles
from wakelog.storage.durability.start_guard import StartGuard
from wakelog.storage.durability.store_lock import StoreLock
from wakelog.storage.errors import StoreFailed
from wakelog.storage.file_system import FileSystem
from wakelog.storage.paths import StorePaths

NAMES = ("consumerFilter.json", "consumerFilter.json.bak")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Make the directory of a store's configuration files."""
    path = tmp_path / "config"
    path.mkdir()
    return path


@pytest.fixture
def lock(config: Path) -> Iterator[StoreLock]:
    """Hold the lock of that store."""
    held = StoreLock(FileSystem(), paths_of(config).lock)
    yield held
    held.release()


def paths_of(config: Path) -> StorePaths:
    return StorePaths(str(config.parent))


def test_both_files_read_as_what_is_no_json(config: Path, lock: StoreLock) -> None:
    guard = StartGuard(FileSystem(), paths_of(config), lock)
    assert [(config / name).read_text() for name in NAMES] == ["wake", "wake"]
    guard.remove()
    assert os.listdir(config) == []


def test_what_was_there_is_put_back(config: Path, lock: StoreLock) -> None:
    for name in NAMES:
        (config / name).write_text(f"{{}} {name}")
    guard = StartGuard(FileSystem(), paths_of(config), lock)
    assert [(config / name).read_text() for name in NAMES] == ["wake", "wake"]
    guard.remove()
    assert {name: (config / name).read_text() for name in os.listdir(config)} == {
        name: f"{{}} {name}" for name in NAMES
    }


def test_what_is_written_to_the_kept_file_is_there_after_the_stop(
    config: Path, lock: StoreLock
) -> None:
    guard = StartGuard(FileSystem(), paths_of(config), lock)
    files = ConfigFiles(FileSystem(), paths_of(config).config)
    for text in ("{} older", "{} newer"):
        files.save(guard.kept[NAMES[0]], text)
    guard.remove()
    assert sorted(os.listdir(config)) == list(NAMES)
    assert [(config / name).read_text() for name in NAMES] == ["{} newer", "{} older"]


def test_what_a_refused_broker_writes_is_replaced_and_not_kept(
    config: Path, lock: StoreLock
) -> None:
    (config / NAMES[0]).write_text("{} first")
    guard = StartGuard(FileSystem(), paths_of(config), lock)
    (config / NAMES[0]).unlink()
    (config / NAMES[0]).write_text("{}")
    guard.renew()
    assert [(config / name).read_text() for name in NAMES] == ["wake", "wake"]
    guard.remove()
    assert (config / NAMES[0]).read_text() == "{} first"


def test_after_a_death_both_files_are_absent_and_the_next_start_has_what_was_kept(
    config: Path,
) -> None:
    (config / NAMES[0]).write_text("{} first")
    program = """
import os, sys
from wakelog.storage.file_system import FileSystem
from wakelog.storage.paths import StorePaths
from wakelog.storage.durability.start_guard import StartGuard
from wakelog.storage.durability.store_lock import StoreLock
fs, paths = FileSystem(), StorePaths(sys.argv[1])
StartGuard(fs, paths, StoreLock(fs, paths.lock))
assert os.path.exists(paths.config("consumerFilter.json"))
os.kill(os.getpid(), 9)
"""
    outcome = subprocess.run([sys.executable, "-c", program, str(config.parent)], check=False)
    assert outcome.returncode == -9
    assert [(config / name).exists() for name in NAMES] == [False, False]
    lock = StoreLock(FileSystem(), paths_of(config).lock)
    StartGuard(FileSystem(), paths_of(config), lock).remove()
    lock.release()
    assert (config / NAMES[0]).read_text() == "{} first"


def test_a_system_without_such_links_does_without() -> None:
    fs = MemoryFileSystem()
    paths = StorePaths("/store")
    lock = StoreLock(fs, paths.lock)
    guard = StartGuard(fs, paths, lock)
    guard.renew()
    guard.remove()
    assert not fs.exists(paths.config_directory)


def test_a_directory_that_refuses_is_a_failure_of_the_store(config: Path, lock: StoreLock) -> None:
    guard = StartGuard(FileSystem(), paths_of(config), lock)
    guard.remove()
    config.rmdir()
    with pytest.raises(StoreFailed, match="guard"):
        guard.renew()
