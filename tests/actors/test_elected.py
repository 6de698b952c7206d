"""Brokers of a group with a register, as processes: what was acknowledged or shown stays."""

import asyncio
import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.actors.elected_group import (
    PROGRAM,
    Account,
    Clients,
    ElectedGroup,
    check_nothing_lost,
    elected_group,
    read_whole,
)
from tests.actors.registers.etcd_members import EtcdMembers

pytestmark = [pytest.mark.process, pytest.mark.slow]

QUICK = (str(Path(__file__).with_name("quick_up.py")),)
SENDS = 20

WITHOUT_REGISTER_SECONDS = 12.0
"""Longer than anybody waits for the register, or for a silent master."""

GAP_SECONDS_MAX = 15.0
"""Without an acknowledgement: for 99 of 100 failovers."""


async def check_group(group: ElectedGroup, account: Account) -> None:
    """Assert that every replica has all that was acknowledged, where it was shown."""
    await group.until_in_sync(3)
    master = await group.serving()
    found = await read_whole(group.address(master), len(account.acknowledged))
    check_nothing_lost(account, found)
    for number in group.numbers:
        assert await read_whole(group.address(number), len(found)) == found, number


def test_a_killed_master_loses_nothing(tmp_path: Path) -> None:
    asyncio.run(kill(tmp_path))


async def kill(tmp_path: Path) -> None:
    async with elected_group(tmp_path, QUICK) as group:
        clients = Clients(group)
        await clients.start()
        first = await group.serving()
        group.kill(first)
        await clients.until_sent(SENDS)
        group.start(first)
        state = await group.until_in_sync(3)
        assert state.master != first and state.epoch > 1
        await check_group(group, await clients.stop())


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_group_goes_on_while_its_register_fails(tmp_path: Path) -> None:
    """Members of etcd are killed, first one and then all, and masters beside that."""
    with EtcdMembers(tmp_path, 3) as etcd:
        asyncio.run(lose_the_register(tmp_path, etcd))


async def lose_the_register(tmp_path: Path, etcd: EtcdMembers) -> None:
    places = ",".join(f"127.0.0.1:{port}" for port in etcd.client_ports)
    async with elected_group(tmp_path, register=f"etcd://{places}") as group:
        clients = Clients(group)
        await clients.start()
        etcd.kill(0)
        for _ in range(2):
            master = await group.serving()
            group.kill(master)
            await clients.until_sent(SENDS)
            group.start(master)
            await group.until_in_sync(3)
        state = group.state()
        for index in (1, 2):
            etcd.kill(index)
        await clients.until_sent(SENDS)
        await asyncio.sleep(WITHOUT_REGISTER_SECONDS)
        await clients.until_sent(SENDS)
        for index in range(3):
            etcd.start(index)
        for index in range(3):
            await asyncio.to_thread(etcd.wait_healthy, index)
        found = await group.until_in_sync(3)
        assert state is not None and (found.epoch, found.master) == (state.epoch, state.master)
        await check_group(group, await clients.stop())


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_200_faults_lose_nothing(tmp_path: Path) -> None:
    """Masters are killed, stopped, or cut off from their followers, with the real times."""
    asyncio.run(fail_over(tmp_path, 200))


async def fail_over(tmp_path: Path, count: int, program: Sequence[str] = PROGRAM) -> None:
    """Have so many faults, one after the other, and look whether anything is lost."""
    chance = random.Random(20)
    gaps, epochs = [], dict[int, int]()
    async with elected_group(tmp_path, program) as group:
        clients = Clients(group)
        await clients.start()
        for _ in range(count):
            state = await group.until_in_sync(3)
            assert epochs.setdefault(state.epoch, state.master) == state.master
            master = await group.serving()
            end = begin_fault(group, master, chance)
            if end is not None:
                gaps.append(await clients.until_sent(SENDS))
                await asyncio.sleep(chance.random() * 2)
                end()
            await clients.until_sent(SENDS)
        await check_group(group, await clients.stop())
    gaps.sort()
    assert gaps[len(gaps) * 99 // 100] < GAP_SECONDS_MAX, gaps[-5:]


def begin_fault(
    group: ElectedGroup, master: int, chance: random.Random
) -> Callable[[], None] | None:
    """Begin a fault; return what ends it, None if sends wait for nothing but its end."""
    line = group.lines[master]
    match chance.choice(["kill", "kill", "hold", "hold", "cut", "freeze"]):
        case "kill":
            group.kill(master)
            return partial(group.start, master)
        case "hold":
            group.hold(master)
            return partial(group.go_on, master)
        case "cut":  # of all followers from the master, which the register still hears
            line.cut()
        case "freeze":
            line.freeze()
    asyncio.get_running_loop().call_later(chance.random() * 8, line.mend)
    return None
