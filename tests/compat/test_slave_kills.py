"""Masters and slaves of both kinds are killed under load, each in turn, and go on.

Checks 1, 3 and 4: what was acknowledged with 0 is on the slave, and both logs are equal. In the
environment, SLAVE_KILLS is another number than 300 kills, and MESSAGES another than a million. For
segments of 1 GiB, SEGMENT_BYTES=1073741824 MESSAGES=92000 PADDING_BYTES=64000 fill five.
"""

import asyncio
import os
import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Protocol

import pytest

from tests.actors.kill_incidents import read_back
from tests.actors.load import QUEUES_COUNT, Load, check_nothing_lost_or_doubled, pull_all
from tests.actors.replicas import (
    MASTER,
    SEGMENT_BYTES,
    SLAVE,
    SMALL,
    ask,
    assert_equal,
    log_end,
    topics,
    wait_until,
)
from tests.compat.clusters import Wakelog
from tests.compat.frames import RawConnection
from tests.compat.processes import free_port
from tests.compat.real_rocketmq import RealBroker, RealNameServer
from tests.compat.test_broker_answers import LETTERS, part
from wakelog.protocol.codes import RequestCode, ResponseCode

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
KILLS = int(os.environ.get("SLAVE_KILLS", "300"))
UP_SECONDS = (1.0, 8.0)
"""A start takes some 2 s: kills meet it, the attaching, the comparing, the shipping and rolls."""

