"""Every store of the real 4.9.3 broker is opened and served as that broker served it.

`tests/golden/README.md` says how the stores were made. A manifest holds what the real client and
admin requests saw; the crash stores come twice, as a kill or damage left them and as the real
broker recovered them.
"""

import hashlib
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.golden_stores import GOLDEN, open_golden, read_manifest
from wakelog.dispatchers import core_dispatchers
from wakelog.dispatchers.reput import Reput
from wakelog.protocol.record import decode_record
from wakelog.protocol.tags import tags_code
from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.message_store import MessageStore
from wakelog.storage.read.reader import GetRequest, GetStatus
from wakelog.storage.settings_text import read_settings

NOW_MS = 1_800_000_000_000
MEMORY_BYTES = 8 << 30
CLEAN = (
    "basic",
    "batch",
    "delay_tx_retry",
    "filter_ext",
    "index_heavy",
    "ipv6",
    "multi_dispatch",
    "transient",
)
CRASHED = ("crash", "crash_lost_cq", "crash_torn_body", "crash_torn_page", "crash_torn_props")
COPIED = ("copied_log_basic", "copied_log_delay_tx_retry", "copied_log_multi_dispatch")
# What a client makes of each status: the name of its own PullStatus.
CLIENT_STATUS = {
    GetStatus.FOUND: "FOUND",
    GetStatus.NO_MATCHED_MESSAGE: "NO_MATCHED_MSG",
    GetStatus.OFFSET_OVERFLOW_ONE: "NO_NEW_MSG",
    GetStatus.OFFSET_OVERFLOW_BADLY: "OFFSET_ILLEGAL",
    GetStatus.OFFSET_TOO_SMALL: "OFFSET_ILLEGAL",
    GetStatus.NO_MESSAGE_IN_QUEUE: "NO_NEW_MSG",
}


class Golden:
    """One golden store, opened by us."""

    def __init__(self, name: str, directory: Path, archive: str) -> None:
        self.root, self.manifest = open_golden(name, directory, archive=archive)
        self.before = digests(self.root)
        self.fs = FileSystem()
        self.config = config_of(self.manifest, self.root)
        self.store = MessageStore.open(
            self.fs, self.config, NOW_MS, physical_memory_bytes=MEMORY_BYTES
        )
        self.store.set_dispatched(self.store.recovery.dispatch_from)

    def dispatch(self) -> None:
        """Let Reput bring queues and index up to the log's end."""
        report = self.store.recovery
        log = CommitLogReader(self.fs, self.config)
        dispatchers = core_dispatchers(self.fs, self.config, log)
        reput = Reput(self.fs, log, dispatchers, self.config)
        reput.start(
            report.log_end, clean_exit=report.clean_exit, dispatch_from=report.dispatch_from
        )
        while reput.step(report.log_end, 1 << 20, NOW_MS).more:
            pass
        reput.flush()
        for dispatcher in dispatchers:
            dispatcher.close()
        log.close()
        assert reput.position == report.log_end
        self.store.set_dispatched(reput.position)


def config_of(manifest: dict[str, Any], root: Path) -> StoreConfig:
    return read_settings(StoreConfig, {**manifest["brokerConfig"], "storePathRootDir": str(root)})


def digests(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module", params=[*CLEAN, *(f"{name}/store_recovered" for name in CRASHED)])
def golden(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Golden]:
    """Each store that the real broker stopped in order."""
    name, _, archive = request.param.partition("/")
    opened = Golden(name, tmp_path_factory.mktemp(name), archive or "store")
    yield opened
    assert opened.store.close(dispatch_behind_bytes=0)
    assert not (opened.root / "abort").exists()


@pytest.fixture(scope="module", params=CRASHED)
def crashed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Golden]:
    """Each store as a kill or damage left it, recovered and dispatched by us."""
    opened = Golden(request.param, tmp_path_factory.mktemp(request.param), "store")
    opened.dispatch()
    yield opened
    assert opened.store.close(dispatch_behind_bytes=0)


def test_no_fixture_is_forgotten() -> None:
    assert sorted({*CLEAN, *CRASHED, *COPIED}) == sorted(
        path.name for path in GOLDEN.iterdir() if path.is_dir()
    )


def test_a_cleanly_stopped_store_needs_nothing(golden: Golden) -> None:
    report = golden.store.recovery
    records = golden.manifest["messages"]
    assert report.clean_exit
    last_seen = max(record["commitLogOffset"] + record["storeSize"] for record in records)
    # A few records of `delay_tx_retry` are in no queue that can be pulled.
    assert report.log_end >= last_seen
    assert report.damaged == () and report.index_files_removed == ()
    for queue in golden.manifest["queues"]:
        key = queue["topic"], queue["queueId"]
        assert report.queue_offsets.get(key, 0) == queue["maxOffset"], key


