"""A replica's log is set aside with all that was made of it, and an empty store is left."""

import errno
from pathlib import Path

import pytest

from tests.fakes.stores import put, store_config
from wakelog.audit import reseed
from wakelog.audit.reseed import set_log_aside
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.store_lock import StoreLock
from wakelog.storage.errors import StoreFailed, StoreLocked
from wakelog.storage.file_system import FileSystem
from wakelog.storage.message_store import MessageStore
from wakelog.storage.store_parts import OpenOptions

NOW_MS = 1_700_000_000_000
TABLES = {"topics.json": b"{}", "consumerOffset.json": b"{}"}


def open_store(config: StoreConfig) -> MessageStore:
    options = OpenOptions()
    return MessageStore.open(
        FileSystem(), config, NOW_MS, physical_memory_bytes=1 << 30, options=options
    )


@pytest.fixture
def config(tmp_path: Path) -> StoreConfig:
    """Return the configuration of a store with a log, a topic's queue and tables."""
    root = tmp_path / "store"
    found = store_config(store_path_root=str(root))
    store = open_store(found)
    put(store, *(b"x" * 900 for _ in range(10)))
    store.close(dispatch_behind_bytes=0)
    for folder in ("consumequeue/T/0", "consumequeue_ext/T/0", "index", "config"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "consumequeue/T/0/00000000000000000000").write_bytes(bytes(1000))
    for name, text in TABLES.items():
        (root / "config" / name).write_bytes(text)
    (root / "wakelog.store").write_text('{"storeId":"s","brokerName":"b"}')
    (root / "wakelog.epochs").write_bytes(b"epochs")
    (root / "wakelog.logs").mkdir()
    (root / "mine.txt").write_text("of somebody else")
    return found


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_what_is_left_is_an_empty_store_with_its_tables(config: StoreConfig) -> None:
    root = Path(config.store_path_root)
    before = content(root)
    moves = set_log_aside(config)
    [kept] = (root / "wakelog.quarantine").iterdir()
    assert kept.name.startswith("reseeded.")
    left = {name for name in content(root) if not name.startswith("wakelog.quarantine")}
    assert left == {"lock", "mine.txt", "wakelog.store", *(f"config/{name}" for name in TABLES)}
    aside = content(kept)
    assert {name: before[name] for name in aside} == aside
    assert aside.keys() == before.keys() - left
    assert {"wakelog.epochs", "commitlog/00000000000000000000"} <= aside.keys()
    assert Path(moves[-1].source).name == "commitlog"
    store = open_store(config)
    assert store.log.end_offset == 0
    store.close(dispatch_behind_bytes=0)


def test_a_log_on_another_disk_stays_on_it(config: StoreConfig, tmp_path: Path) -> None:
    root, elsewhere = Path(config.store_path_root), tmp_path / "disk" / "log"
    elsewhere.parent.mkdir()
    (root / "commitlog").rename(elsewhere)
    names = {path.name for path in elsewhere.iterdir()}
    set_log_aside(store_config(store_path_root=str(root), store_path_commit_log=str(elsewhere)))
    [kept] = (tmp_path / "disk" / "wakelog.quarantine").iterdir()
    assert {path.name for path in (kept / "log").iterdir()} == names
    assert not elsewhere.exists()


def test_a_store_in_use_is_left_alone(config: StoreConfig) -> None:
    root = Path(config.store_path_root)
    before = content(root)
    lock = StoreLock(FileSystem(), config.paths.lock)
    try:
        with pytest.raises(StoreLocked):
            set_log_aside(config)
    finally:
        lock.release()
    assert content(root) == before


def test_a_move_that_fails_undoes_those_before_it(
    config: StoreConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(config.store_path_root)
    before = content(root)

    class Failing(FileSystem):
        def rename(self, source: str, target: str) -> None:
            if source.endswith("commitlog"):
                raise OSError(errno.EIO, "Input/output error")
            super().rename(source, target)

    monkeypatch.setattr(reseed, "FileSystem", Failing)
    with pytest.raises(StoreFailed):
        set_log_aside(config)
    assert content(root) == before
