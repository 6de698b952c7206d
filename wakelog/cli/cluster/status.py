"""`wakelog status` and `top`: the brokers of a cluster with their rates, once or repeatedly."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from wakelog.cli.admin.brokers import every_broker
from wakelog.cli.admin.command import Output, Text
from wakelog.cli.admin.java_text import first_rate
from wakelog.cli.cluster.groups import groups
from wakelog.cli.cluster.output import Columns, Moment
from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError

CLEAR: Final = "\x1b[H\x1b[2J"
"""Lets a terminal begin at the top of an empty screen."""

HEADS: Final = (
    "cluster", "broker", "id", "address", "version", "in per second", "out per second",
    "disk percent", "behind bytes", "up since",
)  # fmt: skip


async def status(admin: Admin) -> AsyncIterator[Output]:
    """Yield one row for each broker; one without an answer has no values.

    Raises: ClientError, also if a broker refuses, such as an account.
    """
    rows: list[tuple[object, ...]] = []
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
        version = values.get("brokerVersionDesc", "").removeprefix("V").replace("_", ".")
        rows.append((*place, version, *rates, disk_percent, behind_bytes, up_since))
    yield Columns(HEADS, rows, "no broker has registered")
    for error in refusals:
        raise error


async def top(admin: Admin, interval_seconds: float, *, clears: bool) -> AsyncIterator[Output]:
    """Yield brokers and groups, every so often, for ever. Raises: ClientError."""
    while True:
        outputs = [x async for x in status(admin)] + [x async for x in groups(admin)]
        if clears:
            yield Text(CLEAR, {})
        yield outputs[0]
        yield Text("", {})
        yield outputs[1]
        await asyncio.sleep(interval_seconds)
