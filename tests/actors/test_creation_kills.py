"""Allocate and Reput killed while they make a file: the real 4.9.3 broker opens what they leave.

Ten kills of each, on one store under load, each in a round of its own beside the other's. The first
kill of a role that leaves a file half made is checked further: all other processes are stopped and
the store is copied, as if all processes had died together. A real broker opens each of those copies
and serves what was acknowledged.
"""

import asyncio
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.actors.deployments import wait_until
from tests.actors.kill_incidents import Incident, Times, Victim, watch_incident
from tests.actors.load import Account, Load, pull_all
from tests.actors.supervised_brokers import FILE_SIZES, SupervisedBroker
from tests.compat.clusters import real_cluster
from tests.compat.processes import hold, states_of
from tests.compat.together import at_once

pytestmark = [
    pytest.mark.ray,
    pytest.mark.java,
    pytest.mark.kill,
    pytest.mark.long,
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

TENS = range(10)


class Image(NamedTuple):
    """A copy of a store, and what had been acknowledged by then, by topic."""

    root: Path
    acknowledged: dict[str, Account]


class Blow(NamedTuple):
    """What came of the kill of one role: whether it left a file half made, and when it was back."""

    half_made: bool
    back_ms: int
    noticed_ms: int


class CreationKills:
    """Kills of each role on one store."""

    def __init__(self, supervised: SupervisedBroker, folder: Path) -> None:
        self._supervised = supervised
        self._folder = folder
        self._store = Path(supervised.plan.brokers[0].settings.store.store_path_root)
        self._accounts: dict[str, Account] = {}
        self._process_ids: dict[str, int] = {}
        self._away: set[str] = set()
        self.images: dict[str, Image] = {}
        self.incidents: list[Incident] = []

    async def kill(self, number: int, *, is_last: bool) -> None:
        """Kill each role once in the middle of a file, and see that nothing was lost."""
        blows: dict[str, Blow] = {}

        async def blow(load: Load, times: Times) -> None:
            self._accounts[load.topic] = load.account
            await self._supervised.wait_whole()
            self._process_ids = await self._supervised.process_ids()
            times.begin()
            async with asyncio.TaskGroup() as group:
                kills = {
                    role: group.create_task(self._kill_role(role, number, load))
                    for role in PREFIXES
                }
            blows.update({role: kill.result() for role, kill in kills.items()})
            times.back_at = time.monotonic()
            for role in PREFIXES.keys() - self.images if is_last else ():
                self.images[role] = self._copy(role)

        incident = await watch_incident(
            self._supervised,
            blow,
            case="creation",
            role="-".join(PREFIXES),
            number=number,
            body_bytes=BODY_BYTES,
            before_seconds=0,  # the killers wait until some files were made
        )
        self.incidents += [
            incident._replace(role=role, **one._asdict()) for role, one in blows.items()
        ]
        assert (incident.lost, incident.doubled) == (0, 0), f"seed {SEED} {number}"

    async def _kill_role(self, role: str, number: int, load: Load) -> Blow:
        """Kill one role, and return once it is back."""
        chance = random.Random(f"{SEED} {role} {number}").random()
        victim = Victim(self._supervised, role)
        times = Times()
        await victim.note_process()
        await self._run_killer(role, victim.process_id, chance)
        times.begin()
        self._away.add(role)
        await wait_until(lambda: is_dead(victim.process_id), "dead")
        names = self._store.glob(PREFIXES[role] + "*")
        half_made = any(map(is_half_made, names))
        # A process that nobody knows yet would go on while the others are held.
        if half_made and role not in self.images and self._away == {role}:
            self.images[role] = self._copy(role)
        await victim.wait_back(load, times)
        self._process_ids[role] = await self._supervised.process_id(role)
        self._away.remove(role)
        assert times.back_at is not None and times.noticed_at is not None
        back_ms, noticed_ms = (
            round((at - times.killed_at) * 1000) for at in (times.back_at, times.noticed_at)
        )
        return Blow(half_made, back_ms, noticed_ms)

    async def _run_killer(self, role: str, process_id: int, chance: float) -> None:
        """Return once the process was killed."""
        words = [str(self._store), PREFIXES[role], str(process_id), str(chance)]
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

    def _copy(self, role: str) -> Image:
        """Copy the store as it lies there, while all that is known is held."""
        snapshot = {
            topic: Account(acknowledged=dict(account.acknowledged))
            for topic, account in self._accounts.items()
        }
        root = self._folder / role
        with stopped(self._process_ids.values()):
            shutil.copytree(self._store, root, symlinks=True)
        # The links that keep 4.9.3 out of a store in use lead to the Broker's process.
        for link in (root / "config").iterdir():
            if link.is_symlink():
                link.unlink()
                link.symlink_to("/proc/gone")
        return Image(root, snapshot)


def is_half_made(path: Path) -> bool:
    """Tell whether a file has no name of its own yet; one made ahead is whole with its length."""
    return ".ahead." not in path.name or path.stat().st_size == 0


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


@pytest.mark.parametrize("supervised", ["notifications"], indirect=True, scope="session")
@pytest.mark.parametrize("ten", TENS)
def test_rocketmq_opens_what_a_kill_in_mid_creation_leaves(
    supervised: SupervisedBroker,
    ten: int,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    kills = CreationKills(supervised, tmp_path)

    async def main() -> None:
        for number in range(KILLS_COUNT):
            is_last = number == KILLS_COUNT - 1
            await kills.kill(ten * KILLS_COUNT + number, is_last=is_last)

    asyncio.run(main())
    for incident in kills.incidents:
        record_property("said", incident)
    assert kills.images.keys() == PREFIXES.keys()
    at_once(
        *(
            partial(check_served_by_a_real_broker, image, tmp_path / f"real-{role}")
            for role, image in kills.images.items()
        )
    )
