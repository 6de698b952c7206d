"""Every process of a broker killed again and again, in each mode of durability, under load.

The moments come from a seed, which a failure names. How long clients wait is measured where a
process is killed alone (`test_kills.py`); here a broker has to come through. When the deployment is
stopped, its queues and index are held against a rebuild once more (`conftest.py`).
"""

import asyncio
import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.actors.deployments import WAIT_SECONDS_MAX, wait_until
from tests.actors.kill_incidents import read_back
from tests.actors.load import Load, doubled_count, pull_all
from tests.actors.repeated_kills import (
    KILLS_COUNT,
    WHOLE_SECONDS_MAX,
    Killers,
    followers,
)
from tests.actors.supervised_brokers import REPEATED_KILL_KINDS, SupervisedBroker
from wakelog.audit.verify import verify_store
from wakelog.storage.file_system import FileSystem

pytestmark = [
    pytest.mark.ray,
    pytest.mark.kill,
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.timeout(300),
]

SEED = 30_033
THINK_SECONDS = 0.01
LATE_THINK_SECONDS = 0.05
"""Processes that come back are to have some of a small machine for themselves."""

LATE_PROPERTIES = "DELAY\x011\x02"
"""The first delay level, a second."""

ROUNDS = range(10)
"""A hundred kills of each role in each mode."""


class SeriesOutcome(NamedTuple):
    """What one series of kills did to one broker.

    mode: how durable its answers are. back_ms: of each kill, by role.
    whole_ms: from the last kill until everybody was there again.
    acknowledged: sends; `late_lost` are delayed ones that never came, `changed` what a consumer was
        given and was not there at the end.
    """

    mode: str
    number: int
    back_ms: dict[str, tuple[int, ...]]
    whole_ms: int
    seconds: float
    acknowledged: int
    lost: int
    doubled: int
    late_lost: int
    changed: int
    load_average: float


class KillSeries:
    """One series of kills of a broker, and what was sent and read meanwhile."""

    def __init__(
        self, supervised: SupervisedBroker, mode: str, number: int, kills_count: int
    ) -> None:
        self._supervised = supervised
        self._mode = mode
        self._number = number
        self._seed = f"{SEED} {mode} {number}"
        word = uuid.uuid4().hex[:8]
        address = supervised.address
        self._load = Load(address, f"series-{word}", think_seconds=THINK_SECONDS)
        self._late = Load(
            address,
            f"late-{word}",
            senders=1,
            think_seconds=LATE_THINK_SECONDS,
            properties=LATE_PROPERTIES,
        )
        self._followers = followers(address, self._load.topic)
        self._killers = Killers(supervised, self._load.account, self._seed, kills_count)

    async def run(self) -> SeriesOutcome:
        """Let it rage, wait until everybody is there again, and count what is not as it was."""
        begin = time.monotonic()
        reading = [asyncio.create_task(follower.run()) for follower in self._followers]
        self._load.start()
        self._late.start()
        try:
            await self._killers.wait_acknowledged()
            await self._killers.kill_all()
            await self._wait_whole()
            whole_at = time.monotonic()
        finally:
            await self._load.stop()
            await self._late.stop()
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)
        queues = await read_back(self._supervised.address, self._load.topic, self._load.account)
        account = self._load.account
        assert sum(map(len, queues.values())) <= account.attempts
        assert not sum(follower.moved_count for follower in self._followers), self._seed
        await wait_until(self._is_dispatched, "dispatch at the log's end")
        return SeriesOutcome(
            mode=self._mode,
            number=self._number,
            back_ms={role: tuple(times) for role, times in self._killers.back_ms.items()},
            whole_ms=round((whole_at - self._killers.last_at) * 1000),
            seconds=round(whole_at - begin, 1),
            acknowledged=len(account.acknowledged),
            lost=len(account.lost(queues)),
            doubled=doubled_count(queues),
            late_lost=await self._late_lost(),
            changed=sum(one.changed_count(queues) for one in self._followers),
            load_average=round(os.getloadavg()[0], 1),
        )

    async def _wait_whole(self) -> None:
        supervised = self._supervised
        for is_whole in (supervised.all_attached, supervised.is_ready):
            await wait_until(is_whole, f"whole again, seed {self._seed}", WHOLE_SECONDS_MAX)
        assert all((await supervised.process_ids()).values())
        await self._killers.wait_acknowledged()

    async def _is_dispatched(self) -> bool:
        marks: dict[str, int] = (await self._supervised.broker_statistics()).get("watermarks", {})
        return bool(marks) and marks["dispatched"] == marks["readable"] == marks["appended"]

    async def _late_lost(self) -> int:
        """Return how many delayed messages did not come in time."""
        acknowledged = set(self._late.account.acknowledged)
        assert acknowledged
        end = time.monotonic() + WAIT_SECONDS_MAX
        while True:
            queues = await pull_all(self._supervised.address, self._late.topic)
            missing = acknowledged.difference(*queues.values())
            if not missing or time.monotonic() >= end:
                return len(missing)
            await asyncio.sleep(1)


def check_verified(supervised: SupervisedBroker, folder: Path) -> None:
    """Assert that a verification of the store, whose broker runs, finds no damage."""
    fs, config = FileSystem(), supervised.plan.brokers[0].settings.store
    folder.mkdir()
    report = verify_store(fs, config, str(folder), is_live=True)
    assert report.log is not None and report.entries_count
    assert report.findings.is_sound, report.findings.kept


@pytest.mark.parametrize("supervised", REPEATED_KILL_KINDS, indirect=True, scope="session")
@pytest.mark.parametrize("number", ROUNDS)
def test_a_series_of_kills_loses_and_doubles_nothing(
    supervised: SupervisedBroker,
    number: int,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    mode = request.node.callspec.params["supervised"]
    outcome = asyncio.run(KillSeries(supervised, mode, number, KILLS_COUNT).run())
    record_property("said", outcome)
    assert outcome.acknowledged
    found = (outcome.lost, outcome.doubled, outcome.late_lost, outcome.changed)
    assert found == (0, 0, 0, 0), f"seed {SEED} {mode} {number}"
    check_verified(supervised, tmp_path / "rebuilt")
