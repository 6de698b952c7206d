"""Allocate and Reput killed while they make a file: the real 4.9.3 broker opens what they leave.

Ten kills of each in turn, on one store under load. The first of them that leaves a file half made
is looked at more closely: everybody else is stopped and the store is copied as it lies there, as if
all processes had died together. A real broker opens that copy and serves what was acknowledged.
"""

import asyncio
import os
import random
import shutil
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from benchmarks.kills import note
from tests.actors.deployments import wait_until
from tests.actors.load import Account, Load, pull_all
from tests.actors.strikes import Times, Victim, struck
from tests.actors.supervised_brokers import FILE_SIZES, SupervisedBroker
from tests.compat.clusters import real_cluster
from tests.compat.processes import hold, states_of

pytestmark = [
    pytest.mark.ray,
    pytest.mark.java,
    pytest.mark.kill,
    pytest.mark.slow,
    pytest.mark.timeout(300),
]

SEED = 4_093
KILLS_COUNT = 10
BODY_BYTES = 2_000
"""Some hundred messages fill a segment."""

KILLER = Path(__file__).with_name("creation_killer.py")
PREFIXES = {
    "AllocateMappedFile": "wakelog.new.allocate_mapped_file.",
    "Reput": "wakelog.new.reput.",
}
"""How files begin that a role has not finished, in the store's root."""

TENS = [0, *(pytest.param(ten, marks=pytest.mark.long) for ten in range(1, 10))]


class Image(NamedTuple):
    """A copy of a store, and what had been acknowledged by then, by topic."""

    root: Path
    acknowledged: dict[str, Account]


class CreationKills:
    """Ten kills of one role on one store."""

    def __init__(self, supervised: SupervisedBroker, role: str, folder: Path) -> None:
        self._supervised = supervised
        self._role = role
        self._folder = folder
        self._store = Path(supervised.plan.brokers[0].settings.store.store_path_root)
        self._accounts: dict[str, Account] = {}
        self._half_made = False
        self.image: Image | None = None

    async def kill(self, number: int, *, is_last: bool, keep: bool) -> None:
        """Kill the role once in the middle of a file, and see that nothing was lost."""
        chance = random.Random(f"{SEED} {self._role} {number}").random()
        victim = Victim(self._supervised, self._role)

        async def blow(load: Load, times: Times) -> None:
            self._accounts[load.topic] = load.account
            await victim.look()
            others = await self._supervised.process_ids()
            await self._run_killer(victim.process_id, chance)
            times.strike()
            await wait_until(lambda: is_dead(victim.process_id), "dead")
            names = self._store.glob(PREFIXES[self._role] + "*")
            self._half_made = any(map(is_half_made, names))
            if self.image is None and (self._half_made or is_last):
                self._copy(others.values())
            await victim.wait_back(load, times)

        incident = await struck(
            self._supervised,
            blow,
            case="creation",
            role=self._role,
            number=number,
            body_bytes=BODY_BYTES,
            before_seconds=0,  # the killer waits until some files were made
        )
        if keep:
            note(msgspec.structs.replace(incident, half_made=self._half_made))
        assert (incident.lost, incident.doubled) == (0, 0), f"seed {SEED} {self._role} {number}"

    async def _run_killer(self, process_id: int, chance: float) -> None:
        """Return once the process was killed."""
        words = [str(self._store), PREFIXES[self._role], str(process_id), str(chance)]
        killer = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", str(KILLER), *words, stdout=asyncio.subprocess.DEVNULL
        )
        try:
            async with asyncio.timeout(30):
                assert await killer.wait() == 0
        finally:
            if killer.returncode is None:
                killer.kill()
                await killer.wait()

    def _copy(self, process_ids: Iterable[int]) -> None:
        snapshot = {
            topic: Account(acknowledged=dict(account.acknowledged))
            for topic, account in self._accounts.items()
        }
        root = self._folder / self._role
        with stopped(process_ids):
            shutil.copytree(self._store, root, symlinks=True)
        # The links that keep 4.9.3 out of a store in use lead to the Broker's process.
        for link in (root / "config").iterdir():
            if link.is_symlink():
                link.unlink()
                link.symlink_to("/proc/gone")
        self.image = Image(root, snapshot)


def is_half_made(path: Path) -> bool:
    """Tell whether a file has no name of its own yet, and was not made ahead of need."""
    found = path.stat()
    return ".ahead." not in path.name or found.st_blocks * 512 < max(found.st_size, 1)


def is_dead(process_id: int) -> bool:
    """Tell whether a process has ended, be it that nobody took notice yet."""
    return states_of(process_id) <= set("ZX")


@contextmanager
def stopped(process_ids: Iterable[int]) -> Iterator[None]:
    """Hold processes; those that are gone are held already."""
    held = list(process_ids)
    try:
        hold(held)
        yield
    finally:
        for process_id in held:
            with suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGCONT)


def check_served_by_a_real_broker(image: Image, folder: Path) -> None:
    """Have 4.9.3 open a store; assert that it serves everything that was acknowledged."""
    with real_cluster(folder, store=image.root, settings=FILE_SIZES) as cluster:
        for topic, account in image.acknowledged.items():
            queues = asyncio.run(pull_all(cluster.broker, topic))
            assert not account.lost(queues), topic


@pytest.mark.parametrize("supervised", ["bells"], indirect=True, scope="session")
@pytest.mark.parametrize("ten", TENS)
@pytest.mark.parametrize("role", PREFIXES)
def test_rocketmq_opens_what_a_kill_in_mid_creation_leaves(
    supervised: SupervisedBroker,
    role: str,
    ten: int,
    tmp_path: Path,
    pytestconfig: pytest.Config,
) -> None:
    kills = CreationKills(supervised, role, tmp_path)
    keep = pytestconfig.getoption("--long")

    async def main() -> None:
        for number in range(KILLS_COUNT):
            is_last = number == KILLS_COUNT - 1
            await kills.kill(ten * KILLS_COUNT + number, is_last=is_last, keep=keep)

    asyncio.run(main())
    assert kills.image is not None
    check_served_by_a_real_broker(kills.image, tmp_path / "real")
