"""Replicas of a group with a register in one process, on folders of their own."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

from msgspec import structs

from tests.actors.client import Client
from tests.actors.plans import service_plan
from tests.compat.processes import free_port
from wakelog.actors.broker.replica import Replica
from wakelog.actors.deploy.local import LocalBroker, start_local_broker
from wakelog.actors.registers.register import GroupRegister, StaleVersion, open_register
from wakelog.broker.replication.election import ElectionSettings
from wakelog.broker.replication.group_state import GroupState
from wakelog.broker.replication.takeover import hand_over
from wakelog.cli.cluster.replicas import PROPOSALS_MAX
from wakelog.network.errors import ConnectFailed
from wakelog.protocol.command import RemotingCommand
from wakelog.storage.read.reader import GetRequest

TOPIC = "TBW102"
QUICK = ElectionSettings(read_ms=100)
POLL_SECONDS = 0.02


class Group:
    """Replicas by number, on folders of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.register = f"file://{folder}/register"
        self.brokers: dict[int, LocalBroker] = {}
        self.access_key, self.home = "", folder
        self.names_own_node = False
        self.settings: Mapping[str, Any] = {}
        self.ports = {number: free_port(-2, 1) for number in (1, 2, 3)}

    async def start(self, number: int, min_in_sync: int = 1) -> Replica:
        """Start one; it serves as a follower then, or soon as the master."""
        folder = self.folder / str(number)
        folder.mkdir(exist_ok=True)
        plan = service_plan(
            folder,
            brokerRole="SYNC_MASTER",
            listenPort=self.ports[number],
            minInSyncReplicas=min_in_sync,
            aclEnable=str(bool(self.access_key)).lower(),
            rocketmqHome=self.home,
            **self.settings,
        )
        plan = structs.replace(
            plan,
            register=self.register,
            replica_id=number,
            access_key=self.access_key,
            names_own_node=self.names_own_node,
        )
        self.brokers[number] = await start_local_broker(plan)
        return self.replica(number)

    def replica(self, number: int) -> Replica:
        """Return one that runs."""
        found = self.brokers[number].hosted.replica
        assert found is not None
        return found

    async def stop(self, number: int) -> bool:
        """Stop one in order."""
        return await self.brokers.pop(number).stop()

    def address(self, number: int) -> str:
        """Return where one answers."""
        return f"127.0.0.1:{self.ports[number]}"

    async def until_serving(self, number: int) -> Replica:
        """Return once a replica takes sends."""
        one = self.replica(number)
        await until(lambda: one.run.serves and one.service.store.writable)
        return one

    def group_register(self) -> GroupRegister:
        """Return what decides."""
        return GroupRegister(open_register(self.register), "wakelog/DefaultCluster/broker-a")

    def state(self) -> GroupState:
        """Return what was decided."""
        found = self.group_register().read().state
        assert found is not None
        return found

    def name_master(
        self, number: int, choose: Callable[[GroupState, int], GroupState] = hand_over
    ) -> None:
        """Name the replica that is to lead, as an operator does."""
        register = self.group_register()
        for _ in range(PROPOSALS_MAX):
            state, version = register.read()
            assert state is not None
            with suppress(StaleVersion):  # the master has renewed meanwhile
                register.replace(choose(state, number), version)
                return
        raise AssertionError("the register changes all the time")


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(POLL_SECONDS)


@asynccontextmanager
async def group_of(folder: Path, times: ElectionSettings = QUICK) -> AsyncIterator[Group]:
    """Yield a group whose replicas are not started yet, and stop them."""
    group = Group(folder)
    with mock.patch.object(Replica, "times", times):
        try:
            yield group
        finally:
            for number in list(group.brokers):
                await group.stop(number)


async def send(group: Group, number: int, body: bytes = b"body") -> RemotingCommand:
    """Send one message, once the replica accepts: it opens anew for each role."""
    client = Client(group.address(number))
    try:
        while True:
            try:
                return await client.send(TOPIC, body)
            except ConnectFailed:
                await asyncio.sleep(POLL_SECONDS)
    finally:
        await client.close()


async def bodies(group: Group, number: int) -> list[bytes]:
    """Return what a replica shows consumers."""
    store = group.replica(number).service.store
    found: list[bytes] = []
    while (result := store.get_message(GetRequest(TOPIC, 0, len(found), 32))) and result.count:
        offsets = range(len(found), len(found) + result.count)
        entries = [store.consume_queue_entries(TOPIC, 0, offset, 1)[0] for offset in offsets]
        records = [store.message_at(one.physical_offset) for one in entries]
        found += [record.body for record in records if record is not None]
    return found
