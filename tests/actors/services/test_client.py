"""Attaching until it works, knowing at once that a process has died, calls that end in time."""

import asyncio
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import msgspec
import pytest
from msgspec import structs

from tests.actors.bounded import on_loop
from tests.actors.deployments import wait_until
from tests.actors.plans import notified_plan
from tests.actors.services.fakes import (
    EPOCH,
    STORE_ID,
    FakeCalls,
    attach_request,
    attached,
    broker_context,
)
from tests.actors.transport.test_process_death import process
from wakelog.actors.services import client as client_module
from wakelog.actors.services.client import (
    ServiceClient,
    ServiceHandle,
    ServiceLost,
    WatermarkClient,
    open_context,
)
from wakelog.actors.services.session import NotAttached, Refused
from wakelog.actors.transport import process_death
from wakelog.actors.transport.service_plan import Transport
from wakelog.actors.transport.shared_watermarks import ORDERED, SharedWatermark
from wakelog.broker.trouble import Trouble
from wakelog.network import background
from wakelog.storage.file_system import FileSystem


class Client(ServiceClient):
    """A client whose hooks are functions, and which never pauses."""

    retry_seconds = 0.0

    def __init__(
        self,
        calls: FakeCalls,
        on_attached: Callable[[Mapping[str, Any]], None] = lambda answer: None,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(ServiceHandle("fake", calls, broker_context()))
        self._hooks = on_attached, on_lost

    def on_attached(self, answer: Mapping[str, Any]) -> None:
        self._hooks[0](answer)

    def on_lost(self) -> None:
        self._hooks[1]()


@on_loop
async def test_attaching_is_tried_until_it_works() -> None:
    tries: list[int] = []

    def attach(request: dict[str, Any]) -> dict[str, Any]:
        tries.append(request["epoch"])
        if len(tries) < 3:
            raise OSError("not yet")
        return {"process_id": calls.process_id, "position": 5}

    calls = FakeCalls(attach=attach)
    answers: list[Any] = []
    client = Client(calls, on_attached=answers.append)
    assert not client.is_attached
    await attached(client)
    assert [answer["position"] for answer in answers] == [5]
    assert client.attached_count == 1
    await client.stop()
    assert not client.is_attached
    assert tries == [EPOCH] * 3


@pytest.mark.process
@on_loop
async def test_the_death_of_its_process_is_known_at_once_and_ends_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process_death, "POLL_SECONDS", 3600.0)  # the kernel reports the death
    calls = FakeCalls(work=lambda epoch: None)
    calls.hanging.add("work")
    lost = asyncio.Event()
    with process() as other:
        calls.process_id = other.pid
        client = await attached(Client(calls, on_lost=lost.set))
        call = asyncio.ensure_future(client.call("test", "work"))
        await asyncio.sleep(0)
        other.kill()
        with pytest.raises(ServiceLost, match="has died"):
            await call
        await lost.wait()
    await client.stop()


@on_loop
async def test_between_its_loss_and_the_next_attach_a_service_is_not_called() -> None:
    found: list[bool] = []

    def attach(request: dict[str, Any]) -> dict[str, Any]:
        found.append(client.is_attached)
        return {"process_id": calls.process_id}

    calls = FakeCalls(attach=attach)
    client = Client(calls, on_lost=lambda: found.append(client.is_attached))
    await attached(client)
    client.mark_lost()
    while client.attached_count < 2:
        await asyncio.sleep(0)
    assert found == [False, False, False] and client.is_attached
    await client.stop()


@pytest.mark.parametrize(
    ("attached_with", "sends_again"), [("none", False), ("same", False), ("other", True)]
)
@pytest.mark.parametrize("takes_an_attach", [False, True])
@on_loop
async def test_settings_that_changed_during_an_attach_are_sent_and_may_take_another(
    attached_with: str, sends_again: bool, takes_an_attach: bool
) -> None:
    sent: list[dict[str, Any]] = []

    def use_settings(epoch: int, store: dict[str, Any]) -> bool:
        sent.append(store)
        return takes_an_attach and len(sent) == 1

    client = Client(FakeCalls(use_settings=use_settings))
    config = client.broker.plan.settings.store
    other = structs.replace(config, flush_interval_commit_log_ms=77)
    first = {"none": None, "same": config, "other": other}[attached_with]
    known = [attach_request(store=first)]
    client.keep_attached(lambda: known.pop() if known else attach_request(store=config))
    await client.wait_attached()
    while client.attached_count < 1 + (sends_again and takes_an_attach):
        await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)
    assert sent == [msgspec.to_builtins(config)] * sends_again
    assert client.attached_count == 1 + (sends_again and takes_an_attach)
    await client.stop()


@on_loop
async def test_after_a_call_that_failed_the_service_is_attached_again() -> None:
    def work(epoch: int) -> None:
        raise ValueError("refused")

    client = await attached(Client(FakeCalls(work=work)))
    with pytest.raises(ServiceLost, match="refused"):
        await client.call("test", "work")
    while client.attached_count < 2:
        await asyncio.sleep(0)
    await client.stop()


