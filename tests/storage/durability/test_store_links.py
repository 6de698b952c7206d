"""Links that lead out of a store are refused before anything of it is read or written."""

import errno
from pathlib import Path

import pytest

from tests.fakes.stores import open_store, put, store_config
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.store_links import LINKS_MAX, leads_out, refuse_links_out
from wakelog.storage.errors import DamagedStore, StoreFailed
from wakelog.storage.file_system import FileSystem

PLACES = (
    "commitlog/00000000000000000000",
    "index/20231114221320000",
    "config/topics.json",
    "config/consumerOffset.json.bak",
    "checkpoint",
    "abort",
)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    root = tmp_path / "store"
    for place in PLACES:
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_bytes(b"{}")
    return root


def config(root: Path) -> StoreConfig:
    return store_config(store_path_root=str(root))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("target", ["../../outside", "/etc/hostname", "/nowhere"])
def test_a_link_out_is_refused_with_its_name(store: Path, place: str, target: str) -> None:
    refuse_links_out(FileSystem(), config(store))
    (store / place).unlink()
    (store / place).symlink_to(target)
    with pytest.raises(DamagedStore, match=f"a link out of the store, to {target}") as caught:
        refuse_links_out(FileSystem(), config(store))
    assert caught.value.path == str(store / place)


@pytest.mark.parametrize(
    "folder",
    [
        "commitlog",
        "config",
        "consumequeue",
        "consumequeue/TopicTest",
        "consumequeue/TopicTest/0",
        "consumequeue_ext",
        "consumequeue_ext/TopicTest/0",
        "index",
        "wakelog.crc",
        "wakelog.quarantine",
    ],
)
def test_a_folder_elsewhere_is_refused_and_nothing_is_made_there(
    tmp_path: Path, folder: str
) -> None:
    fs, root, outside = FileSystem(), tmp_path / "store", tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_bytes(b"kept")
    path = root / folder
    path.parent.mkdir(parents=True)
    path.symlink_to(outside)
    with pytest.raises(DamagedStore, match="a link out of the store") as caught:
        open_store(fs, config(root))
    assert caught.value.path == str(path)
    assert [found.name for found in outside.iterdir()] == ["kept"]


def test_a_log_may_be_configured_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "log").symlink_to(tmp_path / "disk")
    config = store_config(
        store_path_root=str(tmp_path / "store"), store_path_commit_log=str(tmp_path / "log")
    )
    store = open_store(FileSystem(), config)
    put(store, b"there")
    store.close(dispatch_behind_bytes=0)
    assert [path.name for path in (tmp_path / "disk").iterdir()] == [f"{0:020d}"]


@pytest.mark.parametrize("place", PLACES)
def test_a_link_to_another_file_of_the_store_is_that_file(store: Path, place: str) -> None:
    (store / place).rename(store / "kept")
    (store / place).symlink_to(store / "kept")
    refuse_links_out(FileSystem(), config(store))


def test_links_of_the_start_guard_are_ours(store: Path) -> None:
    (store / "config" / "consumerFilter.json").symlink_to("/proc/1/fd/7")
    (store / "config" / "consumerFilter.json.bak").symlink_to("/nowhere")
    refuse_links_out(FileSystem(), config(store))


def test_a_circle_leads_nowhere(store: Path) -> None:
    (store / "a").symlink_to("b")
    (store / "b").symlink_to("a")
    assert leads_out(FileSystem(), str(store), str(store / "a"))


def test_as_many_links_as_a_system_follows_are_followed(store: Path) -> None:
    for number in range(LINKS_MAX):
        (store / f"{number}").symlink_to(f"{number + 1}")
    (store / f"{LINKS_MAX}").write_bytes(b"")
    assert not leads_out(FileSystem(), str(store), str(store / "1"))
    assert leads_out(FileSystem(), str(store), str(store / "0"))


def test_a_store_with_one_is_not_opened_and_nothing_is_written(tmp_path: Path) -> None:
    fs, root = FileSystem(), tmp_path / "store"
    first = open_store(fs, config(root))
    put(first, b"0")
    first.close(dispatch_behind_bytes=0)
    (root / "config").mkdir()
    (root / "config" / "topics.json").symlink_to(tmp_path / "topics.json")
    before = {path: path.lstat().st_mtime_ns for path in root.rglob("*")}
    with pytest.raises(DamagedStore, match="replace it by what it leads to"):
        open_store(fs, config(root), start_guard=True)
    assert {path: path.lstat().st_mtime_ns for path in root.rglob("*")} == before


class Unreadable(FileSystem):
    """A file system that refuses one kind of look."""

    def __init__(self, operation: str) -> None:
        super().__init__()
        self._operation = operation

    def list_directory(self, path: str) -> list[str]:
        self._refuse("list_directory", path)
        return super().list_directory(path)

    def read_link(self, path: str) -> str | None:
        self._refuse("read_link", path)
        return super().read_link(path)

    def _refuse(self, operation: str, path: str) -> None:
        if operation == self._operation:
            raise OSError(errno.EIO, "cannot be read", path)


@pytest.mark.parametrize("operation", ["list_directory", "read_link"])
def test_an_unreadable_link_is_a_failure_of_the_store(store: Path, operation: str) -> None:
    with pytest.raises(StoreFailed):
        refuse_links_out(Unreadable(operation), config(store))
