"""A service is attached, called by one epoch only, and released; adding one takes a row."""

import asyncio
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import Mock

import msgspec
import pytest

from tests.actors.bounded import on_loop
from tests.actors.deployments import wait_until
from tests.actors.plans import notified_plan, service_plan
from tests.actors.services.fakes import EPOCH, attach_request, make_watermarks
from tests.actors.services.toy_service import ROW, ToyService
from tests.actors.stores import known_of, open_plan_store
from tests.compat.processes import free_port
from wakelog.actors.services import service as service_module
from wakelog.actors.services.service import Service, ServiceHost, Session
from wakelog.actors.services.session import Refused
from wakelog.actors.services.table import SERVICES
from wakelog.actors.transport.notifications import Note, Notifier
from wakelog.actors.transport.service_plan import ServicePlan
from wakelog.storage.durability.store_lock import StoreLock
from wakelog.storage.errors import StoreFull
from wakelog.storage.file_system import FileSystem

LOG_END = 1_000
ROOT = Path(__file__).parents[3]


def known(**changes: Any) -> dict[str, Any]:
    return dict(msgspec.to_builtins(attach_request(appended=LOG_END, **changes)))


def toy_plan(directory: Path) -> ServicePlan:
    (directory / "store").mkdir()
    return msgspec.structs.replace(service_plan(directory), added_services={"toy": ROW})


def is_locked(plan: ServicePlan) -> bool:
    assert ROW.lock_byte is not None
    try:
        StoreLock(FileSystem(), plan.settings.store.paths.lock, ROW.lock_byte).release()
    except Exception:
        return True
    return False


@on_loop
async def test_a_service_of_its_own_process_has_logs_and_returns_memory_while_attached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs: list[tuple[object, ...]] = []
    monkeypatch.setattr(service_module, "open_logs", lambda plan, *words: logs.append(words))
    one = toy_plan(tmp_path)
    for in_one_process in (True, False):
        plan = msgspec.structs.replace(one, in_one_process=in_one_process)
        service = ServiceHost[ToyService](plan.to_builtins(), "toy")
        service.attach(known())
        assert service._free_memory._timer.is_running is not in_one_process
        service.release()
        assert not service._free_memory._timer.is_running
    assert logs == [("toy", EPOCH, one.name)]


def test_a_service_works_from_attach_to_release(tmp_path: Path) -> None:
    plan = toy_plan(tmp_path)
    service = ServiceHost[ToyService](plan.to_builtins(), "toy")
    assert service.statistics() == {}
    answer = service.attach(known())
    assert answer["total"] == LOG_END and answer["process_id"] > 0
    assert is_locked(plan)
    assert service.call(EPOCH, "add", 5) == LOG_END + 5
    assert service.statistics() == {"total": LOG_END + 5}
    core = service.attached._core
    service.release()
    service.release()
    assert core.total == LOG_END + 6, "what was registered is released once"
    assert not is_locked(plan) and service.statistics() == {}


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_refuses_calls_that_are_not_for_it(short_path: Path, name: str) -> None:
    plan = service_plan(short_path, listenPort=free_port(-2, 1))
    service = ServiceHost[Service](plan.to_builtins(), name)
    with pytest.raises(Refused, match="not attached"):
        service.call(EPOCH, "counters")
    with open_plan_store(plan) as store:
        service.attach(known_of(store))
        service.call(EPOCH, "counters")
        settings = msgspec.to_builtins(plan.settings.store)
        assert not service.call(EPOCH, "use_settings", settings)
        settings |= {"messageIndexEnable": False}
        needs_attach = service.call(EPOCH, "use_settings", settings)
        assert needs_attach is (name == "reput"), "the index is open while it is attached"
        with pytest.raises(Refused, match=f"epoch {EPOCH + 1} was asked for"):
            service.call(EPOCH + 1, "counters")
        service.release()
    with pytest.raises(Refused, match="not attached"):
        service.call(EPOCH, "counters")


def test_a_call_that_is_not_for_it_is_refused(tmp_path: Path) -> None:
    service = ServiceHost[ToyService](toy_plan(tmp_path).to_builtins(), "toy")
    with pytest.raises(Refused, match="not attached"):
        service.call(EPOCH, "add", 1)
    service.attach(known())
    with pytest.raises(Refused, match=f"epoch {EPOCH + 1} was asked for and {EPOCH} is attached"):
        service.call(EPOCH + 1, "add", 1)
    service.attach(known(epoch=EPOCH + 1))
    assert service.call(EPOCH + 1, "add", 1) == LOG_END + 1, "an attach begins from nothing"
    service.release()


class Idle(Service):
    """Holds what every service holds."""


