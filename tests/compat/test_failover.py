"""RocketMQ's Java clients while masters of a group with a register are killed and stopped."""

import asyncio
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.actors.elected_group import TOPIC, ElectedGroup, elected_group, read_whole
from tests.compat.driver import JavaDriver, message
from tests.compat.driver import bodies as bodies_of

pytestmark = [pytest.mark.java, pytest.mark.slow]

GAP_SECONDS_MAX = 45.0
"""A producer asks for the route each 30 s, and a master is replaced in some 10 s."""

SENDS = 20
THINK_SECONDS = 0.01


class JavaClients:
    """A producer and a push consumer, each in a JVM of its own, which go on whatever happens."""

    def __init__(self, name_server: str) -> None:
        self._sender, self._receiver = JavaDriver(name_server), JavaDriver(name_server)
        self._is_stopping = threading.Event()
        self._threads = [threading.Thread(target=self._send), threading.Thread(target=self._take)]
        self.acknowledged: set[bytes] = set()
        self.shown: dict[tuple[int, int], set[bytes]] = {}
        self.failures: Counter[str] = Counter()
        self.gap_seconds_max = 0.0

    def start(self) -> None:
        """Begin."""
        self._threads[0].start()
        self.until_sent(1)
        self._receiver("consume", name="reader", group="java_readers", topics=[TOPIC])
        self._threads[1].start()

    def until_sent(self, count: int) -> None:
        """Return after so many further acknowledgements."""
        wanted, end = len(self.acknowledged) + count, time.monotonic() + 2 * GAP_SECONDS_MAX
        while len(self.acknowledged) < wanted:
            assert time.monotonic() < end, self.failures
            time.sleep(THINK_SECONDS)

    def stop(self) -> None:
        """End both."""
        self._is_stopping.set()
        for thread in self._threads:
            thread.join()
        self._sender.stop()
        self._receiver.stop()

    def _send(self) -> None:
        last, number = time.monotonic(), 0
        while not self._is_stopping.is_set():
            number += 1
            body = b"java-%d" % number
            try:
                [sent] = self._sender("send", group="g", messages=[message(TOPIC, body)])
            except Exception as error:
                self.failures[str(error)[:120]] += 1
                continue
            if sent["status"] == "SEND_OK":
                self.acknowledged.add(body)
                now = time.monotonic()
                self.gap_seconds_max = max(self.gap_seconds_max, now - last)
                last = now
            else:  # stored, and not on all in-sync replicas
                self.failures[sent["status"]] += 1
            time.sleep(THINK_SECONDS)

    def _take(self) -> None:
        while not self._is_stopping.is_set():
            taken = self._receiver("takeConsumed", name="reader")
            for one, body in zip(taken, bodies_of(taken), strict=True):
                self.shown.setdefault((one["queueId"], one["queueOffset"]), set()).add(body)
            time.sleep(10 * THINK_SECONDS)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_java_clients_lose_nothing_and_go_on(tmp_path: Path) -> None:
    asyncio.run(fail_over(tmp_path))


async def fail_over(folder: Path) -> None:
    async with elected_group(folder) as group:
        clients = JavaClients(group.name_server)
        try:
            await asyncio.to_thread(clients.start)
            for kills in (True, False, True):
                await end_master(group, clients, kills=kills)
        finally:
            await asyncio.to_thread(clients.stop)
        found = await read_whole(group.address(await group.serving()), len(clients.acknowledged))
        lost = clients.acknowledged - set(found.values())
        assert not lost, sorted(lost)[:3]
        gone = [place for place, seen in clients.shown.items() if seen != {found.get(place)}]
        assert clients.shown and not gone, gone[:3]
        assert clients.gap_seconds_max < GAP_SECONDS_MAX, clients.failures


async def end_master(group: ElectedGroup, clients: JavaClients, *, kills: bool) -> None:
    """Kill or stop the master until sends go on, and have it back."""
    await group.until_in_sync(3)
    master = await group.serving()
    if kills:
        group.kill(master)
    else:
        group.hold(master)
    await asyncio.to_thread(clients.until_sent, SENDS)
    if kills:
        group.start(master)
    else:
        group.go_on(master)
