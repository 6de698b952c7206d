"""Masters and slaves of both kinds are killed under load, each in turn, and go on.

Checks 1, 3 and 4: what was acknowledged with 0 is on the slave, and both logs are equal.
"""

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest

from tests.actors.load import Load, check_nothing_lost_or_doubled
from tests.actors.replicas import MASTER, SEGMENT_BYTES, SLAVE, assert_equal, log_end, wait_until
from tests.actors.strikes import read_back
from tests.compat.clusters import Wakelog
from tests.compat.processes import free_port
from tests.compat.real_rocketmq import RealBroker, RealNameServer

pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(600),
]

ROUNDS = 3
SECONDS_BETWEEN = 1.0
AGAIN_SECONDS_MAX = 90.0
BODY_BYTES = 2_000
PHASE_COUNT = 300


class Node(Protocol):
    """A broker that may be killed and started again over its store."""

    address: str
    store: Path

    def start(self) -> None: ...

    def kill(self) -> None: ...


class WakelogNode:
    """`wakelog up --local`, beside its own name server registered with another one."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        self._folder, self._settings = folder, settings
        self._ports = free_port(), free_port(-2, 1)
        self.store = folder / "store"
        self.address = f"127.0.0.1:{self._ports[1]}"
        self._running: Wakelog | None = None
        self._temporary = folder / "tmp"  # what is killed leaves files there
        self._temporary.mkdir(parents=True)

    def start(self) -> None:
        self._running = Wakelog(
            self._folder,
            store=self.store,
            settings=self._settings,
            flags=("--local",),
            ports=self._ports,
            temporary=self._temporary,
        )
        self._running.wait_ready()

    def kill(self) -> None:
        if self._running is not None:
            self._running.kill()


def make_node(kind: str, folder: Path, name_server: str, settings: dict[str, str]) -> Node:
    if kind == "wakelog":
        return WakelogNode(folder, {**settings, "namesrvAddr": name_server})
    return RealBroker(folder, folder / "store", name_server=name_server, settings=settings)


async def wait_acknowledged(load: Load) -> None:
    """Return once so many more sends are acknowledged as make half a segment."""
    loop = asyncio.get_running_loop()
    before, end = len(load.account.acknowledged), loop.time() + AGAIN_SECONDS_MAX
    while len(load.account.acknowledged) < before + PHASE_COUNT:
        assert loop.time() < end, (load.account.refused_codes, len(load.account.failed_at))
        await asyncio.sleep(0.05)


async def kill_in_turn(master: Node, slave: Node) -> Load:
    load = Load(master.address, "killed", body_bytes=BODY_BYTES)
    load.start()
    try:
        await wait_acknowledged(load)
        for _ in range(ROUNDS):
            for node in (slave, master):
                await asyncio.to_thread(node.kill)
                await asyncio.sleep(SECONDS_BETWEEN)
                await asyncio.to_thread(node.start)
                await wait_acknowledged(load)
    finally:
        await load.stop()
    return load


@pytest.mark.parametrize(
    ("kind", "slave_kind"), [("wakelog", "wakelog"), ("wakelog", "real"), ("real", "wakelog")]
)
def test_what_was_acknowledged_outlives_every_kill(
    tmp_path: Path, kind: str, slave_kind: str
) -> None:
    with ExitStack() as stack:
        name_server = RealNameServer()
        stack.callback(name_server.kill)
        master = make_node(kind, tmp_path / "master", name_server.address, MASTER)
        slave = make_node(slave_kind, tmp_path / "slave", name_server.address, SLAVE)
        for node in (master, slave):
            node.start()
            stack.callback(node.kill)
        load = asyncio.run(kill_in_turn(master, slave))
        account = load.account
        end = log_end(master.address)
        wait_until(lambda: log_end(slave.address) == end, "level")
        assert end > ROUNDS * SEGMENT_BYTES
        assert_equal(master.store, slave.store, end)
        for address in (master.address, slave.address):
            queues = asyncio.run(read_back(address, "killed", account))
            check_nothing_lost_or_doubled(account, queues)
