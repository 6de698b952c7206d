"""A store that the real broker left when it was killed: recovered, and its queues and index whole.

What the real broker made of the same directory is `store_recovered`. It leaves old entries after a
queue's end, and puts the keys of one message into the index twice; both are left out here.
"""

import struct
from pathlib import Path

import pytest

from tests.dispatchers.test_golden_rebuild import NOW_MS, config_of, queue_files
from tests.fakes.own_files import OwnFiles
from tests.golden_stores import open_golden
from wakelog.compiled.columns import ScanFunctions
from wakelog.dispatchers import core_dispatchers
from wakelog.dispatchers.reput import Reput
from wakelog.filter.filter_table import stored_filters
from wakelog.storage.index.index_service import IndexReader
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.recovery.steps import recover

pytestmark = pytest.mark.golden

FIXTURES = ("crash", "crash_lost_cq", "crash_torn_body", "crash_torn_page", "crash_torn_props")


def queue_bytes(store: Path, topic: str, queue_id: int) -> bytes:
    files = queue_files(store)
    return b"".join(data for name, data in files.items() if name.startswith(f"{topic}/{queue_id}/"))


@pytest.mark.parametrize("name", FIXTURES)
def test_queues_and_keys(
    name: str, functions: ScanFunctions | None, files: OwnFiles, tmp_path: Path
) -> None:
    store, manifest = open_golden(name, tmp_path)
    expected, _ = open_golden(name, tmp_path, archive="store_recovered")
    fs, config = files, config_of(manifest, store)
    report = recover(fs, config, NOW_MS).report
    log = CommitLogReader(fs, config)
    reput = Reput(fs, log, core_dispatchers(fs, config, log), config, functions=functions)
    reput.start(report.log_end, clean_exit=report.clean_exit, dispatch_from=report.dispatch_from)
    while reput.step(report.log_end, 1 << 30, NOW_MS).more:
        pass
    assert reput.position == report.log_end
    for queue in manifest["queues"]:
        end = 20 * queue["maxOffset"]
        ours = queue_bytes(store, queue["topic"], queue["queueId"])
        theirs = queue_bytes(expected, queue["topic"], queue["queueId"])
        assert ours[:end] == theirs[:end]
        assert ours[end:].strip(b"\0") == b""
    index = IndexReader(fs, config)
    for query in manifest["queries"]:
        answer = index.query(query["topic"], query["key"], 64, query["begin"], query["end"])
        assert sorted(answer.physical_offsets) == sorted(set(query["commitLogOffsets"]))
    index.close()


def test_units_torn_by_a_crash_are_made_again(
    functions: ScanFunctions | None, files: OwnFiles, tmp_path: Path
) -> None:
    store, manifest = open_golden("filter_ext", tmp_path)
    expected, _ = open_golden("filter_ext", tmp_path / "whole")
    table = stored_filters((store / "config" / "consumerFilter.json").read_text())
    fs, config = files, config_of(manifest, store)
    (store / "abort").touch()
    # Recovery goes back by three seconds, which is most of what this store holds.
    later_ms = max(message["storeTimestamp"] for message in manifest["messages"]) + 3_000
    (store / "checkpoint").write_bytes(struct.pack(">qqq4072x", later_ms, later_ms, later_ms))
    torn = 0
    for path in sorted((store / "consumequeue_ext").rglob("0*2048")):
        data = bytearray(path.read_bytes())
        end = len(data.rstrip(b"\0"))
        data[end - 80 : end - 34] = bytes(46)  # entries are whole, and so are later units
        path.write_bytes(data)
        torn += 1
    assert torn == 4
    report = recover(fs, config, NOW_MS).report
    assert report.dispatch_from == 131_072
    log = CommitLogReader(fs, config)
    dispatchers = core_dispatchers(fs, config, log, filters=lambda: table)
    reput = Reput(fs, log, dispatchers, config, functions=functions)
    reput.start(report.log_end, clean_exit=False, dispatch_from=report.dispatch_from)
    while reput.step(report.log_end, 1 << 30, NOW_MS).more:
        pass
    for folder in ("consumequeue", "consumequeue_ext"):
        assert queue_files(store, folder) == queue_files(expected, folder)
