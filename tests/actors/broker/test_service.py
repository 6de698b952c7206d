"""The Broker's service: what a failed start leaves, and what a stop waits for."""

import asyncio
import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import ANY

import pytest

from tests.actors.bounded import run
from tests.actors.client import Client
from tests.actors.deployments import small_plan, wait_until
from tests.actors.notified_broker import notified_broker
from tests.actors.plans import service_plan
from wakelog.actors.broker import service
from wakelog.actors.broker.service import BrokerService
from wakelog.actors.deploy.local import start_local_broker
from wakelog.actors.services import broker_services
from wakelog.actors.services.pull_hold import PullHoldService
from wakelog.actors.services.service import Session
from wakelog.actors.services.session import Refused
from wakelog.actors.services.table import services_of
from wakelog.actors.transport.service_plan import ServicePlan
from wakelog.broker.broker_stats import NAMES_MAX
from wakelog.broker.traffic_columns import join_pieces
from wakelog.filter import grammar, sql92
from wakelog.network.bound_ports import BoundPorts
from wakelog.network.server import Server
from wakelog.protocol.codes import ResponseCode
from wakelog.storage.errors import DamagedStore, StoreFailed
from wakelog.storage.message_store import MessageStore
from wakelog.telemetry.pieces import PIECE_NAMES_MAX, encode_pieces

pytestmark = [pytest.mark.process, pytest.mark.slow]


def local_plan(directory: Path, **settings: Any) -> ServicePlan:
    port = small_plan(directory).brokers[0].settings.broker.listen_port
    return service_plan(directory, listenPort=port, **settings)


def test_a_damaged_table_is_reported_and_everything_released(short_path: Path) -> None:
    async def main() -> None:
        plan = local_plan(short_path)
        topics = short_path / "store" / "config" / "topics.json"
        topics.parent.mkdir(parents=True)
        topics.write_text("{ no json")
        with pytest.raises(DamagedStore, match="topics"):
            await start_local_broker(plan)
        topics.unlink()
        again = await start_local_broker(plan)
        assert await again.stop()

    run(main)


def test_a_message_beyond_its_bound_is_refused_without_being_read(short_path: Path) -> None:
    async def main() -> None:
        broker = await start_local_broker(local_plan(short_path))
        client = Client(broker.plan.settings.broker.broker_addr)
        refused = await client.send("t", bytes(5 << 20))
        assert refused.code == ResponseCode.MESSAGE_ILLEGAL
        assert refused.remark == "the body has 5242880 bytes, at most 4194304 are allowed"
        assert (await client.send("t", b"small")).code == ResponseCode.SUCCESS
        await client.close()
        await broker.stop()

    run(main)


def test_before_it_is_stopped_everything_is_dispatched(short_path: Path) -> None:
    async def main() -> None:
        # On a busy machine the last of so many waits longer than a send may by default.
        broker = await start_local_broker(local_plan(short_path, waitTimeMillsInSendQueue=20_000))
        client = Client(broker.plan.settings.broker.broker_addr)
        answers = await asyncio.gather(*(client.send("t", b"%d" % i) for i in range(300)))
        assert {answer.code for answer in answers} == {ResponseCode.SUCCESS}
        await client.close()
        assert await broker.stop()
        assert not (short_path / "store" / "abort").exists()
        assert not (short_path / "run").exists()

    run(main)


def test_names_cost_the_loop_no_statistics_and_come_in_small_pieces(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"topic-{number:05}" for number in range(NAMES_MAX)]

    async def main() -> None:
        async with notified_broker(short_path, monkeypatch) as running:
            before = encode_pieces([running.broker.statistics()])
            for name in names:
                running.broker.broker.state.traffic.count_put(name, 1, 10)
                running.broker.broker.state.traffic.count_get(name, "g", 1, 10)
            after = encode_pieces([running.broker.statistics()])
            assert abs(len(after[0]) - len(before[0])) < 100
            pieces = await running.broker.measure_by_name()
            of_keys = [len(piece) for piece in pieces if b"\xa4keys" in piece[:32]]
            assert len(of_keys) == 2 * NAMES_MAX / PIECE_NAMES_MAX
            assert max(of_keys) < 100 * PIECE_NAMES_MAX
            found: dict[str, Any] = {}
            join_pieces(found, pieces)
            assert list(found["traffic"]["put_by_topic"]) == names
            assert list(found["traffic"]["get_by_topic_and_group"]) == names

    run(main)


