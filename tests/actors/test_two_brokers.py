"""`wakelog up --brokers 2`: ports, stores and the one name server, as a client finds them."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.actors.client import Client, brokers_in, records, route_of, send_until_taken
from tests.actors.programs import Up, running_up

pytestmark = [pytest.mark.process, pytest.mark.slow]

TOPIC = "spread"
DEFAULT_TOPIC = "TBW102"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stores")


@pytest.fixture(scope="module")
def up(store: Path) -> Iterator[Up]:
    with running_up(store, "--local", brokers_count=2) as program:
        program.wait_ready()
        yield program
        program.stop()


def test_ports_are_20_apart_and_each_store_has_a_directory(up: Up, store: Path) -> None:
    first, second = up.broker_ports
    process = up.command.process_id
    assert second == first + 20
    assert [line for line in up.command.lines if line.startswith("broker-")] == [
        f"broker-a     127.0.0.1:{first}  store {store}/broker-a  process {process}",
        f"broker-b     127.0.0.1:{second}  store {store}/broker-b  process {process}",
    ]
    for name in ("broker-a", "broker-b"):
        assert (store / name / "commitlog").is_dir()
    assert not (store / "commitlog").exists()


def test_a_topic_that_was_not_made_is_offered_by_both(up: Up) -> None:
    route = asyncio.run(route_of(up.name_server_address, DEFAULT_TOPIC))
    assert brokers_in(route) == set(up.addresses)


def test_a_topic_spreads_over_both(up: Up) -> None:
    async def main() -> None:
        for address in up.addresses:
            client = Client(address)
            await send_until_taken(client, TOPIC, address.encode())
            held = await client.pull(TOPIC, 0, hold_ms=5_000)
            assert [record.body for record in records(held)] == [address.encode()]
            await client.close()
        # Each broker answers the first send to a topic once it is in the route.
        route = await route_of(up.name_server_address, TOPIC)
        assert brokers_in(route) == set(up.addresses)
        names = sorted(queue.broker_name for queue in route.queue_datas)
        assert names == ["broker-a", "broker-b"]
        assert [queue.write_queue_nums for queue in route.queue_datas] == [4, 4]

    asyncio.run(main())


def test_the_metrics_separate_them(up: Up) -> None:
    brokers = {dict(labels).get("broker") for _, labels in up.samples()}
    assert {"broker-a", "broker-b"} <= brokers
