"""A store's files say how long they are; broker.conf and flags beat them."""

import os
from pathlib import Path

import pytest

from tests.fakes.records import LogBytes
from tests.golden_stores import open_golden
from tests.spark.logs import write_segments
from wakelog.actors.errors import NotPossible
from wakelog.cli.log_settings import store_config


def test_lengths_come_from_the_files(tmp_path: Path) -> None:
    store, manifest = open_golden("ipv6", tmp_path)
    settings = manifest["brokerConfig"]
    found = store_config(str(store), None, [])
    assert found.commit_log_file_bytes == int(settings["mappedFileSizeCommitLog"])
    assert found.consume_queue_file_bytes == int(settings["mappedFileSizeConsumeQueue"])
    assert found.store_path_root == str(store)


def test_units_are_taken_for_wanted_where_there_are_some(tmp_path: Path) -> None:
    store, manifest = open_golden("filter_ext", tmp_path)
    settings = manifest["brokerConfig"]
    found = store_config(str(store), None, [])
    assert found.enable_consume_queue_extension
    size_bytes = int(settings["mappedFileSizeConsumeQueueExt"])
    assert found.consume_queue_extension_file_bytes == size_bytes
    assert not store_config(
        str(store), None, ["enableConsumeQueueExt=false"]
    ).enable_consume_queue_extension


def test_a_short_file_does_not_count(tmp_path: Path) -> None:
    store, manifest = open_golden("ipv6", tmp_path)
    last = max((store / "commitlog").iterdir())
    last.write_bytes(b"short")
    found = store_config(str(store), None, [])
    assert found.commit_log_file_bytes == int(manifest["brokerConfig"]["mappedFileSizeCommitLog"])


def test_flags_beat_the_file_and_both_beat_a_guess(tmp_path: Path) -> None:
    store, _ = open_golden("ipv6", tmp_path)
    conf = tmp_path / "broker.conf"
    conf.write_text("mappedFileSizeCommitLog=8192\nmappedFileSizeConsumeQueue=2000\n")
    found = store_config(str(store), str(conf), ["mappedFileSizeCommitLog=16384"])
    assert (found.commit_log_file_bytes, found.consume_queue_file_bytes) == (16384, 2000)


def test_light_queues_are_taken_for_wanted_where_there_are_some(tmp_path: Path) -> None:
    store, _ = open_golden("multi_dispatch", tmp_path)
    found = store_config(str(store), None, [])
    assert (found.enable_lmq, found.enable_multi_dispatch) == (True, True)
    assert not store_config(str(store), None, ["enableLmq=false"]).enable_lmq
    ordinary, _ = open_golden("ipv6", tmp_path / "other")
    assert not store_config(str(ordinary), None, []).enable_multi_dispatch


def test_a_folder_of_segments_alone_is_a_log(tmp_path: Path) -> None:
    folder = write_segments(tmp_path / "copied", LogBytes(8192))
    found = store_config(str(folder), None, ["maxIndexNum=77"], takes_log_alone=True)
    assert found.paths.commit_log_directories == (str(folder),)
    assert (found.commit_log_file_bytes, found.index_entry_count) == (8192, 77)


def test_a_log_alone_is_no_store(tmp_path: Path) -> None:
    folder = write_segments(tmp_path / "commitlog", LogBytes(8192))
    with pytest.raises(NotPossible, match="is a log without a store") as refused:
        store_config(str(folder), None, [])
    assert f"--store {tmp_path} " in refused.value.remedy
    (tmp_path / "empty").mkdir()
    for none in (tmp_path / "empty", tmp_path / "none", min(folder.iterdir())):
        with pytest.raises(NotPossible, match="holds no commitlog"):
            store_config(str(none), None, [], takes_log_alone=True)


def test_an_index_of_another_shape_needs_its_settings(tmp_path: Path) -> None:
    store, _ = open_golden("ipv6", tmp_path)
    index_bytes = 40 + 4 * 100 + 20 * 999
    for path in (store / "index").iterdir():
        os.truncate(path, index_bytes)
    with pytest.raises(NotPossible, match=f"have {index_bytes} bytes") as refused:
        store_config(str(store), None, [], needs_index=True)
    assert "--set maxHashSlotNum=... --set maxIndexNum=..." in refused.value.remedy
    given = ["maxHashSlotNum=100", "maxIndexNum=999"]
    found = store_config(str(store), None, given, needs_index=True)
    assert (found.index_slot_count, found.index_entry_count) == (100, 999)
    store_config(str(store), None, [])  # a dump or a rebuild does not read the index


def test_a_setting_that_does_not_exist_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, _ = open_golden("ipv6", tmp_path)
    store_config(str(store), None, ["enableLMQ=true", "brokerName=b"])
    assert capsys.readouterr().err == (
        "wakelog: enableLMQ is not a key of RocketMQ 4.9.3 and is ignored; "
        "did you mean enableLmq?\n"
    )
