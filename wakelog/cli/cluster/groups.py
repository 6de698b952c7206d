"""`wakelog groups`, `lag`, `reset`, `pause` and `resume`: who consumes, how far, from where on."""

from collections.abc import AsyncIterator
from typing import Final

import msgspec

from wakelog.actors.errors import CommandFailed
from wakelog.cli.admin.groups import client_addresses
from wakelog.cli.admin.offsets import reset_offline, reset_online
from wakelog.cli.cluster.output import Columns, Moment
from wakelog.cli.output import Output, Text
from wakelog.client.admin import Admin
from wakelog.client.clocks import wall_ms
from wakelog.client.errors import ClientError, allowing_refusal
from wakelog.client.route import MASTER_ID
from wakelog.console.lag import behind_of
from wakelog.console.quantities import span_text
from wakelog.protocol.bodies import ConsumerConnection, ConsumeStats
from wakelog.protocol.codes import LanguageCode, ResponseCode
from wakelog.protocol.names import RETRY_PREFIX, is_own_group
from wakelog.protocol.versions import version_name

GROUPS_NAMED_MAX: Final = 5


async def masters(admin: Admin) -> list[str]:
    """Return one address, of the master if there is one, of every broker. Raises: ClientError."""
    table = (await admin.cluster()).broker_addr_table
    return [x.broker_addrs[min(x.broker_addrs)] for _, x in sorted(table.items()) if x.broker_addrs]


async def progress(admin: Admin, group: str, topic: str | None = None) -> ConsumeStats:
    """Return how far a group is at all brokers, also without a retry topic. Raises: ClientError."""
    found = ConsumeStats()
    for address in await masters(admin):
        part = await admin.consume_stats_at(address, group, topic)
        found.offset_table.update(part.offset_table)
        found.consume_tps += part.consume_tps
    return found


async def clients_of(admin: Admin, group: str) -> ConsumerConnection:
    """Return the clients of a group, none if it is not online. Raises: ClientError."""
    found = ConsumerConnection()
    with allowing_refusal():
        found = await admin.consumers(group)
    return found


async def group_names(admin: Admin) -> list[str]:
    """Return the groups that brokers know, without their own. Raises: ClientError."""
    found: set[str] = set()
    for address in await masters(admin):
        found |= (await admin.groups(address)).keys()
    return sorted(x for x in found if not is_own_group(x))


async def refuse_unknown(admin: Admin, name: str) -> None:
    """Raises: ClientError if no broker knows the group."""
    known = await group_names(admin)
    if name not in known:
        remedy = f"Groups here: {', '.join(known[:GROUPS_NAMED_MAX]) or 'none'}"
        raise ClientError(f"no broker knows group {name}", remedy)


async def groups(admin: Admin) -> AsyncIterator[Output]:
    """Yield one row for each group."""
    rows = []
    for name in await group_names(admin):
        clients, stats = await clients_of(admin, name), await progress(admin, name)
        subscribed = set(clients.subscription_table) | {x.topic for x in stats.offset_table}
        topics = sorted(x for x in subscribed if not x.startswith(RETRY_PREFIX))
        model = (clients.message_model or "").lower()
        counted = len(clients.connection_set), model, topics, stats.total_diff()
        rows.append((name, *counted, behind_seconds(stats), float(stats.consume_tps)))
    heads = ("group", "clients", "model", "topics", "lag", "behind seconds", "per second")
    yield Columns(heads, rows, "no groups")


def behind_seconds(stats: ConsumeStats) -> int | None:
    """Return how old the last consumed message is where others wait, None if none do."""
    behind_ms = behind_of(stats.offset_table, {}, wall_ms())
    return None if behind_ms is None else behind_ms // 1000


async def group(admin: Admin, name: str) -> AsyncIterator[Output]:
    """Yield the clients of a group, and its subscriptions. Raises: ClientError."""
    found = await clients_of(admin, name)
    if not found.connection_set:
        await refuse_unknown(admin, name)
    clients = [
        (x.client_id, x.client_addr, x.language, version_name(x.version).removeprefix("V"))
        for x in sorted(found.connection_set, key=lambda x: x.client_id)
    ]
    heads = ("client", "address", "language", "version")
    yield Columns(heads, clients, f"{name} has no clients now")
    subscriptions = [
        (x.topic, x.expression_type, x.sub_string)
        for _, x in sorted(found.subscription_table.items())
    ]
    if subscriptions:
        yield Columns(("subscribed topic", "type", "expression"), subscriptions)


