"""The clusters that the tests of this folder share, with one topic that is known."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.compat.clusters import Cluster, local_cluster, real_cluster
from tests.spark.sink.messages import message
from wakelog.remoting.client import RemotingClient
from wakelog.spark.routes import find_route
from wakelog.spark.sink.options import WriteOptions
from wakelog.spark.sink.packing import pack
from wakelog.spark.sink.producer import Producer
from wakelog.spark.sink.rows import Message

TOPIC = "known"
COUNT = 3000
KNOWN_SECONDS_MAX = 60


def send(cluster: Cluster, messages: list[Message]) -> None:
    """Send messages, some to a request."""

    async def run() -> None:
        client = RemotingClient()
        try:
            producer = Producer(client, WriteOptions((cluster.name_server,)))
            await producer.send(pack(messages, bytes_max=1 << 20, rows_max=50))
            # A broker tells its name server of a new topic after it has taken the first message.
            await wait_known(client, cluster, {each.topic for each in messages})
        finally:
            await client.close()

    asyncio.run(run())


async def wait_known(client: RemotingClient, cluster: Cluster, topics: set[str]) -> None:
    """Return once the name server knows the topics."""
    async with asyncio.timeout(KNOWN_SECONDS_MAX):
        for topic in topics:
            servers = [cluster.name_server]
            while await find_route(client, servers, topic, timeout_ms=5000) is None:
                await asyncio.sleep(0.05)


def numbered(topic: str, numbers: range) -> list[Message]:
    """Return messages of some tags and keys, with their number as the body."""
    return [
        message(
            b"%d" % number,
            topic=topic,
            properties=f"TAGS\x01t{number % 3}\x02KEYS\x01k{number}\x02UNIQ_KEY\x01U{number}",
            flag=number,
        )
        for number in numbers
    ]


@pytest.fixture(scope="package", params=["local", "real"])
def wire(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Yield a running cluster, of wakelog and of the real brokers, with `COUNT` messages."""
    folder = tmp_path_factory.mktemp(f"wire-{request.param}")
    starter = local_cluster if request.param == "local" else real_cluster
    with starter(folder) as cluster:
        send(cluster, numbered(TOPIC, range(COUNT)))
        yield cluster
