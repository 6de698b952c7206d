"""Start, then nothing: what is due after a start is done although no message and no request comes.

Each cell is a service and a way to start. In between only the clock moves.
"""

import asyncio
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.actors.debts import (
    COMMITTED,
    DEBTS,
    GROUP,
    OTHER_DEBTS,
    SENT_COUNT,
    WORK,
    Due,
    Seen,
    Waiting,
    age_first_segment,
    ask,
    owe,
    see,
    unpaid,
)
from tests.actors.deployments import wait_until
from tests.actors.group_in_process import Group, group_of
from tests.actors.recorder import Recorder
from wakelog.actors.broker import ha_client
from wakelog.actors.services import dispatch
from wakelog.actors.services.table import SERVICES
from wakelog.dispatchers.plugins import Plugin
from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import StoreError
from wakelog.storage.retention import retention
from wakelog.testing import EmbeddedBroker

SETTINGS = {
    "transientStorePoolEnable": "true",
    "transientStorePoolSize": "3",
    "replicationEnable": "true",
    "deleteWhen": ";".join(f"{hour:02}" for hour in range(24)),
}

SAVED_SECONDS = 6.0
"""Longer than the period in which offsets are saved, and shorter than the delay of what is owed."""

DELAY_SECONDS = 11.0
"""What is delayed by level 3 is due then. A pull of 15 seconds still waits."""

LATER_SECONDS = 65.0
"""Then the first round of retention and of the transaction check is due, and a registration."""

PAID_SECONDS_MAX = 10.0
CELLS = (*SERVICES, *OTHER_DEBTS, "plug-ins")


def restart(broker: EmbeddedBroker, _folder: Path) -> EmbeddedBroker:
    """Stop and start in order."""
    broker.restart()
    return broker


def kill(broker: EmbeddedBroker, folder: Path) -> EmbeddedBroker:
    """Start on the files that a kill would leave."""
    shutil.copytree(folder / "store", folder / "left", symlinks=True)
    broker.stop()
    return started(folder / "left")


def lose_queues(broker: EmbeddedBroker, folder: Path) -> EmbeddedBroker:
    """Start on a log without queues and index: all of it is to be dispatched."""
    broker.stop()
    for name in ("consumequeue", "index"):
        shutil.rmtree(folder / "store" / name)
    return started(folder / "store")


WAYS = {"restart": restart, "kill": kill, "start": lose_queues}


def started(store: Path) -> EmbeddedBroker:
    broker = EmbeddedBroker(store=store, settings=SETTINGS)
    broker.start()
    return broker


def wait_for(holds: Callable[[], bool]) -> bool:
    """Return whether it holds within a while."""
    end = time.monotonic() + PAID_SECONDS_MAX
    while not holds():
        if time.monotonic() >= end:
            return False
        time.sleep(0.02)
    return True


def statistics_of(broker: EmbeddedBroker) -> dict[str, Any]:
    deployment = broker._deployment
    assert deployment is not None
    [found] = broker._run(deployment.metrics())["brokers"].values()
    return dict(found)


def spend_time(broker: EmbeddedBroker) -> dict[str, bool]:
    """Let time pass, and return which debts were paid in time."""
    assert broker.store is not None
    log, debts = broker.store / "commitlog", DEBTS | OTHER_DEBTS

    def seen() -> Seen:
        statistics = statistics_of(broker)
        return see(statistics, statistics["services"], log, waiting)

    def is_later_paid() -> bool:
        broker.advance(1.0)  # a round of retention may have to be repeated
        return not unpaid(debts, Due.LATER, seen())

    with closing(Waiting(broker.address, has_slave=True)) as waiting:
        age_first_segment(log)
        broker.advance(DELAY_SECONDS)
        wait_for(lambda: not unpaid(debts, Due.SOON, seen()))
        found = unpaid(debts, Due.SOON, seen())
        broker.advance(LATER_SECONDS)
        wait_for(is_later_paid)
        found += unpaid(debts, Due.LATER, seen())
        found += unpaid(debts, Due.ASKED, asyncio.run(ask(broker.address, seen())))
        return {name: name not in found for name in debts}


