"""Whichever call of the disk fails: a service that is released, or refused, leaves nothing open."""

from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.actors.plans import service_plan
from tests.actors.services.fakes import EPOCH
from tests.actors.stores import known_of, make_service
from tests.fakes.stores import open_store, put
from tests.storage.test_failed_calls import FailingDisk
from wakelog.actors.services.reput import ReputService
from wakelog.actors.services.retention import RetentionService
from wakelog.actors.services.schedule import ScheduleService
from wakelog.actors.services.service import Service, ServiceHost
from wakelog.actors.services.session import Refused
from wakelog.protocol.names import SCHEDULE_TOPIC
from wakelog.storage.durability.store_lock import StoreLock

Host = ServiceHost[Any]

NOW_MS = 1_700_000_000_000


def dispatched(host: Host, end: int) -> None:
    host.call(EPOCH, "step", end)
    host.call(EPOCH, "follow_deleted", {"T": 0})
    host.call(EPOCH, "remove_queues", ["T"], [], end)
    host.call(EPOCH, "trim", 0)


def due(host: Host, end: int) -> None:
    host.call(EPOCH, "take_due", 0, end, {})


def retained(host: Host, end: int) -> None:
    snapshot = host.call(EPOCH, "lease", "test", None, end).get("snapshot", {})
    host.call(EPOCH, "run", end, end)
    host.call(EPOCH, "end_lease", snapshot.get("leaseId", ""))


@pytest.mark.parametrize(
    ("kind", "work"),
    [(ReputService, dispatched), (ScheduleService, due), (RetentionService, retained)],
    ids=["reput", "schedule", "retention"],
)
def test_whichever_call_fails_nothing_stays_open_and_the_next_attach_works(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[Service],
    work: Callable[[Host, int], None],
) -> None:
    monkeypatch.setattr(RetentionService, "_keep_sums", lambda *_: None)
    plan = service_plan(tmp_path, messageDelayLevel="1s")
    config, disk = plan.settings.store, FailingDisk()
    store = open_store(disk, config)
    delayed: dict[str, Any] = {"topic": SCHEDULE_TOPIC, "properties_text": "DELAY\x011"}
    put(store, b"1", b"2", topic="T", properties_text="KEYS\1k\2", now_ms=NOW_MS)
    put(store, b"3", now_ms=NOW_MS, **delayed)
    known, end = known_of(store), store.log.appended_offset
    crashed = FailingDisk(disk._disk)
    for inode in disk._disk.files.values():
        inode.locks.clear()
    failures = 0
    while True:
        disk = deepcopy(crashed)
        disk.fails_at = disk.calls_count + failures + 1
        host: Host = make_service(kind, plan, disk)
        with suppress(Refused):
            host.attach(known)
            work(host, end)
        host.release()
        assert disk.descriptor_count == 0, (failures, disk._disk)
        StoreLock(disk.other_process(), config.paths.lock).release()
        if disk.calls_count < disk.fails_at:
            break
        host.attach(known)
        work(host, end)
        host.release()
        assert disk.descriptor_count == 0, failures
        failures += 1
    assert failures > 1
