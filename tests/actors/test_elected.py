"""Brokers of a group with a register, as processes: what was acknowledged or shown stays."""

import asyncio
from pathlib import Path

import pytest

from tests.actors.elected_group import (
    QUICK_PROGRAM,
    SENDS,
    Clients,
    check_group,
    elected_group,
    leaders,
    replace_master,
)
from tests.actors.registers.etcd_members import EtcdMembers
from tests.actors.registers.fake_kubernetes import NAMESPACE, TOKEN, FakeKubernetes

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.long]

WITHOUT_REGISTER_SECONDS = 12.0
"""Longer than anybody waits for the register, or for a silent master."""


@pytest.mark.timeout(600)
def test_a_group_goes_on_while_its_register_fails(tmp_path: Path) -> None:
    """Members of etcd are killed, first one and then all, and masters beside that."""
    with EtcdMembers(tmp_path, 3) as etcd:
        asyncio.run(lose_the_register(tmp_path, etcd))


async def lose_the_register(tmp_path: Path, etcd: EtcdMembers) -> None:
    async with elected_group(tmp_path, register=address_of(etcd)) as group:
        clients = Clients(group)
        await clients.start()
        etcd.kill(0)
        for _ in range(2):
            await replace_master(group, clients)
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


def test_a_group_decides_by_a_lease_of_kubernetes(tmp_path: Path) -> None:
    """Its API server is started again, and forgets old events, while masters are killed."""
    with FakeKubernetes() as kubernetes:
        asyncio.run(decide_by_lease(tmp_path, kubernetes))


async def decide_by_lease(tmp_path: Path, kubernetes: FakeKubernetes) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    server = f"http://127.0.0.1:{kubernetes.port}"
    register = f"kubernetes://{NAMESPACE}/groups?server={server}&token={token}"
    async with elected_group(tmp_path, QUICK_PROGRAM, register=register) as group:
        clients = Clients(group)
        await clients.start()
        for disturb in (kubernetes.restart, kubernetes.forget_history):
            await asyncio.to_thread(disturb)
            await clients.until_sent(SENDS)
            await replace_master(group, clients)
        await check_group(group, await clients.stop())
        assert max(map(len, leaders(group).values())) == 1


def address_of(etcd: EtcdMembers) -> str:
    """Return the register that all members of etcd are."""
    return "etcd://" + ",".join(f"127.0.0.1:{port}" for port in etcd.client_ports)