def test_opening_changes_no_byte_that_counts(golden: Golden) -> None:
    """Records and entries stay; only bytes after an end of the real broker's are zeroed."""
    after = digests(golden.root)
    changed = {path for path in golden.before if after.get(path) != golden.before[path]}
    if golden.manifest["fixture"] in ("crash_torn_body", "crash_torn_page"):
        # It cut in memory only: what it cut is still on its disk, and on ours no more.
        changed = {path for path in changed if not path.startswith(("commitlog", "consumequeue"))}
        assert golden.store.recovery.quarantined
    assert changed <= {"lock"}  # which we sign
    assert {path.split("/")[0] for path in after.keys() - golden.before.keys()} <= {
        "abort",
        "wakelog.quarantine",
        "wakelog.watermark",
    }


def test_every_queue_has_its_ends_and_times(golden: Golden) -> None:
    check_queues(golden.store, golden.manifest)


def test_every_pull_gets_what_it_got(golden: Golden) -> None:
    check_pulls(golden.store, golden.manifest)


def test_every_record_is_the_same(golden: Golden) -> None:
    check_records(golden.store, golden.manifest)


def test_every_query_finds_the_same(golden: Golden) -> None:
    check_queries(golden.store, golden.manifest)


def test_every_time_gives_the_same_offset(golden: Golden) -> None:
    check_times(golden.store, golden.manifest)


def test_every_entry_is_the_same(golden: Golden) -> None:
    for queue in golden.manifest.get("consumeQueueEntries", ()):
        topic, queue_id = queue["topic"], queue["queueId"]
        found: list[list[int]] = []
        while entries := golden.store.consume_queue_entries(topic, queue_id, len(found), 1000):
            found += [list(entry) for entry in entries]
        assert found == queue["entries"], (topic, queue_id)
        units = queue.get("ext", [])
        assert len(units) in (0, len(found))
        for entry, expected in zip(found, units, strict=False):
            unit = golden.store.extension_unit(topic, queue_id, entry[2])
            assert unit is not None
            bitmap = b64decode(expected.get("filterBitMap", ""))
            assert unit == (
                expected["size"],
                expected["tagsCode"],
                expected["msgStoreTime"],
                bitmap,
            )


def check_queues(store: MessageStore, manifest: dict[str, Any]) -> None:
    for queue in manifest["queues"]:
        key = queue["topic"], queue["queueId"]
        assert (
            store.min_queue_offset(*key),
            store.max_queue_offset(*key),
            store.earliest_store_time(*key),
        ) == (queue["minOffset"], queue["maxOffset"], queue["earliestStoreTime"]), key


def check_pulls(store: MessageStore, manifest: dict[str, Any]) -> None:
    for queue in manifest["queues"]:
        for pull in queue["pulls"] + queue.get("extraPulls", []):
            check_pull(store, queue, pull, None)
    for queue in manifest["tagPulls"]:
        codes = frozenset(tags_code(tag.strip()) for tag in queue["expr"].split("||"))
        for pull in queue["pulls"]:
            check_pull(store, queue, pull, codes)
    for pull in manifest.get("illegalPulls", ()):
        check_pull(store, pull, pull, None)


def check_pull(
    store: MessageStore, queue: dict[str, Any], pull: dict[str, Any], codes: frozenset[int] | None
) -> None:
    result = store.get_message(
        GetRequest(queue["topic"], queue["queueId"], pull["offset"], pull["maxNum"], codes=codes)
    )
    assert result is not None
    assert (
        CLIENT_STATUS[result.status],
        result.next_begin_offset,
        result.min_offset,
        result.max_offset,
        result.last_physical_offset,
    ) == (
        pull["status"],
        pull["nextBeginOffset"],
        pull["minOffset"],
        pull["maxOffset"],
        [-1, *pull["commitLogOffsets"]][-1],
    ), (queue["topic"], queue["queueId"], pull["offset"])
    assert not result.suggest_slave
    on_a_loop = store.get_message(
        GetRequest(
            queue["topic"],
            queue["queueId"],
            pull["offset"],
            pull["maxNum"],
            codes=codes,
            blocking=False,
        )
    )
    assert on_a_loop in (result, None)
    data = b"".join(result.frames)
    for place in pull["commitLogOffsets"]:
        record = decode_record(data)
        assert record.physical_offset == place
        data = data[record.size_bytes :]
    assert not data


def check_records(store: MessageStore, manifest: dict[str, Any]) -> None:
    for message in manifest["messages"]:
        record = store.record_bytes(message["commitLogOffset"], message["storeSize"])
        assert record is not None, message["commitLogOffset"]
        assert hashlib.sha256(record).hexdigest() == message["recordSha256"]


