"""Commands about consumer groups and their progress."""

from collections.abc import AsyncIterator
from typing import Final

from wakelog.cli.admin.command import (
    BROKER,
    CLUSTER,
    Command,
    Flags,
    Output,
    Table,
    Text,
    may,
    need,
    switch,
)
from wakelog.cli.admin.java_text import bean_text, bean_values, plain_time, word
from wakelog.cli.admin.topics import delete_topic_of, targets
from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError
from wakelog.protocol.bodies import (
    CONSUME_ACTIVELY,
    BrokerStatsData,
    ConsumerConnection,
    ConsumeStats,
    ConsumeStatsList,
    SubscriptionGroupConfig,
)
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.java import INT_MAX
from wakelog.protocol.names import DLQ_PREFIX, RETRY_PREFIX
from wakelog.protocol.versions import version_name

TOPIC_PUT: Final = "TOPIC_PUT_NUMS"
GROUP_GET: Final = "GROUP_GET_NUMS"


async def update_group(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Create a consumer group, or change it."""
    group = SubscriptionGroupConfig(
        flags["g"],
        consume_enable=flags.truth("s", default=True),
        consume_from_min_enable=flags.truth("m"),
        consume_broadcast_enable=flags.truth("d"),
        retry_queue_nums=flags.number("q", 1),
        retry_max_times=flags.number("r", 16),
        broker_id=flags.number("i"),
        which_broker_when_consume_slowly=flags.number("w", 1),
        notify_consumer_ids_changed_enable=flags.truth("a", default=True),
    )
    for address in await targets(admin, flags):
        await admin.update_group(address, group)
        value = {"group": group.group_name, "broker": address}
        yield Text(f"create subscription group to {address} success.", value)
    values = bean_values(group)
    yield Text(bean_text("SubscriptionGroupConfig", values), values)


async def delete_group(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Delete a consumer group, at a cluster also its retry and dead-letter topics."""
    group = flags["g"]
    place = f" in cluster [{flags['c']}]" if "c" in flags else ""
    for address in await targets(admin, flags):
        fields = {"groupName": group, "removeOffset": flags.truth("r")}
        await admin.ask(address, Code.DELETE_SUBSCRIPTIONGROUP, fields)
        text = f"delete subscription group [{group}] from broker [{address}]{place} success."
        yield Text(text, {"group": group, "broker": address})
    if "c" in flags:
        for prefix in (RETRY_PREFIX, DLQ_PREFIX):
            async for output in delete_topic_of(admin, flags["c"], prefix + group):
                yield output


def behind(stats: ConsumeStats) -> int:
    """Return how many messages a group has yet to consume."""
    return sum(x.broker_offset - x.consumer_offset for x in stats.offset_table.values())


async def consumer_progress(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Show the lag of a group by queue, or of all groups."""
    if "g" not in flags:
        yield await _progress_of_all(admin)
        return
    group = flags["g"]
    stats = await admin.consume_stats(group)
    owners = await client_addresses(admin, group) if flags.truth("s") else None
    rows = []
    for queue, place in sorted(stats.offset_table.items()):
        lag = place.broker_offset - place.consumer_offset
        last = plain_time(place.last_timestamp) if place.last_timestamp else "N/A"
        client = () if owners is None else (owners.get(queue, "N/A"),)
        offsets = place.broker_offset, place.consumer_offset
        names = queue.topic[:64], queue.broker_name[:32]
        rows.append((*names, queue.queue_id, *offsets, *client, lag, last))
    heads = ["Topic", "Broker Name", "QID", "Broker Offset", "Consumer Offset"]
    layout = "%-64s  %-32s  %-4d  %-20d  %-20d  "
    if owners is None:
        yield Table(layout + "%-20d  %s", [*heads, "Diff", "LastTime"], rows)
    else:
        yield Table(layout + "%-20s %-20d  %s", [*heads, "Client IP", "Diff", "LastTime"], rows)
    total = behind(stats)
    text = f"\nConsume TPS: {stats.consume_tps:.2f}\nDiff Total: {total}"
    yield Text(text, {"consumeTps": stats.consume_tps, "diffTotal": total})


async def client_addresses(admin: Admin, group: str) -> dict[MessageQueue, str]:
    """Return which client has each queue, by what every client of the group says."""
    found: dict[MessageQueue, str] = {}
    for client in (await admin.consumers(group)).connection_set:
        info = await admin.running_info(group, client.client_id)
        found.update(dict.fromkeys(info.mq_table, client.client_id.partition("@")[0]))
    return found


async def _progress_of_all(admin: Admin) -> Output:
    rows = []
    for topic in sorted(await admin.routes.topics()):
        if not topic.startswith(RETRY_PREFIX):
            continue
        group = topic.removeprefix(RETRY_PREFIX)
        stats, clients = ConsumeStats(), ConsumerConnection()
        try:
            stats = await admin.consume_stats(group)
        except ClientError as error:
            if error.code is None:
                raise
        try:
            clients = await admin.consumers(group)
        except ClientError as error:
            if error.code is None:
                raise
        count, version, kind, model = len(clients.connection_set), "OFFLINE", "", ""
        if count:
            version = version_name(min(each.version for each in clients.connection_set))
            is_pull = clients.consume_type == CONSUME_ACTIVELY
            kind, model = ("PULL", "") if is_pull else ("PUSH", clients.message_model or "")
        tps = int(stats.consume_tps)
        rows.append((group[:64], count, version, kind, model, tps, behind(stats)))
    heads = ["Group", "Count", "Version", "Type", "Model", "TPS", "Diff Total"]
    return Table("%-64s  %-6d  %-24s %-5s  %-14s  %-7d  %d", heads, rows)


async def broker_progress(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Show the lag of every group at one broker, by queue."""
    address, lag_min = flags["b"], flags.number("l")
    found = await admin.ask_for(
        ConsumeStatsList,
        address,
        Code.GET_BROKER_CONSUME_STATS,
        {"isOrder": flags.truth("o")},
        timeout_ms=flags.number("t", 50_000, minimum=1, maximum=INT_MAX),
    )
    rows = []
    by_group = [pair for each in found.consume_stats_list for pair in each.items()]
    for group, topics in by_group:
        for queue, place in (pair for each in topics for pair in sorted(each.offset_table.items())):
            lag = place.broker_offset - place.consumer_offset
            if lag >= lag_min and place.last_timestamp > 0:
                names = queue.topic[:64], group, queue.broker_name[:32]
                offsets = place.broker_offset, place.consumer_offset
                last = plain_time(place.last_timestamp)
                rows.append((*names, queue.queue_id, *offsets, lag, last))
    heads = ["Topic", "Group", "Broker Name", "QID", "Broker Offset", "Consumer Offset", "Diff"]
    layout = "%-64s  %-64s  %-32s  %-4d  %-20d  %-20d  %-20d  %s"
    yield Table(layout, [*heads, "LastTime"], rows)
    yield Text(f"\nDiff Total: {found.total_diff}", {"diffTotal": found.total_diff})


async def group_settings(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Show the settings of a group at each broker that has it."""
    group = flags["g"]
    info = await admin.cluster()
    for name, data in sorted(info.broker_addr_table.items()):
        address = data.broker_addrs[min(data.broker_addrs)]
        config = (await admin.groups(address)).get(group)
        if config is None:
            continue
        values = bean_values(config)
        rule = "=" * 29
        lines = [f"{rule}{data.cluster}:{name}{rule}"]
        for key, value in values.items():
            lines.append(f"{key:<40}=  {word(value)}")
        yield Text("\n".join(lines), {"cluster": data.cluster, "broker": name, **values})


async def stats_all(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Show the rates of topics and groups."""
    rows: list[tuple[object, ...]] = []
    for topic in sorted(await admin.routes.topics()):
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            continue
        if flags.get("t", topic) == topic:
            rows += await _topic_stats(admin, topic, only_active="a" in flags)
    layout = "%-64s  %-64s %12d %11.2f %11s %14d %14s"
    heads = ["Topic", "Consumer Group", "Accumulation", "InTPS", "OutTPS"]
    yield Table(layout, [*heads, "InMsg24Hour", "OutMsg24Hour"], rows)


async def _topic_stats(admin: Admin, topic: str, *, only_active: bool) -> list[tuple[object, ...]]:
    try:
        groups = await admin.groups_of(topic)
        addresses = await admin.brokers_of(topic)
    except ClientError as error:
        if error.code is None:
            raise
        return []
    in_tps, in_count = await _rate(admin, addresses, TOPIC_PUT, topic)
    rows: list[tuple[object, ...]] = []
    for group in groups:
        out_tps, out_count = await _rate(admin, addresses, GROUP_GET, f"{topic}@{group}")
        try:
            lag = max(behind(await admin.consume_stats(group, topic)), 0)
        except ClientError:
            lag = 0
        if not only_active or in_count or out_count:
            names = topic[:64], group[:64]
            rows.append((*names, lag, in_tps, f"{out_tps:.2f}", in_count, out_count))
    if not groups and (not only_active or in_count):
        rows.append((topic[:64], "", 0, in_tps, "", in_count, "NO_CONSUMER"))
    return rows


async def _rate(admin: Admin, addresses: list[str], name: str, key: str) -> tuple[float, int]:
    """Return messages a second and in a day; a broker without the statistic adds nothing."""
    tps, count = 0.0, 0
    for address in addresses:
        try:
            found = await admin.stats(address, name, key)
        except ClientError:
            continue
        tps += found.stats_minute.tps
        count += day_sum(found)
    return tps, count


def day_sum(stats: BrokerStatsData) -> int:
    """Return the sum of the longest period that has one."""
    return stats.stats_day.sum or stats.stats_hour.sum or stats.stats_minute.sum


COMMANDS: Final = (
    Command(
        "updateSubGroup",
        "Create a consumer group, or change it.",
        update_group,
        (
            BROKER,
            CLUSTER,
            need("g", "groupName", "Name of the group."),
            may("s", "consumeEnable", "false to refuse its pulls.  [default: true]"),
            may("m", "consumeFromMinEnable", "true to begin at the first message."),
            may("d", "consumeBroadcastEnable", "true to allow broadcasting."),
            may("q", "retryQueueNums", "Queues of its retry topic.  [default: 1]"),
            may("r", "retryMaxTimes", "Deliveries before the dead letters.  [default: 16]"),
            may("i", "brokerId", "Id of the broker to pull from.  [default: 0]"),
            may("w", "whichBrokerWhenConsumeSlowly", "Id when it lags.  [default: 1]"),
            may("a", "notifyConsumerIdsChanged", "false to notify no client.  [default: true]"),
        ),
        one_of="bc",
    ),
    Command(
        "deleteSubGroup",
        "Delete a consumer group.",
        delete_group,
        (
            BROKER,
            CLUSTER,
            need("g", "groupName", "Name of the group."),
            may("r", "removeOffset", "true to delete its offsets as well."),
        ),
        one_of="bc",
    ),
    Command(
        "consumerProgress",
        "Show how far a group, or every group, lags behind.",
        consumer_progress,
        (
            may("g", "groupName", "Name of the group."),
            may("s", "showClientIP", "true to show which client has a queue."),
        ),
    ),
    Command(
        "brokerConsumeStats",
        "Show how far every group lags behind at one broker.",
        broker_progress,
        (
            need("b", "brokerAddr", "Address of the broker, HOST:PORT."),
            may("t", "timeoutMillis", "How long it may take.  [default: 50000]"),
            may("l", "level", "Only queues that lag by so many messages.  [default: 0]"),
            may("o", "order", "true for ordered topics alone.  [default: false]"),
        ),
    ),
    Command(
        "getConsumerConfig",
        "Show the settings of a group at each broker.",
        group_settings,
        (need("g", "groupName", "Name of the group."),),
    ),
    Command(
        "statsAll",
        "Show the rates of topics and groups.",
        stats_all,
        (
            switch("a", "activeTopic", "Only topics with messages today."),
            may("t", "topic", "Only this topic."),
        ),
    ),
)