MESSAGES = int(os.environ.get("MESSAGES", "1000000"))
PADDING = b"." * int(os.environ.get("PADDING_BYTES", "40"))
BATCH_COUNT = min(200, 2_000_000 // (len(PADDING) + 100))
LEVEL_SECONDS_MAX = 300.0
"""A slave of 4.9.3 copies 70 MB/s, and asks for the last segment alone if it is empty."""

LONG_TOPIC = "long"
SEGMENTS = "" if SEGMENT_BYTES == 1 << 20 else f", segments of {SEGMENT_BYTES >> 20} MiB"


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
        self.launch()
        assert self._running is not None
        self._running.wait_ready()

    def launch(self) -> None:
        """Start it; it need not be ready."""
        self._running = Wakelog(
            self._folder,
            store=self.store,
            settings=self._settings,
            flags=("--local",),
            ports=self._ports,
            temporary=self._temporary,
        )

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


async def kill_at_random(nodes: list[WakelogNode], kills: int, chance: random.Random) -> Load:
    """Kill each of both so often, at moments of its own; return the load of all that time."""
    load = Load(nodes[0].address, "killed", body_bytes=BODY_BYTES)
    load.start()

    async def kill(node: WakelogNode) -> None:
        for _ in range(kills):
            await asyncio.sleep(chance.uniform(*UP_SECONDS))
            await asyncio.to_thread(node.kill)
            await asyncio.to_thread(node.launch)

    try:
        await wait_acknowledged(load)
        await asyncio.gather(*map(kill, nodes))
        await wait_acknowledged(load)
    finally:
        await load.stop()
    return load


@pytest.mark.timeout(300 + 12 * KILLS)
def test_300_kills_at_any_moment_lose_nothing(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Check 4, of both brokers; `test_kills` has its actors, one by one."""
    with ExitStack() as stack:
        name_server = RealNameServer()
        stack.callback(name_server.kill)
        settings = {"namesrvAddr": name_server.address}
        master, slave = nodes = [
            WakelogNode(tmp_path / name, {**role, **settings})
            for name, role in (("master", MASTER), ("slave", SLAVE))
        ]
        for node in nodes:
            node.start()
            stack.callback(node.kill)
        account = asyncio.run(kill_at_random(nodes, KILLS // 2, random.Random(4))).account
        end = log_end(master.address)
        wait_until(partial(is_level, master, slave), "level")
        assert_equal(master.store, slave.store, end)
        for address in (master.address, slave.address):
            queues = asyncio.run(read_back(address, "killed", account))
            check_nothing_lost_or_doubled(account, queues)
    record_property("said", f"{KILLS // 2 * 2} kills, {len(account.acknowledged)} messages")


def queued(address: str) -> int:
    """Return how many entries the queues of the long log have."""
    of_queue = [{"topic": LONG_TOPIC, "queueId": str(number)} for number in range(QUEUES_COUNT)]
    answers = [ask(address, RequestCode.GET_MAX_OFFSET, fields) for fields in of_queue]
    return sum(int(answer.fields["offset"]) for answer in answers)


def is_level(master: Node, slave: Node) -> bool:
    """Tell whether the logs of both end at the same offset."""
    return 0 < log_end(master.address) == log_end(slave.address)


def unpadded(body: bytes) -> bytes:
    """Return the number that a body begins with."""
    return body.removesuffix(PADDING)


def send_batches(address: str, begin: int, end: int) -> None:
    """Send numbered messages, in turn to each queue, as batches that wait for nobody."""
    fields = {**LETTERS, "b": LONG_TOPIC, "i": "WAIT\x01false\x02", "m": "true"}
    with RawConnection(address) as connection:
        for number in range(begin, end, BATCH_COUNT):
            numbers = range(number, min(number + BATCH_COUNT, end))
            fields["e"] = number // BATCH_COUNT % QUEUES_COUNT
            body = b"".join(part(b"%d" % one + PADDING) for one in numbers)
            answer = connection.ask(RequestCode.SEND_BATCH_MESSAGE, fields, body)
            assert answer.code == ResponseCode.SUCCESS, answer.header


@pytest.mark.timeout(300 + MESSAGES // 500)
@pytest.mark.parametrize(
    ("kind", "slave_kind"), [("wakelog", "real"), ("real", "wakelog"), ("wakelog", "wakelog")]
)
def test_a_slave_has_and_serves_a_million_messages(
    tmp_path: Path, kind: str, slave_kind: str, record_property: Callable[[str, object], None]
) -> None:
    """Checks 1 and 3: it begins empty, and is killed in the middle of what comes."""
    began = time.monotonic()
    with ExitStack() as stack:
        name_server = RealNameServer()
        stack.callback(name_server.kill)
        ships = {"replicationEnable": "true"} if kind == "wakelog" else {}
        settings = {**SMALL, "brokerRole": "ASYNC_MASTER", **ships}
        master = make_node(kind, tmp_path / "master", name_server.address, settings)
        slave = make_node(slave_kind, tmp_path / "slave", name_server.address, SLAVE)
        for node in (master, slave):
            stack.callback(node.kill)
        master.start()
        if slave_kind == "real":  # one that begins later gets the last segment alone
            slave.start()
        send_batches(master.address, 0, BATCH_COUNT)
        if slave_kind == "real":
            wait_until(partial(is_level, master, slave), "level at first")
        begin, step = BATCH_COUNT, MESSAGES // 8
        for part_end in range(step, MESSAGES + 1, step):
            if part_end // step in (3, 6):
                slave.kill()
            send_batches(master.address, begin, part_end)
            if part_end // step in (3, 6) or (part_end == step and slave_kind != "real"):
                slave.start()
            begin = part_end
        end = log_end(master.address)
        wait_until(partial(is_level, master, slave), "level", LEVEL_SECONDS_MAX)
        assert end > 5 * SEGMENT_BYTES
        assert_equal(master.store, slave.store, end)
        wait_until(lambda: LONG_TOPIC in topics(slave.address), "topics copied")
        wait_until(lambda: queued(slave.address) == MESSAGES, "queues made", LEVEL_SECONDS_MAX)
        queues = asyncio.run(pull_all(slave.address, LONG_TOPIC, shorten=unpadded))
    numbers = [int(body) for bodies in queues.values() for body in bodies]
    assert len(numbers) == MESSAGES and sorted(numbers) == list(range(MESSAGES))
    record_property(
        "said",
        f"{slave_kind} slave of a {kind} master, a long log{SEGMENTS}: {MESSAGES} messages,"
        f" {end // SEGMENT_BYTES} segments, {time.monotonic() - began:.0f} s",
    )
