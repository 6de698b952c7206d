"""Whoever still writes for a broker that died is waited for, then killed; nobody else is."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from wakelog.actors.broker import store_holders
from wakelog.actors.broker.store_holders import end_holders
from wakelog.actors.services.table import SERVICES
from wakelog.storage.durability.store_lock import StoreLock
from wakelog.storage.file_system import FileSystem

pytestmark = pytest.mark.process

LOCK_BYTES = {name: row.lock_byte for name, row in SERVICES.items() if row.lock_byte is not None}

_HOLD = """
import sys
from wakelog.storage.file_system import FileSystem
from wakelog.storage.durability.store_lock import StoreLock
lock = StoreLock(FileSystem(), sys.argv[1], int(sys.argv[2]))
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def holder(path: Path, byte: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that holds a byte until its input ends."""
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(path), str(byte)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def test_a_store_without_holders_is_free_at_once(tmp_path: Path) -> None:
    fs = FileSystem()
    lock = StoreLock(fs, str(tmp_path / "lock"))
    assert end_holders(fs, str(tmp_path / "lock"), LOCK_BYTES) == []
    lock.release()


def test_a_holder_that_lets_go_is_not_killed(tmp_path: Path) -> None:
    fs = FileSystem()
    with holder(tmp_path / "lock", LOCK_BYTES["reput"]) as process:
        lock = StoreLock(fs, str(tmp_path / "lock"))
        assert process.stdin is not None
        threading.Timer(0.05, process.stdin.close).start()
        assert end_holders(fs, str(tmp_path / "lock"), LOCK_BYTES) == []
        assert process.wait() == 0
        lock.release()


def test_a_holder_that_does_not_let_go_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_holders, "RELEASE_SECONDS_MAX", 0.05)
    fs = FileSystem()
    with (
        holder(tmp_path / "lock", LOCK_BYTES["reput"]) as first,
        holder(tmp_path / "lock", LOCK_BYTES["commit"]) as second,
    ):
        lock = StoreLock(fs, str(tmp_path / "lock"))
        assert sorted(end_holders(fs, str(tmp_path / "lock"), LOCK_BYTES)) == sorted(
            [first.pid, second.pid]
        )
        assert first.wait() == second.wait() == -9
        for byte in LOCK_BYTES.values():
            StoreLock(fs, str(tmp_path / "lock"), byte).release()
        lock.release()
    assert os.path.exists(tmp_path / "lock")
