"""All services together: what crosses with each transport, and what lost notifications cost."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.actors.bounded import on_loop
from tests.actors.client import Client, records
from tests.actors.deployments import small_plan, wait_until
from tests.actors.notified_broker import NotifiedBroker, notified_broker
from tests.actors.plans import service_plan
from wakelog.actors.deploy.local import start_local_broker
from wakelog.actors.services import pull_hold
from wakelog.actors.services.broker_services import BrokerServices
from wakelog.actors.services.flush_client import FlushClient
from wakelog.actors.services.reput import ReputClient
from wakelog.actors.transport.notifications import NO_FAULTS, NotificationFaults
from wakelog.actors.transport.service_plan import Transport
from wakelog.broker.housekeeping import ROUND_MS_MIN
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
    """Its note was lost, and so was the arrival's: it looks again."""
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
