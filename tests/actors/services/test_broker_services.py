"""All services together: what crosses with each transport, and what lost notifications cost."""

import asyncio
import math
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.actors.bounded import on_loop
from tests.actors.client import Client, records
from tests.actors.deployments import small_plan, wait_until
from tests.actors.notified_broker import NotifiedBroker, notified_broker
from tests.actors.plans import service_plan
from tests.actors.services.fakes import FakeCalls, attach_request, broker_context
from tests.actors.services.toy_service import ROW, ToyClient
from wakelog.actors.deploy.local import start_local_broker
from wakelog.actors.errors import DeploymentFailed
from wakelog.actors.services import broker_services, pull_hold
from wakelog.actors.services.broker_services import BrokerServices
from wakelog.actors.services.client import ServiceClient, ServiceHandle
from wakelog.actors.services.commit import CommitClient
from wakelog.actors.services.flush_client import FlushClient
from wakelog.actors.services.reput import ReputClient
from wakelog.actors.services.session import AttachRequest
from wakelog.actors.services.table import SERVICES
from wakelog.actors.transport.notifications import NO_FAULTS, NotificationFaults
from wakelog.actors.transport.service_plan import Transport
from wakelog.broker.health_values import ActorHealth
from wakelog.broker.housekeeping import ROUND_MS_MIN
from wakelog.broker.trouble import Trouble
from wakelog.protocol.codes import ResponseCode
from wakelog.storage.read import recent

pytestmark = pytest.mark.slow

FAULTS = [
    pytest.param(NO_FAULTS, id="none"),
    pytest.param(NotificationFaults(drop_every=1), id="every notification"),
    pytest.param(NotificationFaults(drop_every=2), id="every 2nd notification"),
    pytest.param(NotificationFaults(drop_every=7), id="every 7th notification"),
    pytest.param(NotificationFaults(drop_notes=True), id="every note"),
]


