"""A plan survives the way to an actor as plain parts."""

import json
from pathlib import Path

from tests.actors.plans import service_plan
from wakelog.actors.transport.service_plan import Transport, memory_directory, read_plan


def test_a_plan_travels_as_plain_parts(tmp_path: Path) -> None:
    plan = service_plan(tmp_path, flushDiskType="SYNC_FLUSH", brokerName="b")
    builtins = plan.to_builtins()
    assert read_plan(json.loads(json.dumps(builtins))) == plan
    assert read_plan(builtins).settings.store.synchronous_flush
    assert plan.name == "b"


def test_only_processes_of_their_own_have_notifications(tmp_path: Path) -> None:
    has_notifications = {
        (transport, in_one_process): service_plan(
            tmp_path, transport=transport, in_one_process=in_one_process
        ).has_notifications
        for transport in Transport
        for in_one_process in (True, False)
    }
    assert [key for key, value in has_notifications.items() if value] == [
        (Transport.NOTIFICATIONS, False)
    ]


def test_paths_of_one_broker_are_its_own(tmp_path: Path) -> None:
    plan = service_plan(tmp_path)
    assert plan.watermarks_path.parent == plan.socket_path("reput").parent == tmp_path / "run"
    assert Path(memory_directory()).is_dir()
