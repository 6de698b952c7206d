"""The stores that a text names, and paths without a store."""

import json
from pathlib import Path

import pytest

from tests.fakes.records import LogBytes
from tests.spark.logs import FS, write_segments
from wakelog.spark.errors import OptionError, SourceError, StoreUnreadable
from wakelog.spark.stores import OpenSegment, find_stores, is_being_written, open_store


def make_store(root: Path, broker: str = "") -> Path:
    write_segments(root / "commitlog", LogBytes(begin=4096))
    if broker:
        identity = {"storeId": "1", "brokerName": broker}
        (root / "wakelog.store").write_text(json.dumps(identity))
    return root


def test_names_of_stores(tmp_path: Path) -> None:
    known, unknown = make_store(tmp_path / "s1", "broker-k"), make_store(tmp_path / "s2")
    bare = write_segments(tmp_path / "copied", LogBytes())
    found = find_stores(FS, f"{known}, {unknown},x={bare}")
    assert [store.broker for store in found] == ["broker-k", "s2", "x"]
    assert [bool(store.root) for store in found] == [True, True, False]
    assert (found[0].begin, found[0].files_end) == (4096, 8192)


def test_a_path_may_be_relative_a_uri_or_have_signs_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_store(tmp_path / "day=1" / "a store")
    monkeypatch.chdir(tmp_path)
    for text in (str(root), "./day=1/a store", f"file:{root}", root.as_uri()):
        [store] = find_stores(FS, text)
        assert (store.broker, store.root) == ("a store", str(root))
        # A task may run in another folder than the driver.
        assert store.segments[0].path == str(root / "commitlog" / f"{4096:020d}")
        [named] = find_stores(FS, f"x={text}")
        assert (named.broker, named.root) == ("x", str(root))
    for text in ("hdfs://host:9000/store", "x=s3a://bucket/store"):
        with pytest.raises(OptionError, match="on no file system of this machine"):
            find_stores(FS, text)


def test_a_pattern_names_several(tmp_path: Path) -> None:
    for name in "ab":
        make_store(tmp_path / name / "store", f"broker-{name}")
    found = find_stores(FS, f"{tmp_path}/*/store")
    assert [store.broker for store in found] == ["broker-a", "broker-b"]
    with pytest.raises(OptionError, match="is one name"):
        find_stores(FS, f"x={tmp_path}/*/store")


def test_two_stores_of_one_name_are_refused(tmp_path: Path) -> None:
    for name in "ab":
        make_store(tmp_path / name / "store")
    with pytest.raises(OptionError, match="two stores are called 'store'"):
        find_stores(FS, f"{tmp_path}/*/store")


def test_other_files_are_passed_over(tmp_path: Path) -> None:
    folder = write_segments(tmp_path, LogBytes())
    (folder / "00000000000000004096").mkdir()
    (folder / "notes").write_text("x")
    (folder / f"{8192:020d}").write_bytes(b"")
    assert [part.begin for part in open_store(FS, str(folder)).segments] == [0]


@pytest.mark.parametrize(
    ("name", "message"),
    [("absent", "no directory"), ("empty", "holds neither"), ("*no*", "no path matches")],
)
def test_the_error_of_a_path_without_a_store(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreUnreadable, match=message):
        find_stores(FS, str(tmp_path / name))


def test_files_that_overlap_are_no_log(tmp_path: Path) -> None:
    folder = write_segments(tmp_path, LogBytes())
    (folder / f"{100:020d}").write_bytes(b"x")
    with pytest.raises(StoreUnreadable, match="overlaps"):
        open_store(FS, str(folder))


def test_an_identity_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    root = make_store(tmp_path / "s")
    (root / "wakelog.store").write_text("{")
    with pytest.raises(SourceError, match="identity"):
        open_store(FS, str(root))


def test_a_store_is_being_written_while_its_lock_is_held(tmp_path: Path) -> None:
    store = open_store(FS, str(make_store(tmp_path)))
    assert not is_being_written(store)
    with open(tmp_path / "lock", "w") as lock:
        assert not is_being_written(store)
        assert FS.lock_byte(lock.fileno(), 0)
        assert is_being_written(store)
    assert not is_being_written(store)
    assert not is_being_written(open_store(FS, str(tmp_path / "commitlog")))


def test_an_open_segment_is_read_by_physical_offset(tmp_path: Path) -> None:
    log = LogBytes(begin=8192)
    log.add()
    store = open_store(FS, str(write_segments(tmp_path, log)))
    file = OpenSegment(FS, store.segments[0])
    buffer = bytearray(4)
    assert file.read_into(memoryview(buffer), 8192 + 4) == 4
    assert buffer == file.read(8196, 4) == log.data[4:8]
    assert len(file.read(file.end - 3, 100)) == 3
    file.close()