@on_loop
async def test_after_a_hook_that_failed_the_service_is_attached_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refusals = [OSError(24, "Too many open files"), OSError(24, "Too many open files")]
    succeeded = asyncio.Event()

    def refuse(*answers: object) -> None:
        if refusals:
            raise refusals.pop()
        if answers:
            succeeded.set()

    client = await attached(Client(FakeCalls(), on_attached=refuse, on_lost=refuse))
    await succeeded.wait()
    assert client.is_attached and client.attached_count == 2
    await client.stop()
    assert caplog.text.count("hook failed") == 2


@on_loop
async def test_a_service_that_is_lost_again_and_again_is_attached_after_longer_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", pause)
    client = Client(FakeCalls())
    # So long that no busy machine makes an attachment a long one.
    client.retry_seconds, client.retry_seconds_max = 100.0, 800.0
    await attached(client)
    while len(pauses) < 5:
        await client.wait_attached()
        client.mark_lost()
        await sleep(0)
    await client.stop()
    assert pauses == [100.0, 200.0, 400.0, 800.0, 800.0]


@on_loop
async def test_a_service_that_says_why_it_does_not_work_is_tried_rarely_and_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    def attach(request: dict[str, Any]) -> dict[str, Any]:
        if len(pauses) < 5:
            raise Refused("no such folder", "Make it.")
        return {"process_id": calls.process_id}

    monkeypatch.setattr(asyncio, "sleep", pause)
    calls = FakeCalls(attach=attach)
    client = Client(calls)
    client.retry_seconds, client.refused_seconds_max = 100.0, 800.0
    client.keep_attached(attach_request)
    while not client.troubles.first:
        await sleep(0)
    assert client.troubles.first == ("no such folder", "Make it.")
    await client.wait_attached()
    assert client.troubles.first is None
    await client.stop()
    assert pauses == [100.0, 200.0, 400.0, 800.0, 800.0]
    assert caplog.text.count("service does not work") == 1


@on_loop
async def test_a_refused_call_is_a_trouble_until_the_same_call_works() -> None:
    refusals = [Refused("full", "Free some."), Refused("full", "Free some.")]

    def work(epoch: int) -> None:
        if refusals:
            raise refusals.pop()

    client = await attached(Client(FakeCalls(work=work, rest=lambda epoch: None)))
    for attached_count in (1, 2):
        with pytest.raises(ServiceLost, match="full"):
            await client.call("test", "work")
        while client.attached_count == attached_count:
            await asyncio.sleep(0)
        await client.call("test", "rest")
        assert client.refusal == client.troubles.first == ("full", "Free some.")
    await client.call("test", "work")
    assert client.troubles.first is None
    await client.stop()


@on_loop
async def test_a_service_that_was_started_again_is_no_trouble() -> None:
    def work(epoch: int) -> None:
        raise NotAttached("not attached")

    client = await attached(Client(FakeCalls(work=work)))
    with pytest.raises(ServiceLost, match="not attached"):
        await client.call("test", "work")
    assert client.troubles.first is None
    await client.stop()


@on_loop
async def test_parts_that_a_service_begins_without_are_named_until_it_has_them() -> None:
    answers = [{"troubles": {"core": "ValueError: no"}}, {}]

    def attach(request: dict[str, Any]) -> dict[str, Any]:
        return {"process_id": calls.process_id, **answers.pop(0)}

    calls = FakeCalls(attach=attach)
    client = await attached(Client(calls))
    assert client.troubles.first == ("ValueError: no", "See the logs.")
    assert client.refusal is None  # the rest of it works
    client.mark_lost()
    while client.attached_count < 2:
        await asyncio.sleep(0)
    assert client.troubles.first is None
    await client.stop()


@on_loop
async def test_a_call_that_takes_too_long_is_given_up_and_the_service_kept() -> None:
    calls = FakeCalls(work=lambda epoch: None)
    calls.hanging.add("work")
    client = await attached(Client(calls))
    with pytest.raises(ServiceLost, match="not answered in time"):
        await client.call("test", "work", seconds_max=0.01)
    assert client.is_attached and client.attached_count == 1
    await client.stop()


@on_loop
async def test_a_service_that_is_not_attached_is_not_called() -> None:
    calls = FakeCalls(work=lambda epoch: None)
    with pytest.raises(ServiceLost, match="not attached"):
        await Client(calls).call("test", "work")
    assert calls.calls == []


@on_loop
async def test_a_release_is_called_once_and_the_service_not_attached_again() -> None:
    calls = FakeCalls()
    client = Client(calls)
    await client.release(1.0)
    assert calls.calls == []
    await attached(client)
    await client.release(1.0)
    assert len(calls.called("release")) == 1 and not client.is_attached
    await client.stop()


