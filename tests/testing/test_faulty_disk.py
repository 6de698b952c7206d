"""A disk is slow or full only while a test says so."""

import time
from pathlib import Path

from wakelog.storage.file_system import opened
from wakelog.testing.faulty_disk import FaultyDisk


def test_a_full_disk_has_no_free_byte(tmp_path: Path) -> None:
    disk = FaultyDisk()
    assert (disk.disk_usage(str(tmp_path)).used_percent or 0) < 100
    disk.is_full = True
    assert disk.disk_usage(str(tmp_path)).used_percent == 100


def test_a_slow_disk_syncs_late(tmp_path: Path) -> None:
    disk = FaultyDisk()
    disk.sync_seconds = 0.02
    with opened(disk, str(tmp_path / "file"), create=True) as fd:
        for sync in (disk.sync, disk.datasync):
            began_seconds = time.monotonic()
            sync(fd)
            assert time.monotonic() >= began_seconds + 0.02
