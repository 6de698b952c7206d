"""Opening a broker's store: its id stays, and what still writes it for a dead broker ends first."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from tests.actors.deployments import small_plan
from tests.actors.plans import SEGMENT_BYTES, service_plan
from wakelog.actors.broker import opening
from wakelog.actors.broker.opening import OpenedStore, end_holders, is_log_empty, open_store
from wakelog.actors.services.table import SERVICES
from wakelog.actors.transport.service_plan import ServicePlan
from wakelog.storage.durability.store_lock import StoreLock
from wakelog.storage.errors import StoreError, StoreLocked
from wakelog.storage.file_system import FileSystem

pytestmark = pytest.mark.process


def plan_of(directory: Path) -> ServicePlan:
    port = small_plan(directory).brokers[0].settings.broker.listen_port
    return service_plan(directory, listenPort=port)


def opened(plan: ServicePlan, expected_store_id: str | None = None) -> OpenedStore:
    return open_store(FileSystem(), plan, expected_store_id)


def test_a_store_keeps_the_id_it_got_when_it_was_new(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    first = opened(plan)
    assert first.store.close(dispatch_behind_bytes=0)
    again = opened(plan, first.store_id)
    assert again.store_id == first.store_id
    assert again.store.close(dispatch_behind_bytes=0)


def test_an_actor_opens_its_logs_with_the_lock_and_a_part_of_a_process_leaves_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs: list[tuple[str, str]] = []
    monkeypatch.setattr(
        opening, "open_logs", lambda plan, actor, epoch, broker: logs.append((actor, broker))
    )
    plan = plan_of(tmp_path)
    for is_one, expected in ((True, []), (False, [("broker", plan.name)])):
        found = opened(msgspec.structs.replace(plan, in_one_process=is_one))
        found.store.close(dispatch_behind_bytes=0)
        assert logs == expected
    held = opened(plan).store
    with pytest.raises(StoreLocked):
        opened(msgspec.structs.replace(plan, in_one_process=False))
    held.close(dispatch_behind_bytes=0)
    assert len(logs) == 1, "the logs are the other broker's"


def test_another_store_than_expected_is_let_go(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    first = opened(plan)
    first.store.close(dispatch_behind_bytes=0)
    with pytest.raises(StoreError, match=first.store_id):
        opened(plan, "00000000-0000-0000-0000-000000000001")
    again = opened(plan)  # its lock was given back
    assert again.store_id == first.store_id
    again.store.close(dispatch_behind_bytes=0)


def test_the_empty_log_of_a_slave_begins_where_its_masters_does(tmp_path: Path) -> None:
    port = small_plan(tmp_path).brokers[0].settings.broker.listen_port
    plan = service_plan(tmp_path, listenPort=port, brokerRole="SLAVE", brokerId=1)
    begin = 3 * SEGMENT_BYTES
    assert is_log_empty(FileSystem(), plan.settings.store)
    store = open_store(FileSystem(), plan, None, begin).store
    assert (store.min_physical_offset, store.log.end_offset) == (begin, begin)
    store.append_bytes(begin, b"abc", stored_ms=0, now_ms=0)
    store.close(dispatch_behind_bytes=1)
    assert not is_log_empty(FileSystem(), plan.settings.store)
    store = open_store(FileSystem(), plan, None, 7 * SEGMENT_BYTES).store
    assert store.min_physical_offset == begin
    store.close(dispatch_behind_bytes=0)


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


def test_a_holder_that_lets_go_is_not_killed(tmp_path: Path) -> None:
    fs, path = FileSystem(), str(tmp_path / "lock")
    with holder(tmp_path / "lock", LOCK_BYTES["reput"]) as process:
        lock = StoreLock(fs, path)
        assert process.stdin is not None
        threading.Timer(0.05, process.stdin.close).start()
        end_holders(fs, path, LOCK_BYTES)
        assert process.wait() == 0
        end_holders(fs, path, LOCK_BYTES)  # free at once
        lock.release()


def test_a_holder_that_does_not_let_go_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "RELEASE_SECONDS_MAX", 0.05)
    fs, path = FileSystem(), str(tmp_path / "lock")
    with (
        holder(tmp_path / "lock", LOCK_BYTES["reput"]) as first,
        holder(tmp_path / "lock", LOCK_BYTES["commit"]) as second,
    ):
        lock = StoreLock(fs, path)
        end_holders(fs, path, LOCK_BYTES)
        assert first.wait() == second.wait() == -9
        for byte in LOCK_BYTES.values():
            StoreLock(fs, path, byte).release()
        lock.release()
    assert os.path.exists(path)
