"""From the log alone, the queues and the index that the real 4.9.3 broker has, byte for byte.

The fixtures `copied_log_*` hold what that broker built when it was started on a copied log; of the
others, what it built while it took the messages.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.columns import compiled_functions
from tests.fakes.own_files import OwnFiles
from tests.golden_stores import open_golden
from wakelog.compiled.columns import ScanFunctions
from wakelog.dispatchers import core_dispatchers
from wakelog.dispatchers.reput import Reput
from wakelog.filter.filter_table import FilterTable, stored_filters
from wakelog.storage.config import BrokerRole, StoreConfig
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.log.record_check import CheckKind, check_record

pytestmark = pytest.mark.golden

COPIED = ("copied_log_basic", "copied_log_multi_dispatch", "copied_log_delay_tx_retry")
LIVE = ("batch", "index_heavy", "ipv6", "transient")
NOW_MS = 1_700_000_000_000


@pytest.fixture(scope="module", params=["plain", "bulk"])
def functions(request: pytest.FixtureRequest) -> ScanFunctions | None:
    return compiled_functions() if request.param == "bulk" else None


def config_of(manifest: dict[str, Any], store: Path) -> StoreConfig:
    settings = manifest["brokerConfig"]
    return StoreConfig(
        store_path_root=str(store),
        commit_log_file_bytes=int(settings["mappedFileSizeCommitLog"]),
        consume_queue_file_bytes=int(settings["mappedFileSizeConsumeQueue"]),
        index_slot_count=int(settings["maxHashSlotNum"]),
        index_entry_count=int(settings["maxIndexNum"]),
        broker_role=BrokerRole(settings["brokerRole"]),
        enable_multi_dispatch=settings.get("enableMultiDispatch") == "true",
        enable_lmq=settings.get("enableLmq") == "true",
        enable_consume_queue_extension=settings.get("enableConsumeQueueExt") == "true",
        consume_queue_extension_file_bytes=int(
            settings.get("mappedFileSizeConsumeQueueExt", 48 << 20)
        ),
    )


def queue_files(store: Path, folder: str = "consumequeue") -> dict[str, bytes]:
    root = store / folder
    paths = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


def index_files(store: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted((store / "index").iterdir())]


def log_end(store: Path) -> int:
    path = max((store / "commitlog").iterdir())
    data, start, position = path.read_bytes(), int(path.name), 0
    while True:
        check = check_record(data, position, start + position, len(data))
        if check.kind is not CheckKind.SOUND:
            return start + position
        position += check.size_bytes


def rebuild(
    fs: OwnFiles,
    store: Path,
    manifest: dict[str, Any],
    functions: ScanFunctions | None,
    *,
    bytes_max: int,
) -> Reput:
    config = config_of(manifest, store)
    log = CommitLogReader(fs, config)
    reput = Reput(fs, log, core_dispatchers(fs, config, log), config, functions=functions)
    end = log_end(store)
    reput.start(end, clean_exit=True)
    while reput.step(end, bytes_max, NOW_MS).more:
        pass
    reput.flush()
    assert reput.position == end
    return reput


@pytest.mark.parametrize("name", COPIED)
@pytest.mark.parametrize("bytes_max", [1, 1 << 30])
def test_a_copied_log(
    name: str, bytes_max: int, functions: ScanFunctions | None, files: OwnFiles, tmp_path: Path
) -> None:
    store, manifest = open_golden(name, tmp_path)
    expected, _ = open_golden(name, tmp_path, archive="rebuilt")
    reput = rebuild(files, store, manifest, functions, bytes_max=bytes_max)
    assert queue_files(store) == queue_files(expected)
    assert index_files(store) == index_files(expected)
    cursor = reput.statistics().cursor
    assert cursor.bad_stretches_count == cursor.size_mismatches_count == 0
    # Whole segments of 64 KiB are worth a bulk scan.
    assert (cursor.bulk_records_count > 0) == (functions is not None and cursor.position > 65536)


@pytest.mark.parametrize("name", LIVE)
def test_the_log_of_a_live_store(
    name: str, functions: ScanFunctions | None, files: OwnFiles, tmp_path: Path
) -> None:
    expected, manifest = open_golden(name, tmp_path)
    copied = tmp_path / "copied"
    copied.mkdir()
    (expected / "commitlog").rename(copied / "commitlog")
    rebuild(files, copied, manifest, functions, bytes_max=1 << 30)
    assert queue_files(copied) == queue_files(expected)
    assert index_files(copied) == index_files(expected)


def test_the_units_of_a_live_store_with_filters(
    functions: ScanFunctions | None, files: OwnFiles, tmp_path: Path
) -> None:
    expected, manifest = open_golden("filter_ext", tmp_path)
    copied = tmp_path / "copied"
    copied.mkdir()
    (expected / "commitlog").rename(copied / "commitlog")
    text = (expected / "config" / "consumerFilter.json").read_text()
    table = stored_filters(text)
    topics = json.loads(text)["filterDataByTopic"].values()
    born_ms = max(
        data["bornTime"] for topic in topics for data in topic["groupFilterData"].values()
    )
    registered_at = min(
        message["commitLogOffset"]
        for message in manifest["messages"]
        if message["storeTimestamp"] > born_ms
    )
    fs, config = files, config_of(manifest, copied)
    log = CommitLogReader(fs, config)
    found: list[FilterTable | None] = [None]
    dispatchers = core_dispatchers(fs, config, log, filters=lambda: found[0])
    reput = Reput(fs, log, dispatchers, config, functions=functions)
    end = log_end(copied)
    reput.start(end, clean_exit=True)
    for limit, now in ((registered_at, None), (end, table)):
        found[0] = now
        while reput.step(limit, 1 << 30, NOW_MS).more:
            pass
    reput.flush()
    assert reput.position == end
    assert queue_files(copied) == queue_files(expected)
    assert queue_files(copied, "consumequeue_ext") == queue_files(expected, "consumequeue_ext")
    assert len(queue_files(copied, "consumequeue_ext")) == 14
    assert index_files(copied) == index_files(expected)
