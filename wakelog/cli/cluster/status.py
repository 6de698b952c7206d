"""`wakelog status` and `top`: the brokers of a cluster with their rates, once or repeatedly.

Below the table is how to get compiled code where there is none, and what is wrong with them, in the
words of `wakelog findings`.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Final

from wakelog.broker.health_values import SENDS_VALUE
from wakelog.cli.admin.java_text import first_rate
from wakelog.cli.cluster.findings import shown
from wakelog.cli.cluster.groups import groups
from wakelog.cli.cluster.output import Columns, Moment
from wakelog.cli.output import Output, Text
from wakelog.client.admin import Admin
from wakelog.client.clocks import wall_ms
from wakelog.compiled.library import COMPILED, PLAIN
from wakelog.console.cluster_reading import (
    BrokerReading,
    ClusterReading,
    read_cluster,
    runtime_number,
)
from wakelog.console.findings import SERVER_RULE_CHECKS, bounded, wrong
from wakelog.console.history import History
from wakelog.console.rules import OK, Finding
from wakelog.console.subjects import broker_text
from wakelog.console.views.brokers import version_text

CLEAR: Final = "\x1b[H\x1b[2J"
"""Lets a terminal begin at the top of an empty screen."""

HEADS: Final = (
    "cluster", "broker", "id", "address", "version", "in per second", "out per second",
    "disk percent", "behind bytes", "sends", "up since",
)  # fmt: skip


async def status(admin: Admin) -> AsyncIterator[Output]:
    """Yield one row for each broker, and below them what is wrong.

    A broker without an answer has no values.

    Raises: CommandFailed at the end if there is a problem.
    """
    found = await _read(admin)
    if found.failure is None:
        yield _table(found)
    async for finding in shown(_findings(found)):
        yield finding


async def top(admin: Admin, interval_seconds: float, *, clears: bool) -> AsyncIterator[Output]:
    """Yield brokers and groups, every so often, for ever. Raises: ClientError."""
    while True:
        found = await _read(admin)
        if found.failure is not None:
            raise found.failure
        of_groups = [x async for x in groups(admin)]
        if clears:
            yield Text(CLEAR, {})
        yield _table(found)
        async for finding in _findings(found):
            yield finding
        yield Text("", {})
        for output in of_groups:
            yield output
        await asyncio.sleep(interval_seconds)


async def _read(admin: Admin) -> ClusterReading:
    return await read_cluster(admin, wall_ms(), with_groups=False)


async def _findings(found: ClusterReading) -> AsyncIterator[Finding]:
    for broker in found.brokers:
        sends = broker.values.get(SENDS_VALUE, "")
        if sends.startswith(PLAIN):
            yield Finding(OK, broker_text(broker), f"sends run as {sends}")
    history = History()
    history.add(found)
    for each in bounded(wrong(history, SERVER_RULE_CHECKS)):
        yield each


def _table(found: ClusterReading) -> Columns:
    brokers = sorted(found.brokers, key=lambda x: (x.cluster, x.name, x.broker_id))
    return Columns(HEADS, [tuple(_row(each)) for each in brokers], "no broker has registered")


def _row(broker: BrokerReading) -> Iterator[object]:
    values = broker.values
    yield from (broker.cluster, broker.name, broker.broker_id, broker.address)
    if not values:
        is_refused = broker.failure is not None and broker.failure.code is not None
        yield "refused" if is_refused else "no answer"
        yield from (None, None, None, None, None, Moment(0))
        return
    sends = values.get(SENDS_VALUE, "")
    yield version_text(values)
    yield from (first_rate(values, key) for key in ("putTps", "getTransferedTps"))
    yield (runtime_number(values, "commitLogDiskRatio") or 0.0) * 100
    yield int(runtime_number(values, "dispatchBehindBytes") or 0)
    yield next((twin for twin in (PLAIN, COMPILED) if sends.startswith(twin)), None)
    yield Moment(runtime_number(values, "bootTimestamp") or 0)
