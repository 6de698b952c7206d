"""The store that starts begin with: a message in each queue, left as after an orderly stop."""

from pathlib import Path

import pytest

from benchmarks.held import topic_name
from benchmarks.starts import BODY, StartStore
from tests.fakes.stores import open_store
from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import FileSystem


@pytest.mark.parametrize("queues_count", [1, 24])
def test_each_queue_has_a_message_and_nothing_is_left_to_do(
    queues_count: int, tmp_path: Path
) -> None:
    made, copied = tmp_path / "made", tmp_path / "copied"
    copied.mkdir()
    StartStore(made, queues_count).copy_into(copied)
    assert (copied / "config" / "topics.json").is_file()
    store = open_store(FileSystem(), StoreConfig(store_path_root=str(copied)))
    report = store.recovery
    assert report.clean_exit and report.dispatch_from == report.log_end
    assert list(report.queue_offsets.values()) == [1] * queues_count
    store.set_dispatched(report.log_end)
    found = store.get_message(topic_name(0), 0, 0, 1)
    assert found is not None and found.count == 1
    record = store.message_at(store.consume_queue_entries(topic_name(0), 0, 0, 1)[0][0])
    assert record is not None and record.body == BODY
    store.close(dispatch_behind_bytes=0)