@pytest.fixture(autouse=True)
def short_periods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for lost notifications ten times as often, so that what they cost is a tenth."""
    monkeypatch.setattr(ReputClient, "recheck_seconds", 0.1)
    monkeypatch.setattr(FlushClient, "recheck_seconds", 0.05)
    monkeypatch.setattr("wakelog.broker.housekeeping.CHECK_HELD_MS", 100)
    monkeypatch.setattr("wakelog.broker.housekeeping.ROUND_MS_MIN", 500)


async def exchange(running: NotifiedBroker, count: int) -> float:
    """Send and receive messages through held pulls; return the seconds it took."""
    began = time.monotonic()
    client = running.client
    await client.send("t", b"0")
    await wait_until(lambda: _readable(running, 1), "the first message")
    for number in range(1, count):
        held = asyncio.ensure_future(client.pull("t", number, hold_ms=15_000))
        answer = await client.send("t", b"%d" % number)
        assert answer.code == ResponseCode.SUCCESS
        assert [record.body for record in records(await held)] == [b"%d" % number]
    return time.monotonic() - began


async def _readable(running: NotifiedBroker, count: int) -> bool:
    return (await running.client.pull("t", count - 1)).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("faults", FAULTS)
@on_loop
async def test_lost_notifications_and_notes_cost_time_and_nothing_else(
    short_path: Path, monkeypatch: pytest.MonkeyPatch, faults: NotificationFaults
) -> None:
    monkeypatch.setattr(pull_hold, "NOTES_KEPT_MAX", 1)
    async with notified_broker(short_path, monkeypatch, faults=faults) as running:
        seconds = await exchange(running, 3)
        # A pull that nobody wakes is looked after by the broker, round after round.
        assert seconds < 10
        if faults.drop_every in (1, 2):
            assert running.service_statistics()["notifications"]["dropped"]


@pytest.mark.parametrize("faults", FAULTS)
@on_loop
async def test_a_synchronous_send_is_answered_in_time_whatever_is_lost(
    short_path: Path, monkeypatch: pytest.MonkeyPatch, faults: NotificationFaults
) -> None:
    sync = "flushDiskType=SYNC_FLUSH"
    async with notified_broker(short_path, monkeypatch, sync, faults=faults) as running:
        for number in range(4):
            began = time.monotonic()
            answer = await running.client.send("t", b"%d" % number)
            assert answer.code == ResponseCode.SUCCESS
            assert time.monotonic() - began < 4
        watermarks = running.broker.statistics()["watermarks"]
        assert watermarks["flushed"] == watermarks["appended"] > 0


@on_loop
async def test_what_no_producer_waits_for_is_flushed_and_seen_all_the_same(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ("flushDiskType=SYNC_FLUSH", "messageDelayLevel=1s 5s")
    async with notified_broker(short_path, monkeypatch, *settings) as running:
        await running.client.send("t", b"later", properties="DELAY\x011\x02")
        await wait_until(lambda: _readable(running, 1), "the delayed message")


@pytest.mark.parametrize("transport", list(Transport))
@on_loop
async def test_every_kind_of_work_crosses_by_reference(
    short_path: Path, monkeypatch: pytest.MonkeyPatch, transport: Transport
) -> None:
    pool = ("transientStorePoolEnable=true", "transientStorePoolSize=2")
    async with notified_broker(short_path, monkeypatch, *pool, transport=transport) as running:
        await exchange(running, 3)
        await running.client.send("t", b"x" * 20_000)
        by_call = {"allocate", "commit", "delay", "retention"}
        if transport is Transport.REFERENCES:
            by_call |= {"dispatch", "wake", "hold", "flush"}
        await wait_until(
            lambda: all(running.service_statistics()["references"].get(kind) for kind in by_call),
            f"a call for each of {by_call}",
        )


@on_loop
async def test_with_notifications_the_hot_path_makes_no_calls(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A machine under load may not serve a notification before a short period ends.
    monkeypatch.setattr(ReputClient, "recheck_seconds", 3600.0)
    monkeypatch.setattr(FlushClient, "recheck_seconds", 3600.0)
    monkeypatch.setattr(pull_hold, "NOTES_KEPT_MAX", 1)
    async with notified_broker(short_path, monkeypatch) as running:
        await exchange(running, 20)
        references = running.service_statistics()["references"]
        assert not {"dispatch", "wake", "hold", "flush"} & set(references)
        assert running.service_statistics()["notifications"]["sent"] >= 20


@pytest.mark.parametrize("service", ["reput", "pull_hold", "flush", "allocate_mapped_file"])
@on_loop
async def test_a_service_that_lost_everything_is_attached_again(
    short_path: Path, monkeypatch: pytest.MonkeyPatch, service: str
) -> None:
    async with notified_broker(short_path, monkeypatch) as running:
        await exchange(running, 3)
        client = running.client_of(service)
        running.services[service].release()
        client.mark_lost()
        await wait_until(lambda: client.attached_count == 2, "the second attachment")
        held = asyncio.ensure_future(running.client.pull("t", 3, hold_ms=15_000))
        await running.client.send("t", b"after")
        assert [record.body for record in records(await held)] == [b"after"]


@on_loop
async def test_a_pull_that_was_held_while_pull_hold_was_away_is_woken_when_it_is_back(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its note was lost, and so was the arrival's: it checks again."""
    monkeypatch.setattr(recent, "SCAN_BYTES_MAX", 0)  # the Broker leaves all wakes to PullHold
    monkeypatch.setattr(recent, "RECORD_BYTES_MAX", 0)
    async with notified_broker(short_path, monkeypatch) as running:
        await exchange(running, 1)
        client = running.client_of("pull_hold")
        running.services["pull_hold"].release()
        held = asyncio.ensure_future(running.client.pull("t", 1, hold_ms=15_000))
        notes = running.broker.broker.state.held.notes
        await wait_until(lambda: len(notes()) == 1, "the pull held")
        await running.client.send("t", b"after")
        await wait_until(lambda: _readable(running, 2), "the message")
        assert not held.done()
        client.mark_lost()
        async with asyncio.timeout(ROUND_MS_MIN / 2_000):
            assert [record.body for record in records(await held)] == [b"after"]


SOON = ("flushIntervalCommitLog=10", "flushCommitLogThoroughInterval=50")


async def flush_one(client: Client, statistics: Callable[[], dict[str, Any]]) -> None:
    """Send one message and return when it is durable: nothing else comes."""
    assert (await client.send("t", b"one")).code == ResponseCode.SUCCESS

    def is_flushed() -> bool:
        watermarks = statistics()["watermarks"]
        return bool(watermarks["flushed"] == watermarks["appended"] > 0)

    await wait_until(is_flushed, "the flush")


