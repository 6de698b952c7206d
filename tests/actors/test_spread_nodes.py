"""Replicas on nodes of their own: the master's Broker is ended, and is made again. Then the
master's node dies with its disk, and it begins elsewhere.

What was acknowledged is at all replicas in the end, the new one included.
"""

import asyncio
from pathlib import Path

import pytest

from tests.actors.client import Client
from tests.actors.deployments import wait_until
from tests.actors.elected_group import TOPIC, Account, check_nothing_lost, read_all
from tests.actors.test_two_nodes import PATIENT
from tests.cli.commands import Command, running
from wakelog.actors.registers.register import GroupRegister, group_key, open_register
from wakelog.broker.replication.group_state import GroupState
from wakelog.client import ClientError, Producer

pytestmark = [
    pytest.mark.ray,
    pytest.mark.kill,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(400),
]

PROGRAM = (str(Path(__file__).with_name("spread_nodes.py")),)
READY_SECONDS_MAX = 180.0
STEP_SECONDS_MAX = 60.0
WHOLE_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 60.0
SENDS = 100


@pytest.mark.parametrize("how", ["kill", "leave"])
def test_a_replica_of_a_dead_node_begins_on_another_one(short_path: Path, how: str) -> None:
    with running(PROGRAM, str(short_path), environment=PATIENT) as program:
        words = program.wait_line("ready", READY_SECONDS_MAX).split()
        asyncio.run(lose_nodes(program, short_path, words[1], words[2:], how))
        program.write_line("stop")
        assert program.wait_end(STOP_SECONDS_MAX)[0] == 0
        assert program.lines[-1] == "stopped"


async def lose_nodes(
    program: Command, folder: Path, name_server: str, addresses: list[str], how: str
) -> None:
    account, is_over = Account(), asyncio.Event()
    register = open_register(f"file://{folder}/store/wakelog.register")
    group = GroupRegister(register, group_key("DefaultCluster", "broker-a"))

    def whole() -> GroupState | None:
        state = group.read().state
        return state if state is not None and len(state.in_sync) == 3 else None

    state = await wait_until(whole, "three in sync", WHOLE_SECONDS_MAX)
    before = await asyncio.to_thread(places, program)
    assert len(set(before)) == 3, before
    sending = asyncio.create_task(send(name_server, account, is_over))
    await until_sent(account)
    await asyncio.to_thread(command, program, f"end {state.master}")
    await until_sent(account)
    state = await wait_until(whole, "three in sync after an ended Broker", WHOLE_SECONDS_MAX)
    master = state.master
    await asyncio.to_thread(command, program, f"{how} {master}")
    await until_sent(account)

    def followed() -> GroupState | None:
        found = whole()
        return found if found is not None and found.master != master else None

    await wait_until(followed, "three in sync again", WHOLE_SECONDS_MAX)
    after = await asyncio.to_thread(places, program)
    assert len(set(after)) == 3 and after[master - 1] != before[master - 1], (before, after)
    await until_sent(account)
    is_over.set()
    await sending
    for address in addresses:

        async def has_all(address: str = address) -> bool:
            found = await read_all(Client(address))
            return account.acknowledged <= set(found.values())

        await wait_until(has_all, f"everything at {address}", WHOLE_SECONDS_MAX)
        check_nothing_lost(account, await read_all(Client(address)))
    group.close()


async def send(name_server: str, account: Account, is_over: asyncio.Event) -> None:
    async with Producer(name_server, group="senders") as producer:
        while not is_over.is_set():
            account.attempts += 1
            body = b"%d" % account.attempts
            try:
                await producer.send(TOPIC, body)
            except ClientError as error:
                account.failures[str(error)[:160]] += 1
                await asyncio.sleep(0.05)
            else:
                account.acknowledged.add(body)


async def until_sent(account: Account) -> None:
    """Return after some further acknowledgements."""
    wanted = len(account.acknowledged) + SENDS
    await wait_until(
        lambda: len(account.acknowledged) >= wanted, f"sends: {account.failures}", STEP_SECONDS_MAX
    )


def command(program: Command, line: str) -> list[str]:
    """Have a line carried out; return the nodes of the replicas after it."""
    program.write_line(line)
    return program.wait_line(f"did {line}", STEP_SECONDS_MAX).partition(": ")[2].split()


def places(program: Command) -> list[str]:
    """Return the nodes of the replicas."""
    return command(program, "places")
