"""Retention's shell: removes what may go, and says what it saw."""

import os
import threading
import time
from pathlib import Path

import msgspec
import pytest

from tests.actors.links.fakes import EPOCH
from tests.actors.plans import SEGMENT_BYTES, service_plan
from tests.actors.stores import fill, known_of, open_plan_store
from wakelog.actors.links.station import Refused
from wakelog.actors.retention import RetentionOutcome, RetentionService
from wakelog.storage.file_system import RealFileSystem
from wakelog.storage.state.watermark import Watermark


def test_expired_segments_go_up_to_what_is_dispatched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakelog.storage.retention.retention.FIRST_RUN_DELAY_MS", 0)
    every_hour = ";".join(str(hour) for hour in range(24))
    plan = service_plan(
        tmp_path, deleteWhen=every_hour, fileReservedTime=1, deleteCommitLogFilesInterval=1
    )
    service = RetentionService(plan.to_builtins())
    with open_plan_store(plan) as store:
        end = 0
        while end < 3 * SEGMENT_BYTES:
            end = fill(store, 50)
        for file in store.log.files.files:
            os.utime(file.path, (1_000_000_000, 1_000_000_000))
        service.attach(known_of(store))
        run = service.run(EPOCH, end, 2 * SEGMENT_BYTES + 1)
        outcome = msgspec.convert(run, RetentionOutcome)
        assert [Path(path).name for path in outcome.removed] == ["0" * 20, f"{SEGMENT_BYTES:020d}"]
        assert outcome.begin == 2 * SEGMENT_BYTES
        assert not any(Path(path).exists() for path in outcome.removed)
        again = msgspec.convert(service.run(EPOCH, end, end), RetentionOutcome)
        assert again.derived_before == 2 * SEGMENT_BYTES
        assert service.statistics()["removed_count"] == 3
        service.release()


def test_a_call_that_is_not_for_it_is_refused(tmp_path: Path) -> None:
    plan = service_plan(tmp_path)
    service = RetentionService(plan.to_builtins())
    with pytest.raises(Refused):
        service.run(EPOCH, 0, 0)
    with open_plan_store(plan) as store:
        service.attach(known_of(store))
        with pytest.raises(Refused):
            service.run(EPOCH + 1, 0, 0)
        service.release()


def test_what_is_durable_gets_sums_beside(tmp_path: Path) -> None:
    plan = service_plan(tmp_path)
    service = RetentionService(plan.to_builtins())
    with open_plan_store(plan) as store:
        end = fill(store, 200)
        watermark = Watermark(RealFileSystem(), plan.settings.store.paths.watermark)
        watermark.note(end, 0)
        watermark.close()
        assert service.statistics() == {}
        service.attach(known_of(store))
        limit = time.monotonic() + 10
        while service.statistics()["compared_bytes"] == 0 and time.monotonic() < limit:
            time.sleep(0.01)
        found = service.statistics()
        service.release()
        assert 0 < found["summed_bytes"] <= end < found["summed_bytes"] + SEGMENT_BYTES
        assert found["changed_blocks_count"] == found["sum_failures_count"] == 0
        names = {path.name for path in Path(plan.settings.store.paths.sums_directory).iterdir()}
        assert "0" * 20 in names
    assert not [one for one in threading.enumerate() if one.name == "sums"]
