"""What `/health/details` says of deployments whose disk, register or replica really fails.

A disk hangs, or is full; a register is lost; a replica lags. Each has a state or a reason of its
own, which goes once it is mended.
"""

import asyncio
import json
import threading
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tests.actors.client import Client
from tests.actors.deployments import small_plan, wait_until
from tests.compat.processes import free_port
from wakelog.actors.broker.replica import Replica
from wakelog.actors.deploy.local import LocalDeployment
from wakelog.actors.deploy.plan import Plan
from wakelog.storage.file_system import DiskUsage, FileSystem

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.long]

SEEN_SECONDS_MAX: Final = 60.0
"""A sync counts as hanging after 5 s, and a follower that does not keep up leaves after 15 s."""

SYNC_SECONDS_MAX: Final = 120.0
TOPIC: Final = "orders"


class SickDisk(FileSystem):
    """A disk whose syncs return while `syncs` is set. used: in per cent."""

    def __init__(self) -> None:
        super().__init__()
        self.syncs = threading.Event()
        self.syncs.set()
        self.used = 50

    def datasync(self, fd: int) -> None:
        assert self.syncs.wait(SYNC_SECONDS_MAX)
        super().datasync(fd)

    def disk_usage(self, path: str) -> DiskUsage:
        return DiskUsage(100, self.used, 100 - self.used)


class Probe:
    """Asks a deployment as an operator does."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/health/details"
        self.last: dict[str, Any] = {}

    def _read(self) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(self._url, timeout=10) as answer:
                return dict(json.load(answer))
        except urllib.error.HTTPError as refusal:  # 503: not ready, with the same body
            with refusal:
                return dict(json.load(refusal))

    async def until(self, name: str, state: str, *, is_ready: bool) -> dict[str, Any]:
        """Return what is said of a broker once it is in a state."""

        async def is_so() -> bool:
            self.last = await asyncio.to_thread(self._read)
            return self.last["brokers"][name]["state"] == state and self.last["ready"] is is_ready

        try:
            await wait_until(is_so, state, SEEN_SECONDS_MAX)
        except AssertionError:
            pytest.fail(f"not {state} within {SEEN_SECONDS_MAX} s: {self.last}")
        return dict(self.last["brokers"][name])


@asynccontextmanager
async def probed(plan: Plan, disk: FileSystem) -> AsyncIterator[tuple[LocalDeployment, Probe]]:
    """Run a deployment on a disk, and give what probes it."""
    plan = msgspec.structs.replace(plan, metrics_port=free_port())
    deployment = LocalDeployment(plan, disk)
    try:
        await deployment.start(lambda step: None)
        yield deployment, Probe(plan.metrics_port)
    finally:
        await deployment.stop(lambda step: None)


def test_a_hung_disk_and_a_full_one_differ(tmp_path: Path) -> None:
    async def main() -> None:
        disk, plan = SickDisk(), small_plan(tmp_path)
        [broker] = plan.brokers
        async with probed(plan, disk) as (_, probe):
            client = Client(broker.address)
            await probe.until(broker.name, "works", is_ready=True)
            disk.syncs.clear()
            await client.send(TOPIC, b"in the log, and not durable")
            hung = await probe.until(broker.name, "disk hangs", is_ready=False)
            assert "a sync of its log has not returned" in hung["reason"] and hung["since"]
            disk.syncs.set()
            await probe.until(broker.name, "works", is_ready=True)
            disk.used = 95
            full = await probe.until(broker.name, "disk refuses", is_ready=False)
            assert "no room" in full["reason"] and full["remedy"] != hung["remedy"]
            disk.used = 50
            await probe.until(broker.name, "works", is_ready=True)
            await client.close()

    asyncio.run(main())


def in_sync_of(replica: Replica) -> frozenset[int]:
    """Return the members of the in-sync set, none before the first election."""
    in_sync = replica.election.in_sync
    return frozenset() if in_sync is None else in_sync.members


def test_a_lost_register_and_a_replica_that_lags_differ(tmp_path: Path) -> None:
    register = tmp_path / "register"

    async def main() -> None:
        setting = f"wakelog.register=file://{register}"
        plan = small_plan(tmp_path / "store", setting, replica_count=2)
        master, follower = plan.brokers
        async with probed(plan, FileSystem()) as (deployment, probe):
            client = Client(master.address)
            elected = deployment.brokers[0].hosted.replica
            assert elected is not None
            await wait_until(lambda: len(in_sync_of(elected)) == 2, "both are in sync")
            await probe.until(master.name, "works", is_ready=True)
            register.rename(tmp_path / "away")
            register.write_text("no folder")
            lost = await probe.until(master.name, "register away", is_ready=True)
            assert "its register cannot be used" in lost["reason"] and lost["since"]
            register.unlink()
            (tmp_path / "away").rename(register)
            await probe.until(master.name, "works", is_ready=True)
            replica = deployment.brokers[1].hosted.replica
            assert replica is not None
            await replica._follower.stop()  # it is there, and copies nothing more
            await client.send(TOPIC, b"what it lacks")
            await probe.until(master.name, "works", is_ready=False)
            reason = f"{follower.name}: is not in the in-sync set of its group yet"
            assert probe.last["reasons"] == [reason]
            await client.close()

    asyncio.run(main())
