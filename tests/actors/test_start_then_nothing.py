"""Start, then nothing: what is due after a start is done although no message and no request comes.

Each cell is a service and a way to start. In between only the clock moves.
"""

import asyncio
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.actors.debts import (
    DEBTS,
    OTHER_DEBTS,
    SENT_COUNT,
    Seen,
    Waiting,
    age_first_segment,
    look,
    owe,
)
from tests.actors.recorder import Recorder
from wakelog.actors.services import dispatch
from wakelog.actors.services.table import SERVICES
from wakelog.dispatchers.plugins import Plugin
from wakelog.storage.config import StoreConfig
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

REST_SECONDS = 65.0
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


def spend_time(broker: EmbeddedBroker) -> Seen:
    """Let time pass, and return what there is when all is paid, or after a while."""
    assert broker.store is not None
    log = broker.store / "commitlog"
    with closing(Waiting(broker.address, has_slave=True)) as waiting:
        age_first_segment(log)
        broker.advance(DELAY_SECONDS)
        wait_for(lambda: bool(waiting.pulled) and waiting.lacks(statistics_of(broker)) == 0)
        slave_lacks_bytes = waiting.lacks(statistics_of(broker))
        broker.advance(REST_SECONDS)
        end = time.monotonic() + PAID_SECONDS_MAX
        while True:
            statistics = statistics_of(broker)
            services = statistics["services"]
            seen = asyncio.run(look(broker.address, statistics, services, log, waiting))
            seen = seen._replace(slave_lacks_bytes=slave_lacks_bytes)
            if all(is_paid(seen) for is_paid in (DEBTS | OTHER_DEBTS).values()):
                return seen
            if time.monotonic() >= end:
                return seen
            broker.advance(1.0)
            time.sleep(0.1)


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
            seen = spend_time(broker)
            found = {name: is_paid(seen) for name, is_paid in (DEBTS | OTHER_DEBTS).items()}
            yield found | {"plug-ins": has_all}
        finally:
            broker.stop()


@pytest.mark.parametrize("service", CELLS)
def test_what_is_due_after_a_start_is_done(paid: Mapping[str, bool], service: str) -> None:
    assert paid[service]