@pytest.mark.parametrize("transport", list(Transport))
@on_loop
async def test_one_message_is_flushed_in_time(
    short_path: Path, monkeypatch: pytest.MonkeyPatch, transport: Transport
) -> None:
    async with notified_broker(short_path, monkeypatch, *SOON, transport=transport) as running:
        await flush_one(running.client, running.broker.statistics)


@on_loop
async def test_one_message_is_flushed_in_time_in_one_process(tmp_path: Path) -> None:
    port = small_plan(tmp_path / "other").brokers[0].settings.broker.listen_port
    settings: dict[str, Any] = dict(setting.split("=") for setting in SOON)
    broker = await start_local_broker(service_plan(tmp_path, listenPort=port, **settings))
    client = Client(f"127.0.0.1:{port}")
    await flush_one(client, broker.statistics)
    await client.close()
    assert await broker.stop()


@pytest.mark.parametrize("notes", [(), ((7,), (9,))])
def test_a_note_wakes_pulls_after_the_watermarks_were_read(notes: tuple[tuple[int], ...]) -> None:
    """A pull that is woken finds what it waits for; a message is not looked for in vain."""
    order: list[object] = []
    context = SimpleNamespace(watermark_readers=[lambda: order.append("read")] * 2)
    services: Any = SimpleNamespace(
        _context=context, get=lambda kind: SimpleNamespace(on_woken=order.append)
    )
    BrokerServices._on_notified(services, list(notes))
    assert order == ["read", "read", *([[7, 9]] if notes else [])]


class Asked(ServiceClient):
    """Writes down what it is asked, and answers at once."""

    def __init__(self, handle: ServiceHandle, asked: list[tuple[object, ...]]) -> None:
        super().__init__(handle)
        self._asked = asked
        self._attached.set()

    def keep_attached(self, known: Callable[[], AttachRequest]) -> None:
        self._asked.append(("attach", self.name, known().epoch))

    def use_settings(self) -> None:
        self._asked.append(("use settings", self.name))

    async def wait_attached(self) -> None:
        self._asked.append(("wait", self.name))
        await super().wait_attached()

    async def stop_work(self) -> None:
        self._asked.append(("stop work", self.name))

    async def release(self, seconds_max: float) -> None:
        self._asked.append(("release", self.name, math.ceil(seconds_max)))  # some of it has passed

    def close(self) -> None:
        self._asked.append(("close", self.name))

    def statistics(self) -> dict[str, Any]:
        return {"asked": self.name}


class Services:
    """The services of a broker without a pool, and an added one; all were attached."""

    def __init__(self) -> None:
        context = broker_context()
        self.asked: list[tuple[object, ...]] = []
        context.plan = msgspec.structs.replace(context.plan, added_services={"toy": ROW})
        context.closings.callback(self.asked.append, ("close all",))
        self.names = [name for name in (*SERVICES, "toy") if name != "commit"]
        self.calls = {name: FakeCalls() for name in self.names}
        self.services = BrokerServices(
            context, self.calls, {name: self._make for name in self.names}
        )

    def _make(self, handle: ServiceHandle) -> ServiceClient:
        return Asked(handle, self.asked)

    def client(self, name: str) -> ServiceClient:
        return self.services.clients[name]


@on_loop
async def test_all_services_are_attached_given_settings_and_ended_in_reverse_order() -> None:
    found, names = Services(), ["reput", "pull_hold", "flush", "allocate_mapped_file", "schedule"]
    names += ["transaction_check", "retention", "toy"]
    assert list(found.services.clients) == names
    found.services.start(attach_request)
    found.services.use_settings()
    await found.services.stop()
    own, reverse = names[:-1], names[::-1]
    assert found.asked == [
        *(("attach", name, 7) for name in names),
        *(("use settings", name) for name in names),
        *(("stop work", name) for name in reverse),
        *(("release", name, 10 if name in own else 1) for name in reverse),
        *(("close", name) for name in reverse),
        ("close all",),
    ]


@on_loop
async def test_services_that_hang_do_not_add_up_beyond_the_limit_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[float] = []

    async def hang(_: Asked, seconds_max: float) -> None:
        given.append(seconds_max)
        await asyncio.sleep(seconds_max)

    monkeypatch.setattr(Asked, "release", hang)
    monkeypatch.setattr(broker_services, "RELEASE_SECONDS_MAX", 0.2)
    monkeypatch.setattr(broker_services, "ADDED_RELEASE_SECONDS_MAX", 0.05)
    monkeypatch.setattr(broker_services, "RELEASES_SECONDS_MAX", 0.5)
    await Services().services.stop()
    assert len(given) == 8
    assert given[:2] == [0.05, 0.2]
    assert sum(given) <= 0.5
    assert given[-4:] == [0.0] * 4


