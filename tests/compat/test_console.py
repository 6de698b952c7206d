"""The console's pages and actions at 4.9.3's broker and at ours, with Java's consumers."""

import asyncio

import pytest

from tests.compat.clusters import Cluster
from tests.compat.driver import JavaDriver
from tests.console.site import console_of
from wakelog.client import Producer
from wakelog.console.pages.app import PAGES

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.daily("real")]

CONSUMED_MS_MAX = 60_000
SERVERS_FAULTS = range(500, 600)


def send(cluster: Cluster, topic: str, count: int) -> None:
    async def main() -> None:
        async with Producer(cluster.name_server, group="python") as producer:
            for n in range(count):
                await producer.send(topic, b"%d" % n)

    asyncio.run(main())


def test_pages_and_actions_work_at_any_broker(
    cluster: Cluster, driver: JavaDriver, topic: str
) -> None:
    group = f"group_{topic}"
    send(cluster, topic, 5)
    driver("consume", name=topic, group=group, topics=[topic])
    driver("consumed", name=topic, count=5, timeoutMs=CONSUMED_MS_MAX)
    with console_of(cluster.name_server) as console:
        browser = console.browser
        console.read()
        [reading] = console.console.reader.shown.brokers
        for row in PAGES:
            if "{" not in row.path:
                assert browser.get(row.path).status not in SERVERS_FAULTS, row.path
        assert f"{cluster.broker}" in browser.get("/brokers").text
        for tab in ("state", "maintenance", "runtime", "configuration"):
            answer = browser.get(f"/brokers/{reading.name}?tab={tab}")
            assert answer.status == 200
        assert "fileReservedTime" in answer.text
        for tab, says in (("routes", "There is one name server"), ("settings", "listenPort")):
            assert says in browser.get(f"/name-servers?tab={tab}").text
        order = {"topic": topic, "order": f"{reading.name}:4"}
        done = browser.submit("/do/set-order", **order)
        assert done.status == 200, done.text
        assert order["order"] in browser.get("/name-servers?tab=values").text
        gone = browser.submit("/do/delete-order", topic=topic, typed=topic)
        assert gone.status == 200, gone.text
        for tab in ("queues", "groups", "configuration"):
            assert browser.get(f"/topics/{topic}?tab={tab}").status == 200
        assert group in browser.get(f"/topics/{topic}?tab=groups").text
        for tab in ("queues", "members", "subscriptions", "configuration"):
            assert browser.get(f"/groups/{group}?tab={tab}").status == 200
        assert "JAVA" in browser.get(f"/groups/{group}?tab=members").text
        driver("stopConsuming", name=topic)

        reset = f"group={group}&topic={topic}&to=beginning"
        assert "gives 5 messages again, skips 0" in browser.get(f"/do/reset-offsets?{reset}").text
        done = browser.submit("/do/reset-offsets", group=group, topic=topic, to="beginning")
        assert done.status == 200, done.text
        made = browser.submit(
            "/do/create-topic", topic=f"made_{topic}", cluster=reading.cluster, queues="2"
        )
        assert made.status == 200, made.text
        fields = {"topic": f"made_{topic}", "cluster": reading.cluster}
        gone = browser.submit("/do/delete-topic", **fields, typed=f"made_{topic}")
        assert gone.status == 200, gone.text
