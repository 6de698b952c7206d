"""Asking the index: which files, in which order, and what the real broker answered."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.fakes.logs import small_config, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.golden_stores import open_golden
from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import FileSystem
from wakelog.storage.index.index_append import IndexFileWriter
from wakelog.storage.index.index_file import HEADER, index_key_hash
from wakelog.storage.index.index_service import (
    IndexReader,
    index_name,
    index_names,
    index_shape,
    remove_index_files_after,
    remove_index_files_before,
)

CONFIG = small_config(index_slot_count=5, index_entry_count=10)
DIRECTORY = "/store/index"


def make(fs: MemoryFileSystem, number: int, keys: Iterable[tuple[str, int, int]]) -> None:
    """Make index file `number` of keys (word, physical offset, store time)."""
    path = f"{DIRECTORY}/{number:017d}"
    shape = index_shape(CONFIG)
    write_file(fs, path, HEADER.pack(0, 0, 0, 0, 0, 0).ljust(shape.file_bytes, b"\0"))
    writer = IndexFileWriter(fs, path, shape)
    for word, physical_offset, store_ms in keys:
        writer.put(index_key_hash("T", word), physical_offset, store_ms)
    writer.write_back()
    writer.close()


def three_files() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    make(fs, 1, [("a", 100, 10_000), ("b", 200, 11_000)])
    make(fs, 2, [("a", 300, 20_000), ("a", 400, 21_000)])
    make(fs, 3, [("a", 500, 30_000), ("c", 600, 31_000)])
    return fs


def offsets(
    fs: MemoryFileSystem, *, count_max: int = 64, begin_ms: int = 0, end_ms: int = 1 << 62
) -> list[int]:
    reader = IndexReader(fs, CONFIG)
    found = reader.query("T", "a", count_max, begin_ms, end_ms).physical_offsets
    reader.close()
    return found


def test_newest_file_first() -> None:
    fs = three_files()
    assert offsets(fs) == [500, 400, 300, 100]
    assert offsets(fs, count_max=2) == [500, 400]
    assert fs.descriptor_count == 0


def test_times_choose_files() -> None:
    fs = three_files()
    assert offsets(fs, end_ms=25_000) == [400, 300, 100]
    assert offsets(fs, begin_ms=15_000, end_ms=20_500) == [300]
    assert offsets(fs, begin_ms=40_000) == []


def test_files_before_one_that_begins_too_early_are_hidden_as_in_4_9_3() -> None:
    """A clock was set back: the oldest file has the latest times."""
    fs = MemoryFileSystem()
    for number, store_ms in enumerate((30_000, 10_000, 20_000), 1):
        make(fs, number, [("a", 100 * number, store_ms)])
    assert offsets(fs, begin_ms=5_000) == [300, 200, 100]
    assert offsets(fs, begin_ms=10_000) == [300, 200, 100]
    assert offsets(fs, begin_ms=10_001) == [300]
    assert offsets(fs, begin_ms=20_001) == []


def test_the_count_is_capped() -> None:
    fs = MemoryFileSystem()
    for number in range(20):
        make(fs, number, [("a", 100 * number + i, 1000 * number + 1) for i in range(9)])
    assert len(offsets(fs, count_max=10_000)) == CONFIG.query_count_max == 64


def test_a_query_returns_how_far_the_newest_file_goes() -> None:
    reader = IndexReader(three_files(), CONFIG)
    answer = reader.query("T", "nothing", 64, 0, 1 << 62)
    assert answer.physical_offsets == []
    assert answer.last_update_timestamp_ms == 31_000
    assert answer.last_update_physical_offset == 600


def test_without_files() -> None:
    answer = IndexReader(MemoryFileSystem(), CONFIG).query("T", "a", 64, 0, 1 << 62)
    assert answer == ([], 0, 0)


def test_follows_files_that_come_and_go() -> None:
    fs = three_files()
    reader = IndexReader(fs, CONFIG)
    assert len(reader.query("T", "a", 64, 0, 1 << 62).physical_offsets) == 4
    fs.unlink(f"{DIRECTORY}/{1:017d}")
    make(fs, 4, [("a", 700, 40_000)])
    assert reader.query("T", "a", 64, 0, 1 << 62).physical_offsets == [700, 500, 400, 300]
    assert fs.descriptor_count == 3


def test_names() -> None:
    fs = three_files()
    write_file(fs, f"{DIRECTORY}/notes.txt", b"")
    assert index_names(fs, DIRECTORY) == [f"{i:017d}" for i in (1, 2, 3)]
    assert index_names(fs, f"{DIRECTORY}/notes.txt") == []
    assert re.fullmatch(r"20\d{15}", index_name(1_700_000_000_007))
    assert index_name(1_700_000_000_007).endswith("007")
    assert index_name(1_700_000_000_008) > index_name(1_700_000_000_007)


@pytest.mark.parametrize(
    ("physical_offset", "left"), [(0, 3), (200, 3), (201, 2), (401, 1), (9999, 1)]
)
def test_old_files_go_but_the_newest_stays(physical_offset: int, left: int) -> None:
    fs = three_files()
    assert remove_index_files_before(fs, CONFIG, physical_offset) == 3 - left
    assert index_names(fs, DIRECTORY) == [f"{i:017d}" for i in (1, 2, 3)][3 - left :]


def test_files_above_a_checkpoint_go() -> None:
    fs = three_files()
    assert remove_index_files_after(fs, CONFIG, 21_000) == (f"{DIRECTORY}/{3:017d}",)
    assert remove_index_files_after(fs, CONFIG, 21_000) == ()
    assert len(remove_index_files_after(fs, CONFIG, 0)) == 2
    assert remove_index_files_after(fs, CONFIG, 0) == ()


def test_files_after_one_above_the_checkpoint_go_before_it_whatever_their_times() -> None:
    fs = three_files()
    make(fs, 4, [("a", 700, 1_000)])
    paths = tuple(f"{DIRECTORY}/{number:017d}" for number in (4, 3))
    assert remove_index_files_after(fs, CONFIG, 21_000) == paths


def test_a_file_is_gone_for_good_before_the_one_in_front_of_it_goes() -> None:
    fs = three_files()
    for left in (2, 1, 0):
        fs.fail("sync_directory")
        with pytest.raises(OSError, match="Input/output"):
            remove_index_files_after(fs, CONFIG, 0)
        assert index_names(fs, DIRECTORY) == [f"{i:017d}" for i in (1, 2, 3)][:left]


@pytest.mark.golden
@pytest.mark.parametrize("name", ["index_heavy", "basic", "batch", "crash"])
def test_answers_of_the_real_broker(name: str, tmp_path: Path) -> None:
    archive = "store_recovered" if name == "crash" else "store"
    store, manifest = open_golden(name, tmp_path, archive=archive)
    settings = manifest["brokerConfig"]
    config = StoreConfig(
        store_path_root=str(store),
        index_slot_count=int(settings["maxHashSlotNum"]),
        index_entry_count=int(settings["maxIndexNum"]),
    )
    reader = IndexReader(FileSystem(), config)
    assert manifest["queries"]
    for query in manifest["queries"]:
        # A query by UNIQ_KEY is answered with the broker's own limit.
        count_max = 32 if query["unique"] else query["maxNum"]
        answer = reader.query(query["topic"], query["key"], count_max, query["begin"], query["end"])
        assert sorted(answer.physical_offsets) == query["commitLogOffsets"], query["key"]
        if answer.physical_offsets:
            assert answer.last_update_timestamp_ms == query["indexLastUpdateTimestamp"]
            assert answer.last_update_physical_offset == query["indexLastUpdatePhyoffset"]
    reader.close()