@pytest.mark.parametrize(
    ("away", "waited_for", "is_long"),
    [
        ("", [*SERVICES], False),
        ("toy", [*SERVICES], False),
        ("retention", [*SERVICES], True),
        ("flush", ["reput", "pull_hold", "flush"], True),
    ],
)
@on_loop
async def test_a_start_waits_a_while_for_our_own_services_alone(
    monkeypatch: pytest.MonkeyPatch, away: str, waited_for: list[str], is_long: bool
) -> None:
    monkeypatch.setattr(broker_services, "ATTACH_SECONDS_MAX", 0.02)
    found = Services()
    if away:
        found.client(away)._attached.clear()
    began = asyncio.get_running_loop().time()
    await found.services.wait_attached()
    assert found.asked == [("wait", name) for name in waited_for if name != "commit"]
    assert (asyncio.get_running_loop().time() - began >= 0.02) == is_long
    assert found.services.health == {
        name: ActorHealth(name != away, 0) for name in found.services.clients
    }


@pytest.mark.parametrize(
    ("refusals", "outcome"),
    [
        ("." * 30, "done"),
        ("x" * 9 + "." + "x" * 9 + ".", "done"),
        ("x" * 9 + "." + "x" * 10, "refused"),
        ("x" * 10, "refused"),
        ("x" * 9, "done"),
        ("", "done"),
    ],
)
@on_loop
async def test_a_start_fails_once_a_service_has_said_for_a_while_why_it_does_not_work(
    monkeypatch: pytest.MonkeyPatch, refusals: str, outcome: str
) -> None:
    """refusals: what the service says, look after look; then its work is done."""
    monkeypatch.setattr(broker_services, "CHECK_SECONDS", 0.5)
    found, done, checks = Services(), asyncio.Event(), list(refusals)
    client = found.client("reput")
    wait = asyncio.wait

    async def check(waiting: list[asyncio.Task[None]], timeout: float) -> object:
        assert timeout == 0.5
        client.troubles.worked("step")
        if not checks:
            done.set()
            return await wait(waiting)
        if checks.pop(0) == "x":
            client.set_trouble("step", Trouble("full", "Free some."))
        return None

    monkeypatch.setattr(asyncio, "wait", check)
    work = asyncio.ensure_future(done.wait())
    waiting: Any = found.services.wait_unless_refused(work, Asked)  # type: ignore[arg-type]
    if outcome == "refused":
        with pytest.raises(DeploymentFailed, match="reput does not work: full") as refused:
            await waiting
        assert refused.value.remedy == "Free some." and not checks
        await wait([work])
        assert work.cancelled()
    else:
        await waiting
        assert work.done() and not work.cancelled()


@on_loop
async def test_work_of_a_start_that_fails_is_the_starts_failure() -> None:
    async def fail() -> None:
        raise KeyError("no such queue")

    found = Services()
    with pytest.raises(KeyError, match="no such queue"):
        await found.services.wait_unless_refused(fail(), Asked)


@on_loop
async def test_what_the_services_say_of_themselves() -> None:
    found = Services()
    services, flush = found.services, found.client("flush")
    assert services.find(CommitClient) is None and services.find(ToyClient) is None
    with pytest.raises(LookupError, match="this broker has no CommitClient"):
        services.get(CommitClient)
    assert services.get(Asked) is found.client("reput"), "the first one"
    flush.set_trouble("fsync", Trouble("EIO", "Look."))
    flush.attached_count = 3
    found.client("toy")._attached.clear()
    found.calls["flush"].counts.update(flush=2, settings=1)
    found.calls["reput"].counts.update(settings=4)
    said = services.statistics({"topics.json": Trouble("full", "Free some.")})
    names = found.names
    assert services.troubles == {"flush": ("EIO", "Look.")}
    assert said == {
        "attached": {name: name != "toy" for name in names},
        "troubles": {"flush": {"EIO": {"Look.": 1}}, "topics.json": {"full": {"Free some.": 1}}},
        "attached_count": {name: 3 if name == "flush" else 0 for name in names},
        "references": {"flush": 2, "settings": 5},
        "notifications": {},
        "counters": {name: {"asked": name} for name in names},
    }
