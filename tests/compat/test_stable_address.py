"""A Java producer that knows one address of a group, as behind a virtual IP: check 15.

Another name server tells it that address alone. A line there carries to whoever is master.
"""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.actors.client import Client
from tests.actors.elected_group import (
    POLL_SECONDS,
    QUEUES_COUNT,
    TOPIC,
    ElectedGroup,
    begin_fault,
    check_group,
    elected_group,
)
from tests.actors.lines import Line
from tests.actors.registers.etcd_members import EtcdMembers
from tests.compat.java_clients import JavaClients
from tests.compat.processes import free_port
from tests.compat.real_rocketmq import RealNameServer
from wakelog.protocol.bodies import RegisterBrokerBody, TopicConfig, TopicConfigSerializeWrapper
from wakelog.protocol.codes import RequestCode, ResponseCode

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.long]

FAULTS: Final = ("kill", "hold", "alone") * 4
SENDS: Final = 20
BACK_SECONDS_MAX: Final = 15.0


@pytest.mark.timeout(900)
def test_a_producer_with_a_stable_address_sends_again_within_15_s(tmp_path: Path) -> None:
    names = RealNameServer()
    try:
        with EtcdMembers(tmp_path, 3) as etcd:
            asyncio.run(have_faults(tmp_path, etcd, names.address))
    finally:
        names.kill()


async def have_faults(folder: Path, etcd: EtcdMembers, names: str) -> None:
    places = ",".join(f"127.0.0.1:{port}" for port in etcd.client_ports)
    line = Line("127.0.0.1", free_port())
    await line.open()
    client = Client(names)  # a name server forgets a broker whose connection ends
    try:
        async with elected_group(folder, register=f"etcd://{places}") as group:
            await register(client, line)
            following = asyncio.ensure_future(follow_master(group, line, client))
            backs = await send_through(group, names)
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following
            print(*(f"{fault}: {seconds:.1f} s" for fault, seconds in backs), sep="\n")
            assert max(seconds for _, seconds in backs) < BACK_SECONDS_MAX, backs
    finally:
        await client.close()
        await line.close()


async def send_through(group: ElectedGroup, names: str) -> list[tuple[str, float]]:
    """Have all faults; return after how many seconds the producer had sent again for each."""
    java, backs = JavaClients(names), list[tuple[str, float]]()
    try:
        await asyncio.to_thread(java.start)
        for fault in FAULTS:
            await group.until_in_sync(3)
            master = await group.serving()
            await asyncio.to_thread(java.until_sent, SENDS)
            end = begin_fault(group, master, fault, (1, 2))
            backs.append((fault, await asyncio.to_thread(java.until_sent, SENDS)))
            end()
    finally:
        await asyncio.to_thread(java.stop)
    await check_group(group, java.account)
    assert java.account.shown
    return backs


async def follow_master(group: ElectedGroup, line: Line, client: Client) -> None:
    """Have a line carry to the master, end the connections to the one before, stay registered."""
    while True:
        port = group.ports[await group.serving()]
        if line.to_port != port:
            line.to_port = port
            line.cut()
            line.mend()
        await register(client, line)
        await asyncio.sleep(POLL_SECONDS)


async def register(client: Client, line: Line) -> None:
    """Register a broker of the group's name at the line, with the topic."""
    topic = TopicConfig(
        topic_name=TOPIC, read_queue_nums=QUEUES_COUNT, write_queue_nums=QUEUES_COUNT
    )
    wrapper = TopicConfigSerializeWrapper(topic_config_table={TOPIC: topic})
    body = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper)
    address = f"{line.host}:{line.port}"
    fields = {
        "brokerName": "broker-a",
        "brokerAddr": address,
        "clusterName": "DefaultCluster",
        "haServerAddr": address,
        "brokerId": 0,
        "compressed": "false",
    }
    answer = await client.call(RequestCode.REGISTER_BROKER, fields, msgspec.json.encode(body))
    assert answer.code == ResponseCode.SUCCESS, answer.remark
