"""A station takes everything or nothing, and gives all of it back."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.actors.plans import service_plan
from tests.actors.services.fakes import EPOCH, STORE_ID, attachment
from wakelog.actors.services.session import LockByte, Refused, ServiceSession
from wakelog.actors.transport.service_plan import ServicePlan, Transport
from wakelog.actors.transport.shared_watermarks import InitialWatermarks, make_shared_watermarks
from wakelog.storage.file_system import RealFileSystem

FS = RealFileSystem()


def session(plan: ServicePlan, **changes: Any) -> ServiceSession:
    options: dict[str, Any] = {"lock_byte": LockByte.REPUT, "answer": lambda notes: None}
    return ServiceSession(
        plan, "reput", attachment(), fs=FS, store=plan.settings.store, **{**options, **changes}
    )


def test_a_byte_is_held_by_one_station_at_a_time(short_path: Path) -> None:
    plan = service_plan(short_path)
    first = session(plan)
    with pytest.raises(Refused, match="already running"):
        session(plan)
    first.close()
    second = session(plan)
    assert not second.has_notifications and not second.has_loop and second.page is None
    second.check(EPOCH)
    with pytest.raises(Refused, match="epoch 8 was asked for and 7 is attached"):
        second.check(EPOCH + 1)
    second.close()
    second.close()


def test_without_a_page_the_byte_is_given_back(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakelog.actors.services.session.open_logs", lambda *_: None)
    plan = service_plan(short_path, transport=Transport.NOTIFICATIONS, in_one_process=False)

    async def main() -> None:
        for _ in range(2):
            with pytest.raises(Refused, match="No such file"):
                session(plan)

    asyncio.run(main())


def test_with_notifications_there_are_a_page_a_notifications_and_lines(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakelog.actors.services.session.open_logs", lambda *_: None)
    plan = service_plan(short_path, transport=Transport.NOTIFICATIONS, in_one_process=False)
    values = InitialWatermarks(0, 0, 0, 0, 0, 0)

    async def main() -> None:
        page = make_shared_watermarks(
            plan.watermarks_path, UUID(STORE_ID), epoch_min=EPOCH, values=values
        )
        heard: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        made = session(plan, answer=heard.set_result)
        assert made.has_notifications and made.has_loop and made.page is not None
        made.notifier_to("reput").send([(1,)])
        assert [tuple(note) for note in await asyncio.wait_for(heard, 5)] == [(1,)]
        make_shared_watermarks(
            plan.watermarks_path, UUID(STORE_ID), epoch_min=EPOCH, values=values
        ).close()
        assert made.page is None
        made.close()
        assert not plan.socket_path("reput").exists()
        page.close()

    asyncio.run(main())
