"""Brokers of a group with a register, as processes: what was acknowledged or shown stays."""

import asyncio
import random
from pathlib import Path

import pytest

from tests.actors.elected_group import (
    Account,
    Clients,
    ElectedGroup,
    check_nothing_lost,
    elected_group,
    read_whole,
)

pytestmark = [pytest.mark.process, pytest.mark.slow]

QUICK = (str(Path(__file__).with_name("quick_up.py")),)
SENDS = 20

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
@pytest.mark.timeout(7_200)
def test_200_failovers_lose_nothing(tmp_path: Path) -> None:
    """Masters are killed, or stopped for a time, with the real times."""
    asyncio.run(fail_over(tmp_path, 200))


async def fail_over(tmp_path: Path, count: int) -> None:
    chance = random.Random(20)
    gaps = []
    async with elected_group(tmp_path) as group:
        clients = Clients(group)
        await clients.start()
        epochs: dict[int, int] = {}
        for _ in range(count):
            state = await group.until_in_sync(3)
            assert epochs.setdefault(state.epoch, state.master) == state.master
            master, kills = await group.serving(), chance.random() < 0.5
            if kills:
                group.kill(master)
            else:
                group.hold(master)
            gaps.append(await clients.until_sent(SENDS))
            await asyncio.sleep(chance.random() * 2)
            if kills:
                group.start(master)
            else:
                group.go_on(master)
        account = await clients.stop()
        await check_group(group, account)
    gaps.sort()
    assert gaps[count * 99 // 100 - 1] < GAP_SECONDS_MAX, gaps[-5:]
