"""Work on a store: scratch files take no room, and a refused repair leaves everything in place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden_stores import open_golden
from wakelog.cli import log_work
from wakelog.cli.log_settings import store_config
from wakelog.cli.log_work import ScratchFileSystem, repair, verify
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