async def lag(
    admin: Admin, name: str, topic: str | None = None, lag_max: int | None = None
) -> AsyncIterator[Output]:
    """Yield what a group has yet to consume, by queue.

    Raises: CommandFailed if it is more than `lag_max`; ClientError.
    """
    stats = await progress(admin, name, topic)
    if not stats.offset_table:
        raise ClientError(
            f"group {name} has consumed nothing" + (f" of {topic}" if topic else ""),
            "Check its name (wakelog groups), or start a consumer of it",
        )
    owners = await client_addresses(admin, name)
    rows = [
        (
            queue.topic,
            queue.broker_name,
            queue.queue_id,
            place.consumer_offset,
            place.broker_offset,
            place.broker_offset - place.consumer_offset,
            Moment(place.last_timestamp),
            owners.get(queue),
        )
        for queue, place in sorted(stats.offset_table.items())
    ]
    heads = (
        "topic",
        "broker",
        "queue",
        "consumed to",
        "stored to",
        "lag",
        "consumed up to",
        "client",
    )
    yield Columns(heads, rows)
    total = stats.total_diff()
    seconds = behind_seconds(stats)
    value = {"group": name, "lag": total, "behindSeconds": seconds, "perSecond": stats.consume_tps}
    old = "" if seconds is None else f" ({span_text(seconds * 1000)})"
    yield Text(f"\nlag {total:,}{old}, consumes {stats.consume_tps:,.1f} a second", value)
    if lag_max is not None and total > lag_max:
        cause = f"group {name} lags by {total:,}, more than {lag_max:,}"
        raise CommandFailed(cause, f"Run wakelog doctor --group {name} to see why.")


async def reset(
    admin: Admin, name: str, topic: str, time_ms: int, *, changes: bool
) -> AsyncIterator[Output]:
    """Yield where each queue would be, or with `changes` is from now on. time_ms: -1 for the end.

    Clients that are online take the new offsets themselves. Raises: ClientError.
    """
    await refuse_unknown(admin, name)
    if changes:
        try:
            table = await reset_online(admin, name, topic, time_ms, True, LanguageCode.JAVA)
            moved = [(x.broker_name, x.queue_id, offset) for x, offset in sorted(table.items())]
            yield Columns(("broker", "queue", "offset"), moved)
            yield Text(f"\nreset by the clients of {name}", {"group": name, "changed": True})
            return
        except ClientError as error:
            if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                raise
    found = await reset_offline(admin, name, topic, time_ms, True, commits=changes)
    yield Columns(("broker", "queue", "stored to", "consumed to", "offset"), [x[:5] for x in found])
    said = f"reset {name}" if changes else "nothing is changed yet: repeat it with --yes"
    yield Text(f"\n{said}", {"group": name, "changed": changes})


async def set_consuming(
    admin: Admin, name: str, *, is_allowed: bool, changes: bool
) -> AsyncIterator[Output]:
    """Yield whether a group may consume at each broker, and with `changes` allow or forbid it.

    Its other settings stay. Clients stay online, and go on within seconds when they may again.
    Source: org.apache.rocketmq.broker.processor.PullMessageProcessor (4.9.3), which refuses pulls
    of a group without consumeEnable.
    Raises: ClientError, also for a broker without a master, before anything is changed.
    """
    await refuse_unknown(admin, name)
    found = []
    for broker, data in sorted((await admin.cluster()).broker_addr_table.items()):
        if MASTER_ID not in data.broker_addrs:
            cause = f"broker {broker} has no master now"
            raise ClientError(cause, "Start its master (brokerId=0), and repeat it")
        address = data.broker_addrs[MASTER_ID]
        if (config := (await admin.groups(address)).get(name)) is not None:
            found.append((broker, address, config))
    for _, address, config in found:
        if changes and config.consume_enable != is_allowed:
            wanted = msgspec.structs.replace(config, consume_enable=is_allowed)
            await admin.update_group(address, wanted)
    rows = [(broker, config.consume_enable, is_allowed) for broker, _, config in found]
    yield Columns(("broker", "may consume", "will"), rows)
    clients, stats = await clients_of(admin, name), await progress(admin, name)
    value = {"group": name, "clients": len(clients.connection_set), "lag": stats.total_diff()}
    said = f"{name} {'may consume' if is_allowed else 'may not consume'} now"
    if not changes:
        said = "nothing is changed yet: repeat it with --yes"
    yield Text(f"\n{said}", {**value, "changed": changes})