def test_a_disk_that_refuses_costs_a_scrape_the_queues_only(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_store: MessageStore, _topic: str, _queue_id: int) -> int:
        raise StoreFailed("consumequeue", "list", OSError(errno.EIO, os.strerror(errno.EIO)))

    async def main() -> None:
        async with notified_broker(short_path, monkeypatch) as running:
            assert (await running.client.send("t", b"0")).code == ResponseCode.SUCCESS
            monkeypatch.setattr(MessageStore, "max_queue_offset", refuse)
            found: dict[str, Any] = {}
            join_pieces(found, await running.broker.measure_by_name())
            assert found == {"traffic": {"put_by_topic": {"t": (1, ANY)}}}
            join_pieces(found, await running.broker.measure_by_name(has_other_names=True))
            assert {"members", "system", "minute"} <= found.keys() and "lag" not in found["queues"]

    run(main)


def test_before_it_accepts_its_services_are_attached_and_offsets_beyond_queues_mended(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[set[str], dict[int, int]]] = []
    listen, serving = Server.listen, list[BrokerService]()
    serve = BrokerService.serve

    async def note(service: BrokerService) -> None:
        serving.append(service)
        await serve(service)

    async def check_and_listen(server: Server, ports: BoundPorts) -> None:
        [service] = serving
        attached = service.statistics()["service_clients"]["attached"]
        mended = service.broker.state.delayed.offsets()
        seen.append(({name for name, is_there in attached.items() if is_there}, mended))
        await listen(server, ports)

    monkeypatch.setattr(BrokerService, "serve", note)
    monkeypatch.setattr(Server, "listen", check_and_listen)
    offsets = short_path / "store" / "config" / "delayOffset.json"
    offsets.parent.mkdir(parents=True)
    offsets.write_text('{"offsetTable":{3:7}}')
    plan = local_plan(short_path)

    async def main() -> None:
        broker = await start_local_broker(plan)
        await broker.stop()

    run(main)
    [(attached, mended)] = seen
    assert attached >= set(services_of(plan))
    assert mended == {3: 0}


def test_a_service_that_does_not_come_keeps_no_client_out(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_service: PullHoldService, _session: Session) -> None:
        raise Refused("not today")

    monkeypatch.setattr(broker_services, "ATTACH_SECONDS_MAX", 0.01)
    monkeypatch.setattr(PullHoldService, "__init__", refuse)

    async def main() -> None:
        async with notified_broker(short_path, monkeypatch) as running:
            assert (await running.client.send("t", b"0")).code == ResponseCode.SUCCESS
            assert (await running.client.pull("t", 0)).code == ResponseCode.SUCCESS

    run(main)


def test_the_parser_of_expressions_is_made_beside_the_loop_once_it_accepts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        grammar._grammar.cache_clear()
        monkeypatch.setattr(sql92, "_COMPILED", sql92._Compiled())
        async with notified_broker(tmp_path, monkeypatch):
            await wait_until(parser_is_made, "the parser")

    async def parser_is_made() -> bool:
        return grammar._grammar.cache_info().currsize == 1

    run(main)


class Timer:
    """A timer that is set, and never runs out. delays_ms: what it was set to."""

    def __init__(self) -> None:
        self.is_running = False
        self.delays_ms: list[float] = []

    def restart(self, seconds: float) -> None:
        self.delays_ms.append(round(seconds * 1000))
        self.is_running = True


def test_the_timer_is_set_to_the_next_deadline_and_only_forwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(service, "wall_ms", lambda: 10_000)
    deadlines: list[tuple[int, int | None]] = []
    timer = Timer()
    given: Any = SimpleNamespace(
        broker=SimpleNamespace(next_tick_ms=lambda: deadlines[0][0]), _timer=timer, _timer_ms=0
    )
    for next_ms, deadline_ms, delays_ms in (
        (11_000, None, [1_000]),
        (11_000, 11_000, [1_000]),
        (12_000, None, [1_000]),
        (12_000, 10_999, [1_000, 999]),
        (10_998, 12_000, [1_000, 999, 998]),
        (10_999, 12_000, [1_000, 999, 998]),
        (9_000, None, [1_000, 999, 998, 0]),
    ):
        deadlines[:] = [(next_ms, deadline_ms)]
        given.progress = SimpleNamespace(next_deadline_ms=deadline_ms)
        BrokerService.set_timer(given)
        assert timer.delays_ms == delays_ms
    timer.is_running = False
    deadlines[:] = [(20_000, None)]
    BrokerService.set_timer(given)
    assert timer.delays_ms[-1] == 10_000, "it has run out"


