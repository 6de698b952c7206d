"""Texts under config/: old or new, never half, never silently none."""

import errno
import json
from pathlib import Path

import pytest

from tests.fakes.logs import read_file, small_config, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.golden_stores import open_golden
from wakelog.storage.durability import config_files
from wakelog.storage.durability.config_files import ConfigFiles
from wakelog.storage.errors import DamagedStore, StoreFull
from wakelog.storage.file_system import FileSystem
from wakelog.storage.paths import StorePaths

PATH = "/store/config/topics.json"


@pytest.fixture
def files(fs: MemoryFileSystem) -> ConfigFiles:
    return ConfigFiles(fs, small_config().paths.config)


def test_a_text_that_never_was_is_none(files: ConfigFiles) -> None:
    assert files.load("topics.json", json.loads) is None


def test_the_old_text_is_kept_beside_the_new(fs: MemoryFileSystem, files: ConfigFiles) -> None:
    files.save("topics.json", '{"a": 1}')
    assert not fs.exists(PATH + ".bak")
    files.save("topics.json", '{"a": "é"}')
    assert files.load("topics.json", json.loads) == {"a": "é"}
    assert read_file(fs, PATH + ".bak") == b'{"a": 1}'
    assert fs.list_directory("/store/config") == ["topics.json", "topics.json.bak"]


@pytest.mark.parametrize("damage", [None, b"", b"  \n", b'{"a": ', b"\xff\xfe"])
def test_a_missing_or_broken_text_gives_way_to_the_one_before(
    fs: MemoryFileSystem, files: ConfigFiles, damage: bytes | None
) -> None:
    write_file(fs, PATH + ".bak", b'{"old": 1}')
    if damage is not None:
        write_file(fs, PATH, damage)
    assert files.load("topics.json", json.loads) == {"old": 1}
    reason = files.backups["topics.json"].reason
    assert reason.startswith(f"{PATH}: it ") and "codec" not in reason


def test_a_sound_text_is_no_backup(files: ConfigFiles) -> None:
    files.save("topics.json", '{"a": 1}')
    files.load("topics.json", json.loads)
    assert files.backups == {}


@pytest.mark.parametrize("damage", [b"", b'{"a": '])
def test_a_broken_text_does_not_take_the_place_of_the_one_before(
    fs: MemoryFileSystem, files: ConfigFiles, damage: bytes
) -> None:
    """A kill after that and before the new text gets its name would leave nothing to load."""
    write_file(fs, PATH + ".bak", b'{"old": 1}')
    write_file(fs, PATH, damage)
    files.load("topics.json", json.loads)
    files.save("topics.json", '{"new": 1}')
    assert read_file(fs, PATH + ".bak") == b'{"old": 1}'
    files.save("topics.json", '{"new": 2}')
    assert read_file(fs, PATH + ".bak") == b'{"new": 1}'


def test_a_text_that_its_table_refuses_gives_way_too(
    fs: MemoryFileSystem, files: ConfigFiles
) -> None:
    """As the Broker's tables do, which know the file's name and what may be done."""

    def decode(text: str) -> str:
        if text == "broken":
            raise DamagedStore("config/topics.json", "no table", "put back a sound copy")
        return text

    write_file(fs, PATH, b"broken")
    with pytest.raises(DamagedStore, match=r"topics\.json: it cannot be read: no table; .*\.bak"):
        files.load("topics.json", decode)
    write_file(fs, PATH + ".bak", b"old")
    assert files.load("topics.json", decode) == "old"


@pytest.mark.parametrize("damage", [b"", b'{"a": '])
def test_broken_texts_are_not_taken_for_none(
    fs: MemoryFileSystem, files: ConfigFiles, damage: bytes
) -> None:
    write_file(fs, PATH, damage)
    with pytest.raises(DamagedStore) as caught:
        files.load("topics.json", json.loads)
    assert caught.value.path == PATH
    write_file(fs, PATH + ".bak", b"{")
    with pytest.raises(DamagedStore):
        files.load("topics.json", json.loads)


def test_a_file_too_large_to_be_ours_is_not_read(
    fs: MemoryFileSystem, files: ConfigFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(fs, PATH, b'"' + b"x" * 100 + b'"')
    monkeypatch.setattr(config_files, "TEXT_BYTES_MAX", 102)
    assert files.load("topics.json", json.loads) == "x" * 100
    monkeypatch.setattr(config_files, "TEXT_BYTES_MAX", 101)
    with pytest.raises(DamagedStore, match="102 bytes"):
        files.load("topics.json", json.loads)


@pytest.mark.parametrize("operation", ["open", "pwrite", "sync", "rename", "truncate"])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_failed_save_leaves_a_whole_text(
    fs: MemoryFileSystem, files: ConfigFiles, operation: str, nth: int
) -> None:
    files.save("topics.json", "[0]")
    files.save("topics.json", "[1]")
    fs.fail(operation, nth=nth, number=errno.ENOSPC)
    saved = True
    try:
        files.save("topics.json", "[2]")
    except StoreFull:
        saved = False
    assert files.load("topics.json", json.loads) == ([2] if saved else [1])
    assert fs.descriptor_count == 0


def test_the_text_is_durable_before_it_gets_its_name(
    fs: MemoryFileSystem, files: ConfigFiles
) -> None:
    class Ordered(MemoryFileSystem):
        def rename(self, source: str, target: str) -> None:
            assert self.calls["sync"] > self.calls["rename"]
            super().rename(source, target)

    ordered = Ordered()
    ordered_files = ConfigFiles(ordered, small_config().paths.config)
    ordered_files.save("topics.json", "[1]")
    ordered_files.save("topics.json", "[2]")
    assert ordered.calls["sync_directory"] == 2
    assert ordered.calls["rename"] == 3


def test_the_real_brokers_texts_load(tmp_path: Path) -> None:
    store, manifest = open_golden("basic", tmp_path)
    files = ConfigFiles(FileSystem(), StorePaths(str(store)).config)
    topics = files.load("topics.json", json.loads)
    assert topics is not None
    known = {topic["topic"] for topic in manifest["topicConfigs"]}
    assert known and known <= set(topics["topicConfigTable"])
