"""Clients with a namespace, and clients that send traces: what brokers of both kinds keep."""

import time
from typing import Any

import pytest

from tests.compat.clusters import Cluster
from tests.compat.driver import JavaDriver, bodies, message, wait_until

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.daily("notifications")]

SETTLE_MS_MAX = 60_000
NAMESPACE = "INSTANCE_a"
TRACES = "RMQ_SYS_TRACE_TOPIC"


def test_a_namespace_is_a_part_of_every_name(cluster: Cluster, driver: JavaDriver) -> None:
    whole = f"{NAMESPACE}%orders"
    driver("createTopic", address=cluster.broker, topic=whole, queues=1)
    sent = {"messages": [message("orders", b"1"), message("orders", b"2")]}
    driver("send", group="namespaced", namespace=NAMESPACE, **sent)
    consumed = {"topics": ["orders"], "group": "readers", "namespace": NAMESPACE, "failures": 1}
    driver("consume", name="inside", **consumed)
    driver("consume", name="outside", group="outsiders", topics=[whole])
    inside = driver("consumed", name="inside", count=4, timeoutMs=SETTLE_MS_MAX)
    # Each comes back once, through the retry topic of the whole group.
    assert sorted(bodies(inside)) == [b"1", b"1", b"2", b"2"]
    assert {each["topic"] for each in inside} == {"orders"}
    outside = driver("consumed", name="outside", count=2, timeoutMs=SETTLE_MS_MAX)
    # Two threads of this consumer may end in either order.
    assert sorted(bodies(outside)) == [b"1", b"2"]
    assert {each["topic"] for each in outside} == {whole}
    retry = {"topic": f"%RETRY%{NAMESPACE}%readers", "broker": cluster.broker_name, "queueId": 0}
    assert driver("maxOffset", **retry) == 2
    for name in ("inside", "outside"):
        driver("stopConsuming", name=name)


def test_a_trace_has_each_step(cluster: Cluster, driver: JavaDriver, topic: str) -> None:
    driver("consume", name="tracing", group="traced_readers", topics=[topic], traced=True)
    [sent] = driver("send", group="tracing", traced=True, messages=[message(topic, keys="k")])
    assert len(driver("consumed", name="tracing", count=1, timeoutMs=SETTLE_MS_MAX)) == 1
    steps: dict[str, Any] = {}

    def has_every_step() -> bool:
        """Find the traces of the message by its id, which is a key of each of them."""
        window = {"begin": 0, "end": int(time.time() * 1000) + 60_000, "countMax": 32}
        found = driver.once_there(208, "queryByKey", topic=TRACES, key=sent["msgId"], **window)
        for trace in bodies(found):
            for context in trace.decode().split("\x02"):
                step, *fields = context.split("\x01")
                if sent["msgId"] in fields:
                    steps[step] = fields
        return steps.keys() >= {"Pub", "SubBefore", "SubAfter"}

    wait_until(has_every_step, what="traced")
    assert topic in steps["Pub"] and "tracing" in steps["Pub"]
    assert "traced_readers" in steps["SubBefore"]
    driver("stopConsuming", name="tracing")
