"""Work on a store: scratch files take no room, and a refused repair leaves everything in place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden_stores import open_golden
from wakelog.cli import log_work
from wakelog.cli.log_settings import store_config
from wakelog.cli.log_work import ScratchFileSystem, rebuild_into, rebuild_store, repair, verify
from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import DamagedStore


def test_scratch_files_are_holes(tmp_path: Path) -> None:
    fs = ScratchFileSystem()
    path = tmp_path / "file"
    fd = fs.open(str(path), create=True)
    fs.allocate(fd, 1 << 20)
    fs.allocate(fd, 10)
    fs.close(fd)
    assert path.stat().st_size == 1 << 20
    assert path.stat().st_blocks == 0


@pytest.mark.golden
def test_a_repair_that_recovery_refuses_moves_nothing(tmp_path: Path) -> None:
    store, _ = open_golden("ipv6", tmp_path)
    _, middle, _ = sorted((store / "commitlog").iterdir())
    middle.unlink()
    config = store_config(str(store), None, [])
    with pytest.raises(DamagedStore, match="is missing"):
        repair(config, scratch=str(tmp_path), show_progress=False)
    assert (store / "consumequeue").is_dir() and (store / "index").is_dir()


@pytest.mark.golden
@pytest.mark.slow
def test_a_large_log_goes_the_compiled_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_work, "BULK_LOG_BYTES_MIN", 0)
    store, _ = open_golden("basic", tmp_path)
    report = verify(store_config(str(store), None, []), scratch=str(tmp_path), show_progress=True)
    assert report.findings.kept == [] and report.entries_count == 808


def files_of(store: Path, folder: str) -> dict[str, bytes]:
    paths = (path for path in (store / folder).rglob("*") if path.is_file())
    return {str(path.relative_to(store)): path.read_bytes() for path in paths}


def reasons_of(config: StoreConfig, tmp_path: Path) -> set[str]:
    report = verify(config, scratch=str(tmp_path), show_progress=False)
    return {finding.reason for finding in report.findings.kept}


@pytest.mark.golden
@pytest.mark.parametrize("is_guarded", [False, True])
def test_units_are_verified_and_made_anew_with_the_bits_of_the_kept_filters(
    tmp_path: Path, is_guarded: bool
) -> None:
    store, _ = open_golden("filter_ext", tmp_path)
    kept = store / "config" / "consumerFilter.json"
    if is_guarded:  # as a broker of ours leaves it that was killed
        kept.rename(store / "config" / "consumerFilterKept.json")
        for link in (kept, kept.with_suffix(".json.bak")):
            link.unlink(missing_ok=True)
            link.symlink_to("/proc/1/fd/nothing")
    config = store_config(str(store), None, [])
    assert reasons_of(config, tmp_path) == set()


@pytest.mark.golden
def test_a_bit_that_is_missing_is_damage_and_repaired(tmp_path: Path) -> None:
    store, _ = open_golden("filter_ext", tmp_path)
    config = store_config(str(store), None, [])
    path = store / "consumequeue_ext" / "FilterTopic" / "3" / f"{2048:020d}"
    whole = path.read_bytes()
    # One byte of a bitmap that is not zero: whichever bits it has, some group needs them.
    at = next(i for i in range(len(whole)) if i % 34 >= 20 and whole[i])
    path.write_bytes(whole[:at] + b"\0" + whole[at + 1 :])
    [reason] = reasons_of(config, tmp_path)
    assert reason == "another extension unit than the record's"
    report = repair(config, scratch=str(tmp_path), show_progress=False)
    assert report.after.findings.kept == []
    first = files_of(store, "consumequeue_ext")
    assert len(first) == 14
    assert list((store / "wakelog.quarantine").glob("replaced.*/consumequeue_ext/FilterTopic/3"))
    rebuild_store(config, show_progress=False)
    assert files_of(store, "consumequeue_ext") == first
    assert reasons_of(config, tmp_path) == set()


@pytest.mark.golden
@pytest.mark.parametrize("damage", ["no file", "a text that is none", "no filters"])
def test_without_kept_filters_units_have_no_bitmaps(tmp_path: Path, damage: str) -> None:
    store, _ = open_golden("filter_ext", tmp_path)
    for path in (store / "config").glob("consumerFilter.json*"):
        path.unlink()
        if damage != "no file":
            path.write_text("{}" if damage == "no filters" else "no JSON")
    config = store_config(str(store), None, [])
    target = tmp_path / "into"
    rebuild_into(config, str(target), show_progress=False)
    found = files_of(target, "consumequeue_ext")
    assert found and all(data[:2] == b"\0\x14" for data in found.values())
