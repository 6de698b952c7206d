"""Recovery is measured over a store that a killed owner left, and report by size and page cache."""

import json
from pathlib import Path

import pytest

from benchmarks import recovery
from benchmarks.recovery import Owner, Recovery, described, forget_pages, save
from wakelog.storage.config import StoreConfig


def a_round(gigabytes: int = 1, *, cold: bool = False, open_ms: int = 100) -> Recovery:
    return Recovery(
        gigabytes=gigabytes,
        cold=cold,
        log_bytes=gigabytes * 10**9,
        open_ms=open_ms,
        dispatch_ms=50,
        checked_bytes=2_000_000,
        records_checked=2_000,
        dispatched_bytes=1_000_000,
    )


def test_median_and_worst_of_each_size() -> None:
    rounds = [a_round(open_ms=ms) for ms in (100, 300, 200)] + [a_round(4, cold=True)]
    rows = described(rounds).splitlines()[-2:]
    assert rows == [
        "| 1 GB | warm | 3 | 200 | 50 | 250 | 350 | 2 | 1 |",
        "| 4 GB | cold | 1 | 100 | 50 | 150 | 150 | 2 | 1 |",
    ]


def test_a_size_that_is_measured_again_takes_the_place_of_the_older(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "RESULTS", tmp_path)
    save([a_round(4), a_round(1)])
    save([a_round(1, open_ms=7)])
    kept = json.loads((tmp_path / "recovery.json").read_text())["rounds"]
    assert [(one["gigabytes"], one["open_ms"]) for one in kept] == [(1, 7), (4, 100)]
    assert "| 4 GB |" in (tmp_path / "recovery.md").read_text()


@pytest.mark.slow
def test_what_an_owner_leaves_is_recovered_by_the_next(tmp_path: Path) -> None:
    config = StoreConfig(
        store_path_root=str(tmp_path),
        commit_log_file_bytes=1 << 20,
        index_slot_count=1_000,
        index_entry_count=10_000,
    )
    first = Owner(config)
    assert first.report["log_bytes"] == 0
    for _ in range(4):
        first.write()
        first.flush_derived()
    first.write()
    written = first.log_bytes
    first.abandon()
    forget_pages(tmp_path)
    second = Owner(config)
    assert second.report["log_bytes"] == second.log_bytes == written
    # What was made durable is not looked at again.
    assert second.report["records_checked"] == recovery.BATCH_COUNT
    assert 0 < second.report["dispatched_bytes"] < written / 3
    second.abandon()
