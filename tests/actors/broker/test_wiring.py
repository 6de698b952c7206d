"""The parts of a broker, connected: what a new service needs beside its core and its file."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.actors.bounded import on_loop
from tests.actors.broker.test_service import local_plan
from tests.actors.deployments import wait_until
from tests.actors.services.test_service import is_locked
from tests.actors.services.toy_service import ROW, ToyClient
from wakelog.actors.broker import wiring
from wakelog.actors.broker.wiring import make_follower, make_slaves, make_tables, subscribe
from wakelog.actors.deploy.local import start_local_broker
from wakelog.actors.services.schedule import ScheduleClient
from wakelog.actors.services.table import SERVICES
from wakelog.broker.broker import POSITIONS


@on_loop
async def test_positions_are_saved_when_what_they_count_is_durable(tmp_path: Path) -> None:
    waited: list[str] = []

    async def wait_durable() -> None:
        waited.append(table)

    paths = SimpleNamespace(config=str(tmp_path))
    store = SimpleNamespace(paths=paths)
    parts: list[Any] = [
        SimpleNamespace(fs=None, plan=SimpleNamespace(settings=SimpleNamespace(store=store))),
        SimpleNamespace(tables={}),
        SimpleNamespace(wait_durable=wait_durable),
    ]
    wait = make_tables(*parts)._wait_durable
    assert wait is not None
    for table in ("topics", "subscriptionGroup", *sorted(POSITIONS)):
        await wait(table)
    assert waited == ["consumerOffset", "delayOffset", "lmqConsumerOffset"]


def listeners_of(**parts: Any) -> dict[str, list[str]]:
    """Return whom the progress of a broker with these parts tells what."""
    lists = ("after_appended", "committed_listeners", "flushed_listeners", "dispatched_listeners")
    progress = SimpleNamespace(**{name: [] for name in lists})
    config = SimpleNamespace(ha_ack_durable=parts.pop("acknowledges_durable", False))
    found: dict[str, Any] = {"schedule": None, "slaves": None, "member": None, "follower": None}
    found |= parts
    service: Any = SimpleNamespace(
        **found,
        progress=progress,
        services=SimpleNamespace(find=lambda kind: found["schedule"]),
        store=SimpleNamespace(config=config),
    )
    subscribe(service)
    return {name: notified for name, notified in vars(progress).items() if notified}


MEMBER = SimpleNamespace(on_appended="member", on_flushed="member")
FOLLOWER = SimpleNamespace(on_flushed="follower")
SLAVES = SimpleNamespace(on_shippable="slaves")
SCHEDULE = SimpleNamespace(on_dispatched="schedule")


@pytest.mark.parametrize(
    ("parts", "notified"),
    [
        ({}, {}),
        ({"schedule": SCHEDULE}, {"dispatched_listeners": ["schedule"]}),
        ({"slaves": SLAVES}, {"committed_listeners": ["slaves"]}),
        ({"slaves": SLAVES, "acknowledges_durable": True}, {"flushed_listeners": ["slaves"]}),
        ({"follower": FOLLOWER}, {"flushed_listeners": ["follower"]}),
        (
            {"follower": FOLLOWER, "member": MEMBER},
            {"after_appended": ["member"], "flushed_listeners": ["member"]},
        ),
        (
            {"schedule": SCHEDULE, "member": MEMBER},
            {
                "after_appended": ["member"],
                "flushed_listeners": ["member"],
                "dispatched_listeners": ["schedule"],
            },
        ),
    ],
)
def test_each_part_hears_what_it_has_to_know_of_the_log(
    parts: dict[str, Any], notified: dict[str, list[str]]
) -> None:
    assert listeners_of(**parts) == notified


@pytest.mark.parametrize(
    ("appends", "ships", "is_member", "made"),
    [
        (True, True, False, ["slaves"]),
        (True, False, False, []),
        (True, True, True, []),
        (False, True, False, ["slaves", "follower"]),
        (False, False, False, ["follower"]),
        (False, True, True, ["follower"]),
    ],
)
def test_what_sends_the_log_and_what_copies_it(
    monkeypatch: pytest.MonkeyPatch, appends: bool, ships: bool, is_member: bool, made: list[str]
) -> None:
    """The members of a group with a register ship by themselves, and copy tables alone."""
    config = SimpleNamespace(appends=appends, ships=ships)
    part: Any = SimpleNamespace(
        store=SimpleNamespace(config=config),
        plan=None,
        client=None,
        pool=None,
        state=SimpleNamespace(replicas=None),
        end_of_turn_logged=None,
        get=lambda kind: SimpleNamespace(follow_deleted=None),
    )
    member: Any = SimpleNamespace() if is_member else None
    makers: dict[str, Callable[[], object]] = {
        "slaves": lambda: make_slaves(part, part, part, member),
        "follower": lambda: make_follower(part, part, part, part, part, member),
    }
    monkeypatch.setattr(wiring, "SlaveServer", lambda *parts: parts)
    monkeypatch.setattr(wiring, "HaClient", lambda *parts, **named: named["member"] is member)
    assert [name for name, make in makers.items() if make()] == made


@pytest.mark.process
@pytest.mark.slow
@on_loop
async def test_a_service_is_added_by_its_file_and_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SERVICES, "toy", ROW)
    plan = local_plan(tmp_path)
    broker = await start_local_broker(plan)
    client = broker.service.services.get(ToyClient)
    await wait_until(lambda: client.total == 40, "the sum")
    assert client.begin == 0 and is_locked(plan)
    schedule = broker.service.services.get(ScheduleClient)
    assert broker.service.progress.dispatched_listeners == [schedule.on_dispatched]
    statistics = broker.statistics()
    assert statistics["service_clients"]["attached"]["toy"]
    assert statistics["services"]["toy"] == {"total": 40}
    assert await broker.stop()
    assert not is_locked(plan)
