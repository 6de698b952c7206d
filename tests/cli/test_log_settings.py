"""A store's files say how long they are; broker.conf and flags beat them."""

from __future__ import annotations

from pathlib import Path

from tests.golden_stores import open_golden
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
