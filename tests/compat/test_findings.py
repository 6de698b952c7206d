"""What `wakelog findings` reads at 4.9.3's broker and at ours, with Java's consumers."""

import asyncio
import time

import pytest

from tests.compat.clusters import Cluster
from tests.compat.driver import JavaDriver
from wakelog.client import Producer
from wakelog.client.admin import open_admin
from wakelog.console.findings import find
from wakelog.console.history import History
from wakelog.console.snapshot import Snapshot, read_snapshot

pytestmark = [pytest.mark.java, pytest.mark.slow]

CONSUMED_MS_MAX = 60_000


def read(cluster: Cluster) -> Snapshot:
    async def main() -> Snapshot:
        async with open_admin(cluster.name_server) as admin:
            return await read_snapshot(admin, round(time.time() * 1000))

    return asyncio.run(main())


def send(cluster: Cluster, topic: str, count: int) -> None:
    async def main() -> None:
        async with Producer(cluster.name_server, group="python") as producer:
            for n in range(count):
                await producer.send(topic, b"%d" % n)

    asyncio.run(main())


def test_a_group_is_read_with_its_member_and_then_without(
    cluster: Cluster, driver: JavaDriver, topic: str
) -> None:
    group = f"group_{topic}"
    send(cluster, topic, 3)
    driver("consume", name=topic, group=group, topics=[topic])
    driver("consumed", name=topic, count=3, timeoutMs=CONSUMED_MS_MAX)
    found = read(cluster)
    assert [(x.address, x.failure) for x in found.brokers] == [(cluster.broker, None)]
    assert 0 < float(found.brokers[0].values["commitLogDiskRatio"]) <= 1
    assert topic in found.brokers[0].topics
    online = found.groups[group]
    assert online.clients is not None and len(online.clients.connection_set) == 1
    driver("stopConsuming", name=topic)

    history = History()
    send(cluster, topic, 2)
    history.add(read(cluster))
    send(cluster, topic, 2)
    history.add(read(cluster))
    assert history.latest.groups[group].progress.total_diff() == 4
    [said] = [each for each in find(history) if each.about == f"group {group}"]
    assert said.rule == "no client"
    assert said.found.startswith("no client is online, and 4 messages wait: 2 more in ")
