"""Two brokers on two nodes: one node dies and comes back, and clients go on."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.actors.client import brokers_in, route_of
from tests.actors.deployments import wait_until
from tests.actors.load import Account, Load, check_nothing_lost_or_doubled, pull_all
from tests.cli.commands import Command, running

pytestmark = [
    pytest.mark.ray,
    pytest.mark.kill,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(240),
]

PROGRAM = (str(Path(__file__).with_name("two_nodes.py")),)
READY_SECONDS_MAX = 120.0
ADD_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 60.0
TOPIC = "spread"

PATIENT = {"RAY_raylet_start_wait_time_s": "120"}
"""Ray gives up after 30 s, which a machine that many tests share may need."""

BACK_SECONDS_MAX = 30.0
"""From the moment on at which the node is back: Ray starts eight processes on it."""

OTHER_STALL_MS_MAX = 1_000.0
"""The broker of the other node has no part in it; the machine has, on which all this runs."""


class TwoNodes(NamedTuple):
    """The running program and the addresses that it printed."""

    program: Command
    name_server: str
    first: str
    second: str

    def send_command(self, line: str) -> None:
        self.program.write_line(line)
        self.program.wait_line(f"did {line}", ADD_SECONDS_MAX)


@pytest.fixture
def nodes(short_path: Path) -> Iterator[TwoNodes]:
    with running(PROGRAM, str(short_path), environment=PATIENT) as program:
        words = program.wait_line("ready", READY_SECONDS_MAX).split()
        yield TwoNodes(program, *words[1:])
        program.write_line("stop")
        assert program.wait_end(STOP_SECONDS_MAX)[0] == 0
        assert program.lines[-1] == "stopped"


def test_a_node_dies_and_comes_back_while_clients_go_on(nodes: TwoNodes) -> None:
    async def main() -> None:
        loads = [Load(address, TOPIC, senders=2) for address in (nodes.first, nodes.second)]
        first, second = loads
        for load in loads:
            load.start()

        async def is_in_route(expected: set[str]) -> bool:
            return brokers_in(await route_of(nodes.name_server, TOPIC)) == expected

        both = {nodes.first, nodes.second}
        await wait_until(lambda: is_in_route(both), "a route to both brokers")
        await _some_more(first, second)

        killed_at = time.monotonic()
        await asyncio.to_thread(nodes.send_command, "kill")
        await wait_until(lambda: is_in_route({nodes.first}), "a route without the dead one")
        before = len(second.account.acknowledged)
        await _some_more(first)
        assert len(second.account.acknowledged) == before

        await asyncio.to_thread(nodes.send_command, "add")
        added_at = time.monotonic()
        await _some_more(first, second)
        assert time.monotonic() - added_at < BACK_SECONDS_MAX
        await wait_until(lambda: is_in_route(both), "a route to both brokers again")

        accounts = [await load.stop() for load in loads]
        assert accounts[0].longest_gap_ms(killed_at) < OTHER_STALL_MS_MAX
        for address, account in zip((nodes.first, nodes.second), accounts, strict=True):
            check_nothing_lost_or_doubled(account, await _queues(address, account))

    asyncio.run(main())


async def _some_more(*loads: Load) -> None:
    """Return once each load had some more messages taken."""
    goals = [len(load.account.acknowledged) + 20 for load in loads]

    def are_reached() -> bool:
        return all(
            len(load.account.acknowledged) >= goal for load, goal in zip(loads, goals, strict=True)
        )

    await wait_until(are_reached, "more messages", seconds_max=BACK_SECONDS_MAX)


async def _queues(address: str, account: Account) -> dict[int, list[bytes]]:
    """Pull until everything that was acknowledged is there."""

    async def read_all() -> dict[int, list[bytes]] | None:
        queues = await pull_all(address, TOPIC)
        return queues if sum(map(len, queues.values())) >= len(account.acknowledged) else None

    found: dict[int, list[bytes]] = await wait_until(read_all, "every message")
    return found
