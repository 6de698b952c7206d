"""A session takes everything or nothing, and releases all of it."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.actors.bounded import on_loop
from tests.actors.plans import notified_plan, service_plan
from tests.actors.services.fakes import attach_request, make_watermarks
from wakelog.actors.services.session import Refused, ServiceSession
from wakelog.actors.transport.service_plan import ServicePlan
from wakelog.storage.file_system import FileSystem


def session(plan: ServicePlan) -> ServiceSession:
    return ServiceSession(plan, "reput", attach_request(), FileSystem())


def test_a_byte_is_held_by_one_session_at_a_time(short_path: Path) -> None:
    plan = service_plan(short_path)
    first = session(plan)
    with pytest.raises(Refused, match="already running"):
        session(plan)
    first.close()
    second = session(plan)
    assert not second.has_notifications and second.watermarks is None
    second.close()
    second.close()


@on_loop
async def test_without_watermarks_the_byte_is_released(
    short_path: Path,
) -> None:
    plan = notified_plan(short_path)
    for _ in range(2):
        with pytest.raises(Refused, match="No such file"):
            session(plan)


@on_loop
async def test_with_notifications_there_are_watermarks_a_socket_and_notifiers(
    short_path: Path,
) -> None:
    plan = notified_plan(short_path)
    page = make_watermarks(plan.watermarks_path)
    heard: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
    made = session(plan)
    made.listen(heard.set_result)
    assert made.has_notifications and made.watermarks is not None
    made.notifier_to("reput").send([(1,)])
    assert [tuple(note) for note in await asyncio.wait_for(heard, 5)] == [(1,)]
    make_watermarks(plan.watermarks_path).close()
    assert made.watermarks is None
    made.close()
    assert not plan.socket_path("reput").exists()
    page.close()


def test_what_was_registered_last_is_released_first_and_the_byte_after_all(
    short_path: Path,
) -> None:
    plan = service_plan(short_path)
    made, released = session(plan), []

    def note(name: str) -> None:
        with pytest.raises(Refused, match="already running"):
            session(plan)
        released.append(name)

    for name in ("first", "second"):
        made.on_release(partial(note, name))
    made.close()
    made.close()
    assert released == ["second", "first"]
    session(plan).close()
