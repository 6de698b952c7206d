"""Services of others: found by name, run apart, and what they raise stays with them."""

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest

from examples.service_plugin import StoreSizes
from tests.actors.bounded import on_loop
from tests.actors.plans import service_plan
from tests.actors.services.fakes import EPOCH, attach_request
from wakelog.actors.services.added_services import (
    ENTRY_POINT_GROUP,
    ERROR_CHARACTERS_MAX,
    VALUES_MAX,
    AddedService,
    offered_services,
)
from wakelog.actors.services.service import ServiceHost
from wakelog.actors.services.session import AttachRequest
from wakelog.actors.services.table import load
from wakelog.actors.transport.service_plan import ServicePlan, ServiceRow

HERE = "tests.actors.services.test_added_services"
EXAMPLE = "examples.service_plugin:StoreSizes"


class Sound:
    """A core that does what it should."""

    log: ClassVar[list[str]] = []

    def __init__(self, plan: ServicePlan) -> None:
        self._plan = plan

    def attach(self, request: AttachRequest) -> None:
        self.log.append(f"attach {request.epoch}")

    def release(self) -> None:
        self.log.append("release")

    def statistics(self) -> Mapping[str, float]:
        return {"answer": 42}


class Raising(Sound):
    """A core that raises at one point."""

    at = end = ""

    def _raise(self, point: str) -> None:
        if self.at == point:
            raise RuntimeError(f"no {point}{self.end}")

    def __init__(self, plan: ServicePlan) -> None:
        self._raise("init")
        super().__init__(plan)

    def attach(self, request: AttachRequest) -> None:
        self._raise("attach")

    def release(self) -> None:
        self._raise("release")

    def statistics(self) -> Mapping[str, float]:
        self._raise("statistics")
        return {}


class Wordy(Sound):
    """A core that says more than there is room for, and not only numbers."""

    def statistics(self) -> Mapping[str, float]:
        words: dict[str, float] = {"name": "text"}  # type: ignore[dict-item]
        return {**words, **{f"v{number}": number for number in range(2 * VALUES_MAX)}}


@pytest.fixture(autouse=True)
def nothing_logged() -> None:
    Sound.log.clear()


def service_of(directory: Path, target: str) -> ServiceHost[AddedService]:
    plan = service_plan(directory, in_one_process=False)
    kind = f"{AddedService.__module__}:AddedService"
    row = ServiceRow(actor_name="It", service=kind, core=target)
    plan = msgspec.structs.replace(plan, added_services={"it": row})
    return ServiceHost(plan.to_builtins(), "it")


KNOWN = dict(msgspec.to_builtins(attach_request()))


@on_loop
async def test_a_core_has_the_life_of_its_broker(tmp_path: Path) -> None:
    service = service_of(tmp_path, f"{HERE}:Sound")
    assert service.statistics() == {}
    assert service.attach(KNOWN)["process_id"] > 0
    assert service.statistics()["values"] == {"answer": 42}
    service.attach(KNOWN)
    service.release()
    service.release()
    assert Sound.log == [f"attach {EPOCH}", "release", f"attach {EPOCH}", "release"]
    assert service.statistics() == {
        "attached_count": 2,
        "failures_count": 0,
        "last_error": "",
        "values": {},
    }


@pytest.mark.parametrize("point", ["init", "attach", "release", "statistics"])
@on_loop
async def test_what_a_core_raises_stays_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    monkeypatch.setattr(Raising, "at", point)
    service = service_of(tmp_path, f"{HERE}:Raising")
    service.attach(KNOWN)
    service.statistics()
    service.release()
    statistics = service.statistics()
    assert statistics["failures_count"] == 1
    assert statistics["last_error"] == f"RuntimeError: no {point}"


@pytest.mark.parametrize("more", [-1, 0, 1])
@on_loop
async def test_of_a_long_error_the_begin_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    whole = "RuntimeError: no attach"
    whole += "." * (ERROR_CHARACTERS_MAX + more - len(whole))
    monkeypatch.setattr(Raising, "at", "attach")
    monkeypatch.setattr(Raising, "end", whole.removeprefix("RuntimeError: no attach"))
    service = service_of(tmp_path, f"{HERE}:Raising")
    service.attach(KNOWN)
    assert service.statistics()["last_error"] == whole[:ERROR_CHARACTERS_MAX]


@pytest.mark.parametrize(
    ("target", "error"),
    [("no.such.module:It", "ModuleNotFoundError"), ("json:It", "AttributeError")],
)
@on_loop
async def test_what_cannot_be_imported_says_so(tmp_path: Path, target: str, error: str) -> None:
    service = service_of(tmp_path, target)
    service.attach(KNOWN)
    assert error in service.statistics()["last_error"]


@on_loop
async def test_there_is_room_for_some_numbers_only(tmp_path: Path) -> None:
    service = service_of(tmp_path, f"{HERE}:Wordy")
    service.attach(KNOWN)
    values = service.statistics()["values"]
    assert list(values) == [f"v{number}" for number in range(VALUES_MAX)]


def point(name: str, value: str = EXAMPLE) -> EntryPoint:
    return EntryPoint(name, value, ENTRY_POINT_GROUP)


def test_names_that_cannot_be_are_left_out() -> None:
    names = ["store_sizes", "flush", "broker", "name_server", "../x", "Upper", "sound"]
    offered = offered_services([*map(point, names), point("sound", "json:dumps")])
    assert {name: row.core for name, row in offered.items()} == {
        "sound": EXAMPLE,
        "store_sizes": EXAMPLE,
    }
    assert offered_services() == {}


def test_an_actor_is_called_as_ours_are() -> None:
    [row] = offered_services([point("store_sizes")]).values()
    assert row.actor_name == "StoreSizes" and load(row.service) is AddedService


def test_the_example_says_what_the_store_takes(tmp_path: Path) -> None:
    plan = service_plan(tmp_path)
    folder = tmp_path / "store" / "commitlog"
    folder.mkdir(parents=True)
    (folder / "0").write_bytes(b"x" * 10_000)
    core = StoreSizes(plan)
    core.attach(attach_request())
    values = core.statistics()
    assert values["epoch"] == EPOCH
    assert values["commitlog"] >= 10_000
    core.release()