@pytest.fixture(scope="module", params=WAYS)
def paid(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, bool]]:
    """What was paid after a way to start, by cell."""
    folder = tmp_path_factory.mktemp("start")
    recorders: list[Recorder] = []

    def make(_config: StoreConfig) -> Recorder:
        recorders.append(Recorder("recorder"))
        return recorders[-1]

    with pytest.MonkeyPatch.context() as patched:
        broker = started(folder / "store")
        asyncio.run(owe(broker.address))
        broker.advance(SAVED_SECONDS)
        assert wait_for((folder / "store/config/consumerOffset.json").exists)
        # It is installed now, and lacks the whole log.
        patched.setattr(dispatch, "find_plugins", lambda: [Plugin("recorder", make)])
        broker = WAYS[request.param](broker, folder)
        try:
            has_all = wait_for(lambda: bool(recorders) and len(recorders[-1].offsets) == SENT_COUNT)
            yield spend_time(broker) | {"plug-ins": has_all}
        finally:
            broker.stop()


@pytest.mark.parametrize("service", CELLS)
def test_what_is_due_after_a_start_is_done(paid: Mapping[str, bool], service: str) -> None:
    assert paid[service]


PROMOTED = {
    "mappedFileSizeCommitLog": str(1 << 20),
    "messageDelayLevel": "1s 1s 4s",
    "transactionTimeOut": "1",
    "transactionCheckInterval": "1000",
    "cleanResourceInterval": "500",
    "deleteWhen": SETTINGS["deleteWhen"],
}
"""Here the clock is the machine's: members of a group may not lose each other by a jump."""


async def fail_over(folder: Path) -> dict[str, bool]:
    """Owe on one replica, have the other one lead, and return which debts that paid."""
    async with group_of(folder) as group:
        group.settings = PROMOTED
        for number in (1, 2):
            await group.start(number)
        await group.until_serving(1)
        await wait_until(lambda: 2 in group.state().in_sync, "both in sync")
        await owe(group.address(1))
        await wait_until(lambda: group.replica(2).end == group.replica(1).end, "all of the log")
        await wait_until(lambda: has_offset(group), "the committed offset")
        group.name_master(2)
        await group.until_serving(2)
        with closing(Waiting(group.address(2), has_slave=False)) as waiting:
            return await promoted_paid(group, waiting)


def has_offset(group: Group) -> bool:
    """Return whether the slave has copied the offset that a consumer committed."""
    broker = group.replica(2).service.broker
    return broker.state.offsets.query(GROUP, WORK, 0) == COMMITTED


async def promoted_paid(group: Group, waiting: Waiting) -> dict[str, bool]:
    """Return which debts the new master paid while it was asked for nothing."""
    log = group.folder / "2/store/commitlog"
    age_first_segment(log)
    # The Broker ships by itself in a group; the other replica is the slave.
    debts = DEBTS | {name: OTHER_DEBTS[name] for name in ("offsets", "slaves")}

    def seen() -> Seen:
        with suppress(StoreError):  # the other replica still takes its role
            waiting.sent_to_slave = group.replica(1).end
        statistics = group.brokers[2].statistics()
        return see(statistics, statistics["services"], log, waiting)

    async def wait_paid(due: Due) -> list[str]:
        with suppress(AssertionError):
            await wait_until(lambda: not unpaid(debts, due, seen()), due.name, PAID_SECONDS_MAX)
        return unpaid(debts, due, seen())

    print(time.time())
    found = [*await wait_paid(Due.SOON), *await wait_paid(Due.LATER)]
    print(time.time(), found, seen())
    found += unpaid(debts, Due.ASKED, await ask(group.address(2), seen()))
    return {name: name not in found for name in debts}


@pytest.fixture(scope="module")
def promoted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, bool]]:
    """What a promoted slave has paid."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(retention, "FIRST_RUN_DELAY_MS", 1_000)
        patched.setattr(ha_client, "PERIOD_SECONDS", 0.2)  # in which a slave copies the tables
        yield asyncio.run(fail_over(tmp_path_factory.mktemp("group")))


@pytest.mark.parametrize("service", [*SERVICES, "offsets"])
def test_what_is_due_on_a_promoted_slave_is_done(
    promoted: Mapping[str, bool], service: str
) -> None:
    assert promoted[service]
