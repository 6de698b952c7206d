"""The Broker's actor: starts once, says why it does not, and stops what it started."""

import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.actors.bounded import run
from tests.actors.deployments import small_plan
from tests.actors.handles import FakeHandle
from tests.actors.plans import service_plan
from wakelog.actors.broker import actor as module
from wakelog.actors.broker.actor import BrokerActor
from wakelog.actors.broker.snapshots import NOT_RUNNING
from wakelog.actors.ray.options import actor_name
from wakelog.actors.services.service import Service, ServiceHost
from wakelog.actors.services.table import services_of
from wakelog.actors.transport.service_plan import Transport

pytestmark = pytest.mark.process


@pytest.fixture
def plan(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the plan of a broker whose services are objects found by name."""
    port = small_plan(short_path).brokers[0].settings.broker.listen_port
    made = service_plan(short_path, transport=Transport.REFERENCES, listenPort=port)
    builtins = made.to_builtins()
    handles = {
        actor_name(made.name, row.actor_name): FakeHandle(ServiceHost[Service](builtins, name))
        for name, row in services_of(made).items()
    }
    searched: list[str] = []

    def find(name: str) -> FakeHandle | None:
        searched.append(name)
        # The first look comes too early.
        return handles[name] if len(searched) > 1 else None

    monkeypatch.setattr(module, "find_actor", find)
    monkeypatch.setattr(module, "FIND_SECONDS", 0.0)
    return dict(msgspec.to_builtins(made))


def test_it_starts_once_and_stops_in_order(plan: dict[str, Any]) -> None:
    async def main() -> None:
        actor = BrokerActor(plan)
        assert actor.statistics() == {} and await actor.ping() > 0
        first = await actor.start()
        assert await actor.start(first["store_id"]) == first
        assert actor.statistics()["watermarks"]["dispatched"] == 0
        assert await actor.stop()
        # How a broker that is not up left its store is not known here.
        assert not await actor.stop()

    run(main)


def test_it_starts_again_on_its_own_store_only(plan: dict[str, Any]) -> None:
    async def main() -> None:
        first = BrokerActor(plan)
        store_id = (await first.start())["store_id"]
        await first.stop()
        other = await BrokerActor(plan).start("another-store")
        assert "another-store" in other["failure"]["cause"]
        again = BrokerActor(plan)
        assert (await again.start(store_id))["store_id"] == store_id
        assert await again.stop()

    run(main)


def test_why_it_does_not_start_is_a_value(plan: dict[str, Any]) -> None:
    async def main() -> None:
        actor = BrokerActor(plan)
        port = plan["settings"]["broker"]["listenPort"]
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", port))
            taken.listen()
            failure = (await actor.start())["failure"]
            assert f":{port}: another process" in failure["cause"]
        assert "store_id" in await actor.start()
        assert await actor.stop()

    run(main)


def test_a_broker_that_does_not_run_says_so(plan: dict[str, Any]) -> None:
    async def main() -> None:
        actor = BrokerActor(plan)
        assert (actor.health(), actor.statistics(), await actor.measure_by_name()) == ({}, {}, [])
        asked = (actor.snapshot(), actor.renew_snapshot("a"), actor.end_snapshot("a"))
        assert [await one for one in asked] == [NOT_RUNNING] * 3
        await actor.start()
        assert actor.health() and actor.statistics()["process_id"] == await actor.ping()
        assert await actor.end_snapshot("a") == {"ended": False}
        assert await actor.stop()

    run(main)
