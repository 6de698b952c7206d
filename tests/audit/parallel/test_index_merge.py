"""Parts of a rebuild, run in any order, make what going through the log in order makes."""

from __future__ import annotations

import itertools

import pytest

from tests.audit.parallel.parts import (
    derived_files,
    merge_all,
    random_log,
    rebuild_in_order,
    scan_all,
    target_config,
)
from tests.dispatchers.stores import NOW_MS, dispatch_config
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.records import LogBytes, properties
from wakelog.audit.parallel.index_merge import plan_index
from wakelog.storage.config import StoreConfig
from wakelog.storage.kernels.kernels import Kernels

SEGMENT_BYTES = 128 << 10
CONFIG = dispatch_config(
    commit_log_file_bytes=SEGMENT_BYTES,
    enable_multi_dispatch=True,
    enable_lmq=True,
    index_slot_count=97,
    index_entry_count=400,
)


def both(
    log: LogBytes, config: StoreConfig, kernels: Kernels | None = None
) -> list[tuple[dict[str, bytes], list[bytes]]]:
    """Return what both ways make of a log."""
    fs = MemoryFileSystem()
    fs.make_directories("/store")
    log.write(fs, config)
    rebuild_in_order(fs, config, "/ordered")
    fs.make_directories("/parts")
    made = target_config(config, "/parts")
    merge_all(fs, made, scan_all(fs, config, log, kernels), kernels)
    return [derived_files(fs, "/ordered"), derived_files(fs, "/parts")]


@pytest.mark.parametrize("seed", range(6))
def test_any_log_gives_the_same_files(seed: int, kernels: Kernels | None) -> None:
    log = random_log(seed, segment_bytes=SEGMENT_BYTES, count=1500)
    assert log.end - log.begin > 3 * SEGMENT_BYTES
    ordered, parts = both(log, CONFIG, kernels)
    assert parts[0].keys() == ordered[0].keys() and len(parts[0]) > 20
    assert parts == ordered
    assert len(parts[1]) > 5


@pytest.mark.parametrize("keyed", range(5))
@pytest.mark.parametrize("keyless", range(2))
def test_a_full_file_gets_a_successor_with_the_next_record(keyed: int, keyless: int) -> None:
    config = dispatch_config(index_entry_count=3)
    log = LogBytes(4096)
    for i in range(keyed + keyless):
        log.add(properties(KEYS=f"k{i}") if i < keyed else b"", queue_offset=i)
    ordered, parts = both(log, config)
    assert parts == ordered
    assert len(parts[1]) == (keyed + keyless + 1) // 2 if keyed % 2 == 0 else (keyed + 1) // 2


def test_without_an_index_there_is_none() -> None:
    log = random_log(9, segment_bytes=SEGMENT_BYTES, count=50)
    config = dispatch_config(commit_log_file_bytes=SEGMENT_BYTES, message_index_enable=False)
    ordered, parts = both(log, config)
    assert parts == ordered and parts[1] == []


def test_names_go_up_and_hold_all_keys() -> None:
    fs = MemoryFileSystem()
    log = random_log(1, segment_bytes=SEGMENT_BYTES, count=900)
    fs.make_directories("/store")
    log.write(fs, CONFIG)
    summaries = scan_all(fs, CONFIG, log)
    parts = plan_index(summaries, CONFIG, NOW_MS)
    assert [part.name for part in parts] == sorted({part.name for part in parts})
    assert parts[0].begin == 0 and parts[-1].end == sum(x.keys_count for x in summaries)
    assert all(a.end == b.begin for a, b in itertools.pairwise(parts))