def test_a_byte_is_held_by_one_service_at_a_time_and_released_after_all(tmp_path: Path) -> None:
    plan = toy_plan(tmp_path)
    first, second = (ServiceHost(plan.to_builtins(), "toy", kind=Idle) for _ in range(2))
    first.attach(known())
    with pytest.raises(Refused, match="already running"):
        second.attach(known())
    assert not first.attached.has_notifications and first.attached.watermarks is None
    released = []

    def note(name: str) -> None:
        assert is_locked(plan)
        released.append(name)

    for name in ("first", "second"):
        first.attached.on_release(partial(note, name))
    first.release()
    first.release()
    assert released == ["second", "first"]
    second.attach(known())
    second.release()


@on_loop
async def test_without_watermarks_the_byte_is_released(short_path: Path) -> None:
    plan = notified_plan(short_path)
    (short_path / "store").mkdir()
    for _ in range(2):
        with pytest.raises(Refused, match="No such file"):
            ServiceHost(plan.to_builtins(), "reput", kind=Idle).attach(known())


@on_loop
async def test_with_notifications_there_are_watermarks_a_socket_and_notifiers(
    short_path: Path,
) -> None:
    plan = notified_plan(short_path)
    (short_path / "store").mkdir()
    host = ServiceHost(plan.to_builtins(), "reput", kind=Idle)
    with closing(make_watermarks(plan.watermarks_path)):
        host.attach(known())
        service = host.attached
        heard: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        service.listen(heard.set_result)
        assert service.has_notifications and service.watermarks is not None
        notifier = service.notifier_to("reput")
        assert notifier is not None
        notifier.send([(1,)])
        assert [tuple(note) for note in await heard] == [(1,)]
        make_watermarks(plan.watermarks_path).close()
        assert service.watermarks is None
        host.release()
        assert not plan.socket_path("reput").exists()


class Failing(Service):
    """Raises after it registered what is to be released."""

    error: ClassVar[Exception]
    released: ClassVar[list[str]] = []

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.on_release(lambda: self.released.append(self.name))
        raise self.error


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (StoreFull("/store", "write", OSError(28, "No space left on device")), Refused),
        (ValueError("no such level"), Refused),
    ],
)
def test_a_service_that_cannot_be_made_leaves_nothing_held(
    tmp_path: Path, error: Exception, raised: type[Exception]
) -> None:
    plan = toy_plan(tmp_path)
    service = ServiceHost(plan.to_builtins(), "toy", kind=Failing)
    Failing.error = error
    for _ in range(2):
        Failing.released.clear()
        with pytest.raises(raised, match=r"No space left|no such level"):
            service.attach(known())
        assert Failing.released == ["toy"] and not is_locked(plan)
        with pytest.raises(Refused, match="not attached"):
            service.call(EPOCH, "counters")


@pytest.mark.ray
@pytest.mark.slow
def test_a_new_service_is_a_row_as_an_actor(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.actors.services.toy_broker", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["{'total': 40} {'total': 40}", "stopped"]


@on_loop
async def test_a_notification_that_failed_is_followed_by_another_try(
    short_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(service_module, "AGAIN_SECONDS", 0.0)
    plan = notified_plan(short_path)
    (short_path / "store").mkdir()
    host = ServiceHost(plan.to_builtins(), "reput", kind=Idle)
    with closing(make_watermarks(plan.watermarks_path)):
        host.attach(known())
    received: list[Note] = []

    def on_notified(notes: Note) -> None:
        received.append(notes)
        if len(received) == 1:
            raise KeyError("no place")

    host.attached.listen(on_notified)
    with closing(Notifier(plan.socket_path("reput"))) as notifier:
        notifier.send([(7,)])
        await wait_until(lambda: len(received) == 2, "another try")
    host.release()
    assert [list(map(list, notes)) for notes in received] == [[[7]], []]
    assert "no place" in caplog.text and "reput" in caplog.text


@on_loop
async def test_nothing_is_tried_again_after_the_release(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "AGAIN_SECONDS", 0.0)
    plan, received = notified_plan(short_path), list[Note]()
    (short_path / "store").mkdir()
    host = ServiceHost(plan.to_builtins(), "reput", kind=Idle)

    def on_notified(notes: Note) -> None:
        received.append(notes)
        asyncio.get_running_loop().call_soon(host.release)
        raise KeyError("no place")

    with closing(make_watermarks(plan.watermarks_path)):
        host.attach(known())
        host.attached.listen(on_notified)
        with closing(Notifier(plan.socket_path("reput"))) as notifier:
            notifier.send([(8,)])
            await wait_until(lambda: received, "the note")
        for _ in range(5):
            await asyncio.sleep(0.001)
    assert len(received) == 1


def test_an_unexpected_error_is_logged_once_until_another_comes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    host = ServiceHost(toy_plan(tmp_path).to_builtins(), "toy", kind=Idle)
    host.attach(known())
    for error in (KeyError("a"), KeyError("a"), KeyError("b"), OSError(28, "No space left")):
        vars(host.attached)["work"] = Mock(side_effect=error)
        with pytest.raises(Refused):
            host.call(EPOCH, "work")
    host.release()
    assert len([line for line in caplog.messages if "unexpected error" in line]) == 3
