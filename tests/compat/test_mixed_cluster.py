"""One cluster of both kinds: a broker of each, registered with a name server of each.

Clients ask either name server and find both brokers, and a topic lies on both.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest

from tests.compat.clusters import Cluster, Wakelog
from tests.compat.driver import DriverError, JavaDriver, bodies, message, wait_until
from tests.compat.real_rocketmq import RealBroker, RealNameServer

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

REAL_NAME = "broker-b"
# A queue of which all is "in memory" begins at offset 0 for a new group, whatever its consumer
# says; with this nothing is.
SETTINGS = {"accessMessageInMemoryMaxRatio": "0"}
KINDS = ("real", "wakelog")


class Mixed(NamedTuple):
    """Two brokers, and a client at each name server, by its kind."""

    wakelog: Cluster
    real: RealBroker
    drivers: dict[str, JavaDriver]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    """Start a name server and a broker of each kind, and a client at each name server."""
    folder = tmp_path_factory.mktemp("mixed")
    with ExitStack() as stack:
        real_name_server = RealNameServer()
        stack.callback(real_name_server.kill)
        wakelog = Wakelog(
            folder / "wakelog",
            settings={**SETTINGS, "namesrvAddr": real_name_server.address},  # beside its own
            flags=["--local"],
        )
        stack.enter_context(wakelog.process)
        wakelog.wait_ready()
        name_servers = {"real": real_name_server.address, "wakelog": wakelog.cluster.name_server}
        real = RealBroker(
            folder / "broker",
            folder / "store",
            name_server=";".join(name_servers.values()),
            settings={**SETTINGS, "brokerName": REAL_NAME},
        )
        real.start()
        stack.callback(real.kill)
        drivers = {
            kind: stack.enter_context(JavaDriver(address)) for kind, address in name_servers.items()
        }
        yield Mixed(wakelog.cluster, real, drivers)
        for driver in drivers.values():
            driver.stop()
        wakelog.stop()


def create_on_both(mixed: Mixed, kind: str) -> tuple[JavaDriver, str]:
    """Create a topic of two queues at each broker, as seen through one kind of name server."""
    driver, topic = mixed.drivers[kind], f"mixed_{kind}"
    for address in (mixed.wakelog.broker, mixed.real.address):
        driver("createTopic", address=address, topic=topic, queues=2)
    wait_until(lambda: len(names_in_route(driver, topic)) == 2, what="routed")
    return driver, topic


def names_in_route(driver: JavaDriver, topic: str) -> set[str]:
    """Return the brokers that have the topic."""
    try:
        return {each["brokerName"] for each in driver("route", topic=topic)["queueDatas"]}
    except DriverError as error:
        assert error.code == 17  # TOPIC_NOT_EXIST
        return set()


@pytest.mark.parametrize("kind", KINDS)
def test_both_name_servers_know_both_brokers(mixed: Mixed, kind: str) -> None:
    cluster = mixed.drivers[kind]("cluster")
    assert sorted(cluster["clusterAddrTable"]["DefaultCluster"]) == ["broker-a", REAL_NAME]
    addresses = {name: data["brokerAddrs"] for name, data in cluster["brokerAddrTable"].items()}
    assert addresses == {
        "broker-a": {"0": mixed.wakelog.broker},
        REAL_NAME: {"0": mixed.real.address},
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_topic_on_both_brokers_is_filled_and_consumed_as_one(mixed: Mixed, kind: str) -> None:
    driver, topic = create_on_both(mixed, kind)
    sent = driver("send", group="g", messages=[message(topic, b"%d" % n) for n in range(16)])
    places: dict[tuple[str, int], int] = {}
    for each in sent:
        place = each["broker"], each["queueId"]
        places[place] = places.get(place, 0) + 1
    assert places == {(name, n): 4 for name in ("broker-a", REAL_NAME) for n in range(2)}
    driver("consume", name=topic, group=f"group_{topic}", topics=[topic])
    got: list[Any] = driver("consumed", name=topic, count=16, timeoutMs=60_000)
    assert sorted(map(int, bodies(got))) == list(range(16))
    assert {x["storeHost"] for x in got} == {f"/{mixed.wakelog.broker}", f"/{mixed.real.address}"}
    driver("stopConsuming", name=topic)


def test_a_new_group_begins_at_the_time_it_asks_for(mixed: Mixed) -> None:
    driver, topic = mixed.drivers["real"], "timed"
    for address in (mixed.wakelog.broker, mixed.real.address):
        driver("createTopic", address=address, topic=topic, queues=1)
    wait_until(lambda: len(names_in_route(driver, topic)) == 2, what="routed")

    def send_to_both(body: bytes) -> None:
        both = [message(topic, body, broker=x, queueId=0) for x in ("broker-a", REAL_NAME)]
        driver("send", group="g", messages=both)

    send_to_both(b"old")
    # Whole seconds is what the client can say, and the message nearest to that is the first: the
    # old one has to be further away than the new one.
    begin_ms = (int(time.time()) + 2) * 1000
    wait_until(lambda: time.time() * 1000 >= begin_ms, what="that time")
    send_to_both(b"new")
    options = {"timestamp": begin_ms, "from": "CONSUME_FROM_TIMESTAMP"}
    driver("consume", name=topic, group=f"group_{topic}", topics=[topic], **options)
    got = driver("consumed", name=topic, count=2, timeoutMs=60_000)
    assert bodies(got) == [b"new", b"new"]
    driver("stopConsuming", name=topic)


def test_a_broker_that_dies_leaves_both_routes(mixed: Mixed) -> None:
    for kind in KINDS:
        create_on_both(mixed, kind)
    mixed.real.kill()
    wait_until(
        lambda: all(
            names_in_route(driver, f"mixed_{kind}") == {"broker-a"}
            for kind, driver in mixed.drivers.items()
        ),
        what="left",
    )
