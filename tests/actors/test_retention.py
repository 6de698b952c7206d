"""Retention's shell: removes what may go, and says what it saw."""

import os
from pathlib import Path

import msgspec
import pytest

from tests.actors.links.fakes import EPOCH
from tests.actors.plans import SEGMENT_BYTES, service_plan
from tests.actors.stores import fill, known_of, open_plan_store
from wakelog.actors.links.station import Refused
from wakelog.actors.retention import RetentionOutcome, RetentionService


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
