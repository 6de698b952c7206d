"""Consumers that join and leave within a second: how many messages a group gets twice.

A member that has not heard of another goes on with the queues that both think are theirs. So each
side is asked for the same, one round beside the other, and the sums are compared.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.compat.clusters import STARTERS, Cluster
from tests.compat.driver import JavaDriver, message, wait_until
from tests.compat.together import all_entered, at_once

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.long]

ROUNDS = 10
QUEUES = 8
MESSAGES = 240
BEYOND_MAX = 0.01
"""Of all messages: what may come twice beyond the real broker's, whose own sums differ so."""

REBALANCE_MS_DEFAULT = 20_000


class Group:
    """A consumer group of Java clients, each in a process of its own, and what it has received."""

    def __init__(self, cluster: Cluster, drivers: Sequence[JavaDriver], topic: str) -> None:
        self.topic = topic
        self._drivers = drivers
        self._received: list[str] = []
        self._started = 0
        self._running: dict[int, str] = {}
        self._sender = drivers[-1]
        self._sender("createTopic", address=cluster.broker, topic=topic, queues=QUEUES)

    def start(self, number: int) -> None:
        """Have one of the clients join."""
        self._started += 1
        name = f"{self.topic}_{number}_{self._started}"
        options = {"name": name, "group": f"group_{self.topic}", "topics": [self.topic]}
        self._drivers[number]("consume", **options)
        self._running[number] = name

    def stop(self, number: int) -> None:
        """Have one of the clients leave in order."""
        name = self._running.pop(number)
        got = self._drivers[number]("stopConsuming", name=name)
        self._received += [each["msgId"] for each in got]

    def send(self, count: int) -> None:
        """Send to the queues in turn."""
        self._sender("send", group="g", messages=[message(self.topic) for _ in range(count)])

    def received_ids(self) -> list[str]:
        """Return the id of each message, as often as it came."""
        received = list(self._received)
        for number, name in self._running.items():
            got = self._drivers[number]("consumed", name=name, count=0, timeoutMs=0)
            received += [each["msgId"] for each in got]
        return received

    def finish(self) -> int:
        """Wait until every message has come, end the group, and count what came again."""
        wait_until(lambda: len(set(self.received_ids())) == MESSAGES, what="received")
        for number in list(self._running):
            self.stop(number)
        return len(self._received) - len(set(self._received))


@contextmanager
def flowing(group: Group) -> Iterator[None]:
    """Send all messages while the body runs, a few at a time."""

    def send() -> None:
        for _ in range(MESSAGES // 8):
            group.send(8)
            time.sleep(0.02)

    sender = threading.Thread(target=send)
    sender.start()
    yield
    sender.join()


def four_start_together(group: Group) -> None:
    with flowing(group):
        at_once(*(lambda number=number: group.start(number) for number in range(4)))


def two_of_three_restart(group: Group) -> None:
    for number in range(3):
        group.start(number)
    with flowing(group):
        for number in range(2):
            group.stop(number)
            group.start(number)


@pytest.mark.parametrize("change", [four_start_together, two_of_three_restart])
def test_no_more_comes_twice_than_from_the_real_broker(
    tmp_path: Path,
    record_property: Callable[[str, object], None],
    change: Callable[[Group], None],
) -> None:
    sides = ("real", "notifications")
    twice: dict[str, list[int]] = {side: [] for side in sides}
    starters = {side: STARTERS[side](tmp_path / side) for side in sides}
    with all_entered(starters) as clusters, ExitStack() as stack:
        drivers = {
            side: [
                stack.enter_context(
                    JavaDriver(clusters[side].name_server, rebalance_ms=REBALANCE_MS_DEFAULT)
                )
                for _ in range(5)
            ]
            for side in sides
        }
        for number in range(1 + ROUNDS):
            for side in sides:
                group = Group(clusters[side], drivers[side], f"{change.__name__}_{number}")
                change(group)
                twice[side].append(group.finish())
    for side in sides:
        del twice[side][0]  # Both sides and the clients load their classes in the first round.
    record_property("said", f"{change.__name__}, of {MESSAGES} messages twice: {twice}")
    real, ours = (sum(twice[side]) for side in sides)
    assert ours <= real + BEYOND_MAX * ROUNDS * MESSAGES, twice
