"""Brokers that are stopped and started one by one under load: no send of either client fails.

So do brokers of an earlier version that become this one, and this one that becomes the earlier one
again: see `versions.py` for which that is.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.compat.rolled_brokers import NAMES, RolledCluster
from tests.compat.rolled_clients import RolledClients
from tests.compat.versions import THIS, NoHistory, Version, earlier_version

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(1500)]

REPLICAS: Final = 2


class Rolled(NamedTuple):
    """What a run did. versions: before, and those that each broker was started with.

    again: messages that consumers got once more.
    """

    versions: str
    replicas: int
    sent: dict[str, int]
    slowest_ms: dict[str, int]
    stop_seconds: list[int]
    failed: int
    lost: int
    out_of_order: int
    again: int
    seconds: int


@pytest.fixture
def earlier(tmp_path: Path) -> Version:
    """Return the version before this one."""
    try:
        return earlier_version(tmp_path / "earlier")
    except NoHistory as error:
        pytest.skip(f"{error}")


@pytest.mark.parametrize("replicas", [0, REPLICAS], ids=["single", "replicas"])
def test_a_rolling_restart_fails_no_send(
    short_path: Path, replicas: int, record_property: Callable[[str, object], None]
) -> None:
    check(short_path, replicas, [THIS, THIS], record_property)


@pytest.mark.parametrize("replicas", [0, REPLICAS], ids=["single", "replicas"])
def test_an_upgrade_and_the_way_back_fail_no_send(
    short_path: Path,
    earlier: Version,
    replicas: int,
    record_property: Callable[[str, object], None],
) -> None:
    check(short_path, replicas, [earlier, THIS, earlier], record_property)


def check(
    folder: Path,
    replicas: int,
    versions: list[Version],
    record_property: Callable[[str, object], None],
) -> None:
    """Start the first version, and have each broker be each of the others in turn."""
    cluster = RolledCluster(folder, replicas)
    with cluster.running(versions[0]):
        run, found = asyncio.run(roll(cluster, versions))
    record_property("said", run)
    assert not run.failed, found.failures()
    assert not run.lost, {name: sorted(lost)[:5] for name, lost in found.lost().items()}
    assert not run.out_of_order, found.out_of_order()[:5]


async def roll(cluster: RolledCluster, versions: list[Version]) -> tuple[Rolled, RolledClients]:
    began = time.monotonic()
    leading = [broker.address for broker in cluster.brokers if broker.leads()]
    clients = RolledClients(cluster.name_server, leading)
    stops = []
    async with clients.running():
        await clients.until_used([*NAMES], time.monotonic())
        clients.begin()
        for version in versions[1:]:
            for broker in cluster.in_turn():
                await clients.until_used([*NAMES], time.monotonic())
                clients.step(f"{broker.name} {broker.number} becomes {version.name}")
                restart = asyncio.to_thread(cluster.restart, broker, version, clients.wait_unused)
                stops.append(round(await restart))
        await clients.until_used([*NAMES], time.monotonic())
        clients.step("all were restarted")
        await clients.settle()
    senders = clients.senders
    run = Rolled(
        versions=" -> ".join(version.name for version in versions),
        replicas=len(cluster.brokers) // len(NAMES),
        sent={name: len(each.stored) for name, each in senders.items()},
        slowest_ms={name: round(each.slowest_seconds * 1000) for name, each in senders.items()},
        stop_seconds=stops,
        failed=sum(each.failures.total() for each in senders.values()),
        lost=sum(map(len, clients.lost().values())),
        out_of_order=len(clients.out_of_order()),
        again=sum(each.again_count for each in clients.readers.values()),
        seconds=round(time.monotonic() - began),
    )
    return run, clients
