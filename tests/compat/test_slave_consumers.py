"""Java's consumers of a master that is killed: they go on from its slave, and no offset falls.

Check 10. The slave finds its master by the name server alone.
"""

import asyncio
import os
import signal
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.actors.client import route_of
from tests.actors.replicas import (
    MASTER,
    SLAVE,
    TOPIC,
    committed,
    log_end,
    pulled,
    send,
    wait_until,
)
from tests.compat.driver import JavaDriver, bodies
from tests.compat.processes import hold
from tests.compat.real_rocketmq import RealNameServer
from tests.compat.test_slave_kills import make_node
from wakelog.protocol.codes import ResponseCode

pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(300),
]

GROUP = "group"  # that of `committed`
READER = "reader"
COUNT = 50
ROUTES_MS = 1_000
CHECKS_SECONDS = 15.0
"""A master's tables are copied every 10 s: an offset that falls does so in that time."""


def route(name_server: str) -> dict[int, str]:
    """Return the addresses of the one broker in the topic's route, by id."""
    found = asyncio.run(route_of(name_server, TOPIC)).broker_datas
    return found[0].broker_addrs if found else {}


@pytest.mark.parametrize("kind", ["wakelog", "real"])
def test_java_consumers_go_on_from_the_slave_and_no_offset_falls(tmp_path: Path, kind: str) -> None:
    got = Counter[bytes]()
    with ExitStack() as stack:
        name_server = RealNameServer()
        stack.callback(name_server.kill)
        master = make_node(kind, tmp_path / "master", name_server.address, MASTER)
        slave = make_node("wakelog", tmp_path / "slave", name_server.address, SLAVE)
        for node in (master, slave):
            node.start()
            stack.callback(node.kill)
        first = until_copied(master.address) + COUNT
        assert set(send_numbers(master.address, 0)) == {ResponseCode.SUCCESS}
        driver = stack.enter_context(
            JavaDriver(name_server.address, properties={"driver.routesMs": str(ROUTES_MS)})
        )
        driver("consume", name=READER, group=GROUP, topics=[TOPIC])
        take(driver, got, first)
        wait_until(lambda: committed(master.address) == str(first), "committed")
        wait_until(lambda: committed(slave.address) == str(first), "offsets copied")

        hold([driver.process_id])
        assert set(send_numbers(master.address, 1)) == {ResponseCode.SUCCESS}
        master.kill()
        wait_until(lambda: route(name_server.address) == {1: slave.address}, "the master left")
        os.kill(driver.process_id, signal.SIGCONT)
        take(driver, got, COUNT)
        whole = str(first + COUNT)
        wait_until(lambda: committed(slave.address) == whole, "committed to the slave")
        driver("stopConsuming", name=READER)

        master.start()
        both = {0: master.address, 1: slave.address}
        wait_until(lambda: route(name_server.address) == both, "the master is back")
        wait_until(lambda: committed(master.address) == whole, "the master has the commits")
        end = time.monotonic() + CHECKS_SECONDS
        while time.monotonic() < end:
            assert committed(slave.address) == committed(master.address) == whole
            time.sleep(0.1)

        more = until_copied(master.address)
        driver("consume", name=READER, group=GROUP, topics=[TOPIC])
        take(driver, got, more)
        assert pulled(slave.address, first + COUNT)[0] == ResponseCode.SUCCESS
        assert log_end(slave.address) == log_end(master.address)
    assert sorted(got.values()) == [1] * (2 * COUNT) + [first - COUNT + more]


def until_copied(address: str) -> int:
    """Send messages, all alike, until one is acknowledged by a slave; return how many."""
    codes: list[int] = []

    def is_copied() -> bool:
        codes.extend(send(address, 1))
        return codes[-1] == ResponseCode.SUCCESS

    wait_until(is_copied, "copied")
    return len(codes)


def send_numbers(address: str, run: int) -> list[int]:
    """Send messages with bodies of their own; return the codes."""
    return [send(address, 1, b"%d-%d" % (run, number))[0] for number in range(COUNT)]


def take(driver: JavaDriver, got: Counter[bytes], count: int) -> None:
    """Wait for exactly so many more messages."""
    wanted = got.total() + count

    def is_taken() -> bool:
        got.update(bodies(driver("takeConsumed", name=READER)))
        return got.total() >= wanted

    wait_until(is_taken, f"{wanted} consumed")
    assert got.total() == wanted
