"""From the commit log alone, the same queues and index as the real 4.9.3 broker built, byte for byte.

The fixtures `copied_log_*` hold what that broker wrote when it was started on a copied log.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.golden_stores import open_golden
from wakelog.dispatchers import core_dispatchers
from wakelog.dispatchers.reput import Reput
from wakelog.storage.bulk.loader import Kernels, compile_kernels
from wakelog.storage.commit_log_reader import CommitLogReader
from wakelog.storage.config import BrokerRole, StoreConfig
from wakelog.storage.file_system import RealFileSystem

FIXTURES = ("copied_log_basic", "copied_log_multi_dispatch", "copied_log_delay_tx_retry")


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
    )


def queue_files(store: Path) -> dict[str, bytes]:
    root = store / "consumequeue"
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def index_files(store: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted((store / "index").iterdir())]


def rebuild(store: Path, manifest: dict[str, Any], *, bytes_max: int, kernels: Kernels | None) -> Reput:
    fs = RealFileSystem()
    config = config_of(manifest, store)
    log = CommitLogReader(fs, config)
    reput = Reput(
        fs, log, core_dispatchers(fs, config, log), config, kernels=lambda: kernels
    )
    end = log_end(store, config)
    reput.start(end, clean_exit=True)
    while reput.step(end, bytes_max, 1_700_000_000_000).more:
        pass
    reput.flush()
    assert reput.position == end
    return reput


def log_end(store: Path, config: StoreConfig) -> int:
    from wakelog.storage.record_check import CheckKind, check_record

    path = max((store / "commitlog").iterdir())
    data = path.read_bytes()
    position = 0
    while (check := check_record(data, position, int(path.name) + position, len(data))).kind is CheckKind.SOUND:
        position += check.size_bytes
    return int(path.name) + position


@pytest.mark.parametrize("name", FIXTURES)
@pytest.mark.parametrize("bytes_max", [1, 1 << 30])
@pytest.mark.parametrize("bulk", [False, True])
def test_rebuilt(name: str, bytes_max: int, bulk: bool, tmp_path: Path) -> None:
    store, manifest = open_golden(name, tmp_path)
    expected, _ = open_golden(name, tmp_path, archive="rebuilt")
    rebuild(store, manifest, bytes_max=bytes_max, kernels=compile_kernels() if bulk else None)
    assert queue_files(store) == queue_files(expected)
    assert index_files(store) == index_files(expected)
