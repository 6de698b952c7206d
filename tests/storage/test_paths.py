"""Names both ways, and no name from outside that leaves the root."""

from posixpath import normpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakelog.storage.errors import IllegalName
from wakelog.storage.paths import (
    StorePaths,
    check_topic_name,
    is_index_name,
    is_new_file_name,
    offset_name,
    parse_offset_name,
    parse_queue_id,
)

PATHS = StorePaths("/data/store/")


def test_every_name_of_a_store_is_a_directory_or_a_file_that_services_write() -> None:
    paths = StorePaths("/s", "/a/log,/b/log")
    assert paths.written_directories[:3] == ("/s", "/a/log", "/b/log")
    assert {"/s/consumequeue", "/s/index", "/s/config"} <= set(paths.written_directories)
    assert {"/s/checkpoint", "/s/lock", "/s/wakelog.watermark"} <= set(paths.written_files)
    count = len(paths.written_directories) + len(paths.written_files)
    assert count == len(vars(paths)) + 1  # the log has two


def test_the_layout_is_that_of_rocketmq() -> None:
    assert PATHS.commit_log_directories == ("/data/store/commitlog",)
    assert PATHS.consume_queue("%RETRY%group", 3) == "/data/store/consumequeue/%RETRY%group/3"
    assert PATHS.consume_queue_extension("T", 0) == "/data/store/consumequeue_ext/T/0"
    assert PATHS.index_directory == "/data/store/index"
    assert PATHS.checkpoint == "/data/store/checkpoint"
    assert PATHS.abort == "/data/store/abort"
    assert PATHS.lock == "/data/store/lock"
    assert PATHS.config("topics.json") == "/data/store/config/topics.json"


def test_what_is_ours_lies_in_the_root() -> None:
    assert PATHS.store_identity == "/data/store/wakelog.store"


def test_several_log_directories_are_sorted() -> None:
    paths = StorePaths("/s", "/b/log, /a/log,/b/log/")
    assert paths.commit_log_directories == ("/a/log", "/b/log")
    assert paths.new_file_directories == ("/a", "/b", "/s")


@given(st.integers(0, 10**20 - 1))
def test_offset_names_go_both_ways(offset: int) -> None:
    assert parse_offset_name(offset_name(offset)) == offset
    assert len(offset_name(offset)) == 20


@pytest.mark.parametrize(
    "name", ["", "0", "abort", "0" * 19, "0" * 21, "\u0660" * 20, "0" * 19 + "\n"]
)
def test_other_names_are_no_offsets(name: str) -> None:
    assert parse_offset_name(name) is None


def test_index_files_have_seventeen_digits() -> None:
    assert is_index_name("20261121140851123")
    assert not is_index_name("2026112114085112") and not is_index_name("20261121140851123.tmp")


@pytest.mark.parametrize(
    ("name", "queue_id"),
    [("0", 0), ("17", 17), ("01", None), ("-1", None), ("x", None), ("", None), ("\u0663", None)],
)
def test_queue_directories(name: str, queue_id: int | None) -> None:
    assert parse_queue_id(name) == queue_id


@pytest.mark.parametrize(
    "name", ["T", "%RETRY%g", "%RETRY%a.b", "a|b", "A_b-9", "~", "...", "x" * 127]
)
def test_names_that_clients_use_are_allowed(name: str) -> None:
    assert check_topic_name(name) == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "/", "a\0", "a b", "x" * 128, "ü", "a\n", ".\n", "\x7f"]
)
def test_names_that_could_leave_the_store_are_not(name: str) -> None:
    with pytest.raises(IllegalName):
        check_topic_name(name)


@given(st.text(max_size=200), st.integers(-(2**40), 2**40))
def test_no_name_leaves_the_root(topic: str, queue_id: int) -> None:
    for make in (PATHS.consume_queue, PATHS.consume_queue_extension):
        try:
            path = make(topic, queue_id)
        except IllegalName:
            continue
        assert path == normpath(path)
        assert path.startswith("/data/store/consumequeue")
        assert path.count("/") == 5


def test_unfinished_files_lie_outside_the_data_folders() -> None:
    segment = "/data/store/commitlog/" + offset_name(0)
    queue = PATHS.consume_queue("T", 1) + "/" + offset_name(0)
    for final_path in (segment, queue):
        for owner in ("broker", "allocate"):
            name = PATHS.new_file(final_path, owner).removeprefix("/data/store/")
            assert "/" not in name
            assert is_new_file_name(name, owner)
    assert not is_new_file_name("wakelog.store", "broker")


def test_unfinished_files_of_owners_and_queues_differ() -> None:
    finals = [PATHS.consume_queue("T", i) + "/" + offset_name(0) for i in range(3)]
    names = {PATHS.new_file(final, owner) for final in finals for owner in ("reput", "broker")}
    assert len(names) == 6


def test_a_segment_is_built_on_its_own_disk() -> None:
    paths = StorePaths("/s", "/disk1/log,/disk2/log")
    assert paths.new_file("/disk2/log/" + offset_name(0), "broker").startswith("/disk2/wakelog.new")


def test_stores_whose_logs_lie_beside_each_other_leave_each_others_files() -> None:
    one, other = StorePaths("/s", "/disk/log"), StorePaths("/t", "/disk/log.b,/t/commitlog")
    name = offset_name(0)
    built = [one.new_file(f"/disk/log/{name}", "broker")]
    built.append(other.new_file(f"/disk/log.b/{name}", "broker"))
    assert built == [f"/disk/wakelog.new.broker.{folder}.{name}" for folder in ("log", "log.b")]
    assert [one.is_new_file(path, "broker") for path in built] == [True, False]
    assert [other.is_new_file(path, "broker") for path in built] == [False, True]
    assert not one.is_new_file(built[0], "recovery")
    assert not one.is_new_file("/disk/wakelog.new.broker.log.notes", "broker")
    assert one.is_new_file(one.new_file("/s/index/20260101000000000", "reput"), "reput")
    assert other.is_new_file(other.new_file(f"/t/commitlog/{name}", "broker"), "broker")
