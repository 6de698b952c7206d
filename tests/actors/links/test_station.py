"""A station takes everything or nothing, and gives all of it back."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.actors.links.fakes import EPOCH, STORE_ID, attachment
from tests.actors.plans import service_plan
from wakelog.actors.links.service_plan import ServicePlan, Transport
from wakelog.actors.links.station import LockByte, Refused, Station
from wakelog.actors.links.words import Watermarks, make_page
from wakelog.storage.file_system import RealFileSystem

FS = RealFileSystem()


def station(plan: ServicePlan, **changes: Any) -> Station:
    options: dict[str, Any] = {"lock_byte": LockByte.REPUT, "answer": lambda notes: None}
    return Station(
        plan, "reput", attachment(), fs=FS, store=plan.settings.store, **{**options, **changes}
    )


def test_a_byte_is_held_by_one_station_at_a_time(short_path: Path) -> None:
    plan = service_plan(short_path)
    first = station(plan)
    with pytest.raises(Refused, match="already running"):
        station(plan)
    first.close()
    second = station(plan)
    assert not second.has_bells and not second.has_loop and second.page is None
    second.check(EPOCH)
    with pytest.raises(Refused, match="epoch 8 was asked for and 7 is attached"):
        second.check(EPOCH + 1)
    second.close()
    second.close()


def test_without_a_page_the_byte_is_given_back(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakelog.actors.links.station.open_logs", lambda *_: None)
    plan = service_plan(short_path, transport=Transport.BELLS, in_one_process=False)

    async def main() -> None:
        for _ in range(2):
            with pytest.raises(Refused, match="No such file"):
                station(plan)

    asyncio.run(main())


def test_with_bells_there_are_a_page_a_bell_and_lines(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakelog.actors.links.station.open_logs", lambda *_: None)
    plan = service_plan(short_path, transport=Transport.BELLS, in_one_process=False)
    values = Watermarks(0, 0, 0, 0, 0, 0)

    async def main() -> None:
        page = make_page(plan.words_path, UUID(STORE_ID), epoch_min=EPOCH, values=values)
        heard: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        made = station(plan, answer=heard.set_result)
        assert made.has_bells and made.has_loop and made.page is not None
        made.line_to("reput").send([(1,)])
        assert [tuple(note) for note in await asyncio.wait_for(heard, 5)] == [(1,)]
        make_page(plan.words_path, UUID(STORE_ID), epoch_min=EPOCH, values=values).close()
        assert made.page is None
        made.close()
        assert not plan.bell_path("reput").exists()
        page.close()

    asyncio.run(main())