class Held(dict[int, object]):
    """Pulls that are held: none."""

    next_id = 5

    def has_before(self, hold_id: int) -> bool:
        assert hold_id == 5
        return False


@pytest.mark.parametrize("has_others", [True, False])
def test_a_broker_drains_only_if_others_take_its_producers(has_others: bool) -> None:
    done: list[object] = []

    async def others() -> bool:
        return has_others

    async def register(*, seconds_max: float) -> None:
        done.append(("registers", seconds_max))

    held = Held()
    broker = SimpleNamespace(
        state=SimpleNamespace(held=held),
        sends_count=3,
        begin_drain=lambda _now_ms: done.append("drains"),
    )
    given: Any = SimpleNamespace(
        _name_servers=SimpleNamespace(has_others=others, register=register),
        broker=broker,
        _log=SimpleNamespace(info=lambda event, **_: done.append(event)),
    )
    run(lambda: BrokerService.drain(given, 0.0))
    expected = ["drains", ("registers", 0.0), "broker drained"] if has_others else []
    assert done == expected


@pytest.mark.parametrize("has_ended", [True, False])
def test_what_has_ended_does_not_register_again(has_ended: bool) -> None:
    asked: list[int] = []
    servers = SimpleNamespace(register_soon=lambda: asked.append(1))
    given: Any = SimpleNamespace(_has_ended=has_ended, _name_servers=servers)
    BrokerService.register(given)
    assert len(asked) == (not has_ended)


def test_refused_sends_are_refused_in_the_store_and_where_they_wait() -> None:
    causes: list[tuple[str, str]] = []
    given: Any = SimpleNamespace(
        store=SimpleNamespace(refuse_puts=lambda cause: causes.append(("store", cause))),
        progress=SimpleNamespace(refuse_all=lambda cause: causes.append(("waiting", cause))),
    )
    BrokerService.refuse_sends(given, "why")
    assert causes == [("store", "why"), ("waiting", "why")]


@pytest.mark.parametrize("has_store", [False, True])
def test_what_a_broker_says_of_itself_has_the_values_of_its_store(
    monkeypatch: pytest.MonkeyPatch, has_store: bool
) -> None:
    monkeypatch.setattr(service, "known_values", lambda state, measures, now_ms: {"a": "1"})
    monkeypatch.setattr(service, "store_values", lambda found: {"of": found})
    own: Any = SimpleNamespace(
        _settings=SimpleNamespace(broker=SimpleNamespace(broker_name="b", broker_addr="h:1")),
        broker=SimpleNamespace(state=SimpleNamespace(config=SimpleNamespace(broker_id=2))),
        measure=lambda: SimpleNamespace(store="it" if has_store else None),
    )
    values = {"a": "1", "of": "it"} if has_store else {"a": "1"}
    assert BrokerService.health(own) == {
        "name": "b", "broker_id": 2, "address": "h:1", "values": values,
    }  # fmt: skip


@pytest.mark.parametrize("is_due", [False, True])
def test_a_tick_ends_waits_and_does_what_is_due(
    monkeypatch: pytest.MonkeyPatch, is_due: bool
) -> None:
    said: list[tuple[object, ...]] = []
    monkeypatch.setattr(service, "wall_ms", lambda: 70)
    monkeypatch.setattr(service, "steady_ms", lambda: 5)

    def note(name: str) -> Any:
        return lambda *given, **named: said.append((name, *given, *named.values()))

    lanes = SimpleNamespace(statistics=lambda now: {})
    own: Any = SimpleNamespace(
        requests=SimpleNamespace(
            retry_filters=note("filters"), end_of_turn_logged=note("end"), lanes=lanes
        ),
        progress=SimpleNamespace(expire=note("expire"), appended=100),
        broker=SimpleNamespace(tick=note("tick")),
        store=SimpleNamespace(dispatched=90),
        _state_log=SimpleNamespace(is_due=lambda now_ms: is_due, write_due=note("write")),
        set_timer=note("timer"),
    )
    BrokerService._tick(own)
    written: list[tuple[object, ...]] = [("write", 5, {}, 100, 90)] if is_due else []
    before = [("filters",), ("expire", 70), ("tick", 70)]
    assert said == [*before, *written, ("end",), ("timer",)]
