"""The clusters that the tests of this folder share, with one topic that is known."""

import asyncio

import pytest

from tests.client.clusters import NAME_SERVER, message
from tests.compat.clusters import Cluster
from wakelog.client.broker_calls import BrokerCalls
from wakelog.client.messages import EncodedMessage, pack
from wakelog.client.options import ClientOptions
from wakelog.client.sender import Sender
from wakelog.network.client import make_client
from wakelog.network.signing import Credentials
from wakelog.network.tls import Tls
from wakelog.spark.options import ReadOptions, read_options

TOPIC = "known"
COUNT = 3000
SEEN_SECONDS_MAX = 60
_FILLED: list[Cluster] = []


def send(cluster: Cluster, messages: list[EncodedMessage], *, tls: Tls | None = None) -> None:
    """Send messages of one topic, some to a request; return once all are in the queues."""

    async def run() -> None:
        client = make_client(Credentials(), tls)
        try:
            calls = BrokerCalls(client, ClientOptions((cluster.name_server,)))
            topic = messages[0].topic
            before = await count_of(calls, topic)
            producer = Sender(client, ClientOptions((cluster.name_server,), retries_max=2))
            await producer.send_all(pack(messages, bytes_max=1 << 20, rows_max=50))
            # A broker answers before its queues, and of a new topic its name server, know of it.
            async with asyncio.timeout(SEEN_SECONDS_MAX):
                while await count_of(calls, topic) < before + len(messages):
                    await asyncio.sleep(0.02)
        finally:
            await client.close()

    asyncio.run(run())


async def count_of(calls: BrokerCalls, topic: str) -> int:
    """Return how many messages a topic's queues have."""
    return sum(
        [await calls.max_offset(queue) for queue in await calls.routes.readable(topic) or ()]
    )


def options(**given: str) -> ReadOptions:
    """Return the options of a read over the wire."""
    return read_options({"nameServer": NAME_SERVER, **given})


def numbered(topic: str, numbers: range) -> list[EncodedMessage]:
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
def wire(request: pytest.FixtureRequest) -> Cluster:
    """Return a running cluster, of wakelog and of the real brokers, with `COUNT` messages."""
    cluster: Cluster = request.getfixturevalue(request.param)
    # Made once more for tests further on, over clusters that may be the same.
    if cluster not in _FILLED:
        send(cluster, numbered(TOPIC, range(COUNT)))
        _FILLED.append(cluster)
    return cluster
