"""`wakelog status` and `top`: the brokers of a cluster with their rates, once or repeatedly."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from wakelog.actors.errors import DeploymentFailed
from wakelog.broker.trouble import NOTICE_PREFIX, notice_text, read_troubles, trouble_text
from wakelog.cli.admin.brokers import every_broker
from wakelog.cli.admin.command import Output, Text
from wakelog.cli.admin.java_text import first_rate
from wakelog.cli.cluster.groups import groups
from wakelog.cli.cluster.output import Columns, Moment
from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError
from wakelog.console.views.brokers import version_text

CLEAR: Final = "\x1b[H\x1b[2J"
"""Lets a terminal begin at the top of an empty screen."""

HEADS: Final = (
    "cluster", "broker", "id", "address", "version", "in per second", "out per second",
    "disk percent", "behind bytes", "up since",
)  # fmt: skip


async def status(admin: Admin) -> AsyncIterator[Output]:
    """Yield one row for each broker, and a line for each part of one that does not work.

    A broker without an answer has no values.

    Raises: ClientError, also if a broker refuses, such as an account; DeploymentFailed at the end
    if a part does not work.
    """
    troubles: list[str] = []
    async for output in _rows(admin, troubles):
        yield output
    if troubles:
        parts = "part of a broker does" if len(troubles) == 1 else "parts of brokers do"
        cause = f"{len(troubles)} {parts} not work"
        raise DeploymentFailed(cause, "See what stands with each.")


async def _rows(admin: Admin, troubles: list[str]) -> AsyncIterator[Output]:
    rows: list[tuple[object, ...]] = []
    found: list[Text] = []
    refusals: list[ClientError] = []
    for cluster, name, broker_id, address, values, refusal in await every_broker(admin):
        place = cluster, name, broker_id, address
        if not values:
            note = "refused" if refusal else "no answer"
            rows.append((*place, note, None, None, None, None, Moment(0)))
            refusals += [refusal] if refusal else []
            continue
        rates = [first_rate(values, key) for key in ("putTps", "getTransferedTps")]
        disk_percent = float(values.get("commitLogDiskRatio") or 0) * 100
        behind_bytes = int(values.get("dispatchBehindBytes") or 0)
        up_since = Moment(values.get("bootTimestamp") or 0)
        version = version_text(values)
        rows.append((*place, version, *rates, disk_percent, behind_bytes, up_since))
        lines = {}
        for part, trouble in read_troubles(values):
            lines[part] = trouble_text(part, trouble), trouble
            troubles.append(part)
        for part, notice in read_troubles(values, NOTICE_PREFIX):
            lines[part] = notice_text(part, notice), notice
        for part, (line, one) in lines.items():
            about = {"broker": name, "id": broker_id, "part": part}
            found.append(Text(f"{name} ({broker_id}): {line}", {**about, **one._asdict()}))
    yield Columns(HEADS, rows, "no broker has registered")
    for each in found:
        yield each
    for error in refusals:
        raise error


async def top(admin: Admin, interval_seconds: float, *, clears: bool) -> AsyncIterator[Output]:
    """Yield brokers and groups, every so often, for ever. Raises: ClientError."""
    while True:
        brokers = [x async for x in _rows(admin, [])]
        found = [x async for x in groups(admin)]
        if clears:
            yield Text(CLEAR, {})
        for output in (*brokers, Text("", {}), *found):
            yield output
        await asyncio.sleep(interval_seconds)