@on_loop
async def test_a_process_that_cannot_be_watched_has_the_service_attached_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No descriptor was left for the watch, for example."""
    monkeypatch.setattr(background, "AGAIN_SECONDS", 0.0)
    watches: list[int] = []
    wait_death = process_death.wait_death

    async def refuse_first(process_id: int, died: asyncio.Future[None]) -> None:
        watches.append(process_id)
        if len(watches) == 1:
            raise OSError(24, "Too many open files")
        await wait_death(process_id, died)

    monkeypatch.setattr(client_module, "wait_death", refuse_first)
    client = await attached(Client(FakeCalls()))
    await wait_until(lambda: len(watches) == 2, "the second watch")
    assert client.attached_count == 2 and client.is_attached
    assert "Too many open files" in caplog.text
    await client.stop()


class Watching(WatermarkClient):
    """Writes down its calls, and is told by the test how far its service has come."""

    watermark = SharedWatermark.FLUSHED
    recheck_seconds = 0.0

    def __init__(self, handle: ServiceHandle) -> None:
        super().__init__(handle)
        self.positions: list[int] = []
        self.asked_at: list[int] = []

    def read_watermark(self) -> None:
        if self.positions:
            self.reached = self.positions.pop(0)

    def request_call(self) -> None:
        self.asked_at.append(self.reached)


@pytest.mark.parametrize(
    ("positions", "asked_at"),
    [
        ([10], []),
        ([5, 10], []),
        ([0, 10], [0]),
        ([0, 0, 5, 5, 9, 11], [0, 0, 5]),
    ],
)
@on_loop
async def test_a_service_is_called_whenever_a_period_brought_nothing_until_all_is_reached(
    positions: list[int], asked_at: list[int]
) -> None:
    client = Watching(ServiceHandle("fake", FakeCalls(), broker_context()))
    client.positions, client.wanted = positions, 10
    client.recheck_later()
    client.recheck_later()
    while client.recheck_timer.is_running:
        await asyncio.sleep(0)
    assert (client.positions, client.asked_at) == ([], asked_at)
    client.positions, client.wanted = [11], 12
    client.recheck_later()
    client.timer.start(60.0)
    await client.stop_work()
    assert not client.recheck_timer.is_running and not client.timer.is_running
    await client.stop()


@pytest.mark.parametrize(
    ("lived_seconds", "refusal", "pause"),
    [(7.9, None, 4.0), (8.0, None, 1.0), (9.0, None, 1.0), (9.0, Trouble("full"), 4.0)],
)
@on_loop
async def test_a_service_that_worked_for_long_is_attached_again_soon(
    monkeypatch: pytest.MonkeyPatch, lived_seconds: float, refusal: Trouble | None, pause: float
) -> None:
    """The times are ten times as long on the clock of the test."""
    pauses: list[float] = []
    loop, sleep, lived = asyncio.get_running_loop(), asyncio.sleep, [0.0, 0.0, lived_seconds]
    now_seconds = 100.0

    async def wait_death(process_id: int, died: asyncio.Future[None]) -> None:
        nonlocal now_seconds
        now_seconds += lived.pop(0) if lived else 0.0
        if refusal is not None:
            client.troubles.refused("step", refusal)

    async def rest(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    client = Client(FakeCalls())
    client.retry_seconds, client.retry_seconds_max, client.refused_seconds_max = 1.0, 8.0, 64.0
    monkeypatch.setattr(client_module, "wait_death", wait_death)
    monkeypatch.setattr(loop, "time", lambda: now_seconds)
    monkeypatch.setattr(asyncio, "sleep", rest)
    client.keep_attached(attach_request)
    while len(pauses) < 3:
        await sleep(0)
    await client.stop()
    assert pauses[:3] == [1.0, 2.0, pause]


@pytest.mark.parametrize(
    ("transport", "register", "dispatched", "readable"),
    [
        (Transport.NOTIFICATIONS, "", 60, 100),
        (Transport.NOTIFICATIONS, "file:///r", 60, 60),
        (Transport.NOTIFICATIONS, "", 170, 100),
        (Transport.REFERENCES, "", 60, None),
    ],
)
def test_a_broker_begins_with_watermarks_of_the_log_that_it_found(
    short_path: Path, transport: Transport, register: str, dispatched: int, readable: int | None
) -> None:
    plan = structs.replace(notified_plan(short_path), transport=transport, register=register)
    store: Any = SimpleNamespace(max_physical_offset=100, dispatched=dispatched)
    context = open_context(plan, FileSystem(), store, UUID(STORE_ID))
    shared = context.watermarks
    assert (shared is None) is (readable is None) and context.epoch > 1_600_000_000_000
    if shared is not None:
        found = {word: shared.get(word) for word in chain(*ORDERED)}
        expected = dict.fromkeys(found, 100)
        expected[SharedWatermark.DISPATCHED] = min(dispatched, 100)
        assert found == expected | {SharedWatermark.READABLE: readable}
        assert context.epoch == shared.epoch and plan.watermarks_path.exists()
    context.closings.close()
    assert not plan.watermarks_path.exists()