def check_queries(
    store: MessageStore, manifest: dict[str, Any], *, indexed_twice: bool = False
) -> None:
    """Compare every query.

    indexed_twice: after a crash the real broker indexes the last record of the last full file again
        and answers with it twice. We do not.
    """
    for query in manifest["queries"]:
        # A query for a unique key has the broker's own limit.
        count_max = 32 if query["unique"] else query["maxNum"]
        found = store.query_message(
            query["topic"], query["key"], count_max, query["begin"], query["end"]
        )
        assert (
            list(found.physical_offsets),
            found.index_last_update_timestamp_ms,
            found.index_last_update_physical_offset,
        ) == (
            sorted({*query["commitLogOffsets"]}) if indexed_twice else query["commitLogOffsets"],
            query["indexLastUpdateTimestamp"],
            query["indexLastUpdatePhyoffset"],
        ), query["key"]
        for place, frame in zip(found.physical_offsets, found.frames, strict=True):
            assert decode_record(frame).physical_offset == place


def check_times(store: MessageStore, manifest: dict[str, Any]) -> None:
    for search in manifest["searchOffset"]:
        topic, queue_id, timestamp_ms = search["topic"], search["queueId"], search["timestamp"]
        found = store.offset_by_time(topic, queue_id, timestamp_ms)
        assert found == search["offset"], (topic, queue_id, timestamp_ms)


def test_a_crashed_log_ends_where_the_real_broker_ended_it(crashed: Golden) -> None:
    report = crashed.store.recovery
    messages = crashed.manifest["messages"]
    real_end = max(message["commitLogOffset"] + message["storeSize"] for message in messages)
    assert not report.clean_exit
    assert report.log_end == real_end
    assert report.records_checked_count == len(messages)
    damage = crashed.manifest.get("damage") or {}
    if damage.get("recordsAffected"):
        assert real_end <= damage["zeroFrom"]


def test_a_crashed_log_loses_nothing_that_was_acknowledged_but_what_is_gone(
    crashed: Golden,
) -> None:
    manifest = crashed.manifest
    sent = manifest.get("sent") or read_manifest(manifest["sentIn"].split("/")[1])["sent"]
    gone = set(manifest["ackedNotPresentAfterRecovery"])
    for message in sent:
        place = message["commitLogOffset"]
        assert (crashed.store.record_bytes(place) is None) == (place in gone)


def test_what_is_cut_is_quarantined(crashed: Golden) -> None:
    """Zeros that a crash left are not worth a file; the torn record's beginning is."""
    damage = crashed.manifest.get("damage") or {}
    pieces = crashed.store.recovery.quarantined
    if not damage.get("recordsAffected"):
        assert pieces == ()
        return
    (piece,) = pieces
    assert piece.physical_offset == crashed.store.recovery.log_end
    assert piece.physical_offset + piece.size_bytes <= damage["zeroFrom"]
    assert Path(piece.path).stat().st_size == piece.size_bytes > 0


def test_a_recovered_log_has_the_real_brokers_bytes(crashed: Golden, tmp_path: Path) -> None:
    real, _ = open_golden(crashed.manifest["fixture"], tmp_path, archive="store_recovered")
    end = crashed.store.recovery.log_end
    assert log_bytes(crashed.root)[:end] == log_bytes(real)[:end]
    assert not log_bytes(crashed.root)[end:].strip(b"\0")


def log_bytes(root: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((root / "commitlog").iterdir()))


def test_a_recovered_store_is_served_like_the_real_brokers(crashed: Golden) -> None:
    check_queues(crashed.store, crashed.manifest)
    check_pulls(crashed.store, crashed.manifest)
    check_records(crashed.store, crashed.manifest)
    check_queries(crashed.store, crashed.manifest, indexed_twice=True)
    check_times(crashed.store, crashed.manifest)


@pytest.mark.parametrize("name", COPIED)
def test_a_copied_log_is_dispatched_from_its_begin_and_then_served(
    name: str, tmp_path: Path
) -> None:
    golden = Golden(name, tmp_path, "store")
    report = golden.store.recovery
    assert (report.dispatch_from, report.quarantined, report.damaged) == (0, (), ())
    source = read_manifest(golden.manifest["sourceFixture"])
    for queue in source["queues"]:
        key = queue["topic"], queue["queueId"]
        # Known before anything is dispatched: the log can go on numbering at once.
        assert report.queue_offsets.get(key, 0) == queue["maxOffset"], key
    golden.dispatch()
    check_queues(golden.store, source)
    check_records(golden.store, source)
    check_queries(golden.store, source)
    assert golden.store.close(dispatch_behind_bytes=0)
