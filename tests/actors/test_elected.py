"""Brokers of a group with a register, as processes: what was acknowledged or shown stays."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.actors.elected_group import (
    QUICK_PROGRAM,
    SENDS,
    TOPIC,
    Clients,
    ElectedGroup,
    check_group,
    elected_group,
    leaders,
    replace_master,
)
from tests.actors.registers.etcd_members import EtcdMembers
from tests.actors.registers.fake_kubernetes import NAMESPACE, TOKEN, FakeKubernetes
from tests.actors.replicas import assert_equal, log_end, wait_until
from tests.compat.frames import RawConnection
from wakelog.protocol.codes import RequestCode

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.either]

WITHOUT_REGISTER_SECONDS = 12.0
"""Longer than anybody waits for the register, or for a silent master."""

SLOW_SECONDS = 0.5
TOO_SLOW_SECONDS = 2.0
"""Each way; a call may take 2 s."""


def test_a_killed_master_loses_nothing(tmp_path: Path) -> None:
    asyncio.run(kill(tmp_path))


async def kill(tmp_path: Path) -> None:
    async with elected_group(tmp_path, QUICK_PROGRAM) as group:
        clients = Clients(group)
        await clients.start()
        state = await replace_master(group, clients)
        assert state.epoch > 1
        await check_group(group, await clients.stop())
        led = leaders(group)
        assert led[state.epoch] == {state.master} and max(map(len, led.values())) == 1, led


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_group_waits_for_most_of_its_register_when_its_master_dies(tmp_path: Path) -> None:
    """None leads without the register, nothing is acknowledged, and all goes on with it."""
    with EtcdMembers(tmp_path, 3) as etcd:
        asyncio.run(lose_register_and_master(tmp_path, etcd))


async def lose_register_and_master(tmp_path: Path, etcd: EtcdMembers) -> None:
    async with elected_group(tmp_path, register=address_of(etcd)) as group:
        clients = Clients(group)
        await clients.start()
        master = await group.serving()
        for index in (0, 1):
            etcd.kill(index)
        await clients.until_sent(SENDS)
        group.kill(master)
        await asyncio.sleep(WITHOUT_REGISTER_SECONDS)
        sent = len(clients.account.acknowledged)
        await asyncio.sleep(WITHOUT_REGISTER_SECONDS)
        assert len(clients.account.acknowledged) == sent
        etcd.start(0)
        await asyncio.to_thread(etcd.wait_healthy, 0)
        await clients.until_sent(SENDS)
        group.start(master)
        state = await group.until_in_sync(3)
        assert state.master != master
        await check_group(group, await clients.stop())
        assert max(map(len, leaders(group).values())) == 1
        etcd.start(1)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("answers", [True, False], ids=["late", "too-late"])
def test_a_slow_register_loses_nothing(tmp_path: Path, answers: bool) -> None:
    """It answers after a second, or never in time: then a master goes on, and none takes over."""
    with EtcdMembers(tmp_path, 3) as etcd:
        asyncio.run(have_slow_register(tmp_path, etcd, answers))


async def have_slow_register(tmp_path: Path, etcd: EtcdMembers, answers: bool) -> None:
    async with elected_group(tmp_path, register=address_of(etcd)) as group:
        clients = Clients(group)
        await clients.start()
        before = group.state()
        slow(group, SLOW_SECONDS if answers else TOO_SLOW_SECONDS)
        await asyncio.sleep(WITHOUT_REGISTER_SECONDS)
        await clients.until_sent(SENDS)
        after = group.state()
        assert before is not None and after is not None and before.epoch == after.epoch
        master = await group.serving()
        group.kill(master)
        if not answers:
            await asyncio.sleep(WITHOUT_REGISTER_SECONDS)
            found = group.state()
            assert found is not None and found.epoch == before.epoch
            slow(group, 0.0)
        await clients.until_sent(SENDS)
        slow(group, 0.0)
        group.start(master)
        state = await group.until_in_sync(3)
        assert state.master != master
        await check_group(group, await clients.stop())
        assert max(map(len, leaders(group).values())) == 1


def slow(group: ElectedGroup, seconds: float) -> None:
    """Hold back what goes to the register, and what comes from it."""
    for lines in group.register_lines.values():
        for line in lines:
            line.delay_seconds = seconds


def address_of(etcd: EtcdMembers) -> str:
    """Return the register that all members of etcd are."""
    return "etcd://" + ",".join(f"127.0.0.1:{port}" for port in etcd.client_ports)


@pytest.mark.long
def test_an_old_master_comes_back_with_1000_messages_that_no_other_has(tmp_path: Path) -> None:
    """Check 16: they are cut, and kept aside; the logs are equal, and it is in sync again."""
    asyncio.run(bring_back(tmp_path, 1_000))


async def bring_back(folder: Path, count: int) -> None:
    async with elected_group(folder) as group:
        clients = Clients(group)
        await clients.start()
        await clients.until_sent(SENDS)
        account = await clients.stop()
        old = await group.serving()
        address = group.address(old)
        await asyncio.to_thread(until_level, group)
        group.lines[old].freeze()
        bodies = [b"unacknowledged %04d" % number for number in range(count)]
        opaques = await asyncio.to_thread(send_at_once, address, group.store(old), bodies)
        assert opaques == []  # none was answered
        group.kill(old)
        group.lines[old].cut()  # so that what it holds comes nowhere
        group.mend()
        clients = Clients(group)
        await clients.start()
        await clients.until_sent(SENDS)
        group.start(old)
        state = await group.until_in_sync(3)
        assert state.master != old
        await check_group(group, account, await clients.stop())
        await asyncio.to_thread(until_level, group)
        level = await asyncio.to_thread(log_end, address)
        for number in group.numbers:
            assert_equal(group.store(old), group.store(number), level)
        kept = b"".join(
            path.read_bytes()
            for path in sorted((group.store(old) / "wakelog.quarantine").rglob("*"))
            if path.is_file()
        )
        assert [body for body in bodies if body not in kept] == []


def send_at_once(address: str, store: Path, bodies: Sequence[bytes]) -> list[int]:
    """Send messages that nobody may acknowledge; return which were, once all are in the log."""
    texts = f"a=g b={TOPIC} c=TBW102 d=4 e=0 f=0 g=1 h=0 i= j=0 k=false"
    fields = dict(text.split("=") for text in texts.split())
    with RawConnection(address) as connection:
        for body in bodies:
            connection.send(RequestCode.SEND_MESSAGE_V2, fields, body)
        wait_until(lambda: is_stored(store, bodies[-1]), "all are in the log")
        return connection.unasked()


def is_stored(store: Path, body: bytes) -> bool:
    """Tell whether a log has a body; a client is not shown what is not confirmed."""
    return any(body in path.read_bytes() for path in (store / "commitlog").iterdir())


def until_level(group: ElectedGroup) -> None:
    """Return once all logs end at the same offset."""
    addresses = [group.address(number) for number in group.numbers]
    wait_until(lambda: len({log_end(address) for address in addresses}) == 1, "level")
