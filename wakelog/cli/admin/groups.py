"""Commands about consumer groups and their progress."""

from collections.abc import AsyncIterator
from typing import Final

from wakelog.cli.admin.command import (
    BROKER,
    BROKER_OR_CLUSTER,
    CLUSTER,
    GROUP_NAME,
    flag,
    mark,
    mqadmin,
)
from wakelog.cli.admin.java_text import bean_text, bean_values, plain_time, word
from wakelog.cli.admin.topics import delete_topic, targets
from wakelog.cli.output import Output, Table, Text
from wakelog.client.admin import Admin
from wakelog.client.errors import allowing_refusal
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


@mqadmin.command("updateSubGroup", one_of=BROKER_OR_CLUSTER)
async def update_group(
    admin: Admin,
    group: str = GROUP_NAME,
    broker: str = BROKER,
    cluster: str = CLUSTER,
    consumes: bool = flag("s", "consumeEnable", "false to refuse its pulls.", True),
    from_min: bool = flag("m", "consumeFromMinEnable", "true to begin at the first message."),
    broadcasts: bool = flag("d", "consumeBroadcastEnable", "true to allow broadcasting."),
    retry_queues: int = flag("q", "retryQueueNums", "Queues of its retry topic.", 1),
    retries: int = flag("r", "retryMaxTimes", "Deliveries before the dead letters.", 16),
    broker_id: int = flag("i", "brokerId", "Id of the broker to pull from.", 0),
    slow_broker_id: int = flag("w", "whichBrokerWhenConsumeSlowly", "Id when it lags.", 1),
    notifies: bool = flag("a", "notifyConsumerIdsChanged", "false to notify no client.", True),
) -> AsyncIterator[Output]:
    """Create a consumer group, or change it."""
    config = SubscriptionGroupConfig(
        group,
        consume_enable=consumes,
        consume_from_min_enable=from_min,
        consume_broadcast_enable=broadcasts,
        retry_queue_nums=retry_queues,
        retry_max_times=retries,
        broker_id=broker_id,
        which_broker_when_consume_slowly=slow_broker_id,
        notify_consumer_ids_changed_enable=notifies,
    )
    for address in await targets(admin, broker, cluster):
        await admin.update_group(address, config)
        value = {"group": group, "broker": address}
        yield Text(f"create subscription group to {address} success.", value)
    values = bean_values(config)
    yield Text(bean_text("SubscriptionGroupConfig", values), values)


@mqadmin.command("deleteSubGroup", one_of=BROKER_OR_CLUSTER)
async def delete_group(
    admin: Admin,
    group: str = GROUP_NAME,
    broker: str = BROKER,
    cluster: str = CLUSTER,
    removes_offsets: bool = flag("r", "removeOffset", "true to delete its offsets as well."),
) -> AsyncIterator[Output]:
    """Delete a consumer group."""
    place = "" if broker else f" in cluster [{cluster}]"
    for address in await targets(admin, broker, cluster):
        fields = {"groupName": group, "removeOffset": removes_offsets}
        await admin.ask(address, Code.DELETE_SUBSCRIPTIONGROUP, fields)
        text = f"delete subscription group [{group}] from broker [{address}]{place} success."
        yield Text(text, {"group": group, "broker": address})
    if not broker:
        for prefix in (RETRY_PREFIX, DLQ_PREFIX):
            async for output in delete_topic(admin, prefix + group, cluster):
                yield output


@mqadmin.command(
    "consumerProgress",
    differs="One client that cannot be asked hides no other; mqadmin then shows none of the rest.",
)
async def consumer_progress(
    admin: Admin,
    group: str | None = flag("g", "groupName", "Name of the group."),
    with_clients: bool = flag("s", "showClientIP", "true to show which client has a queue."),
) -> AsyncIterator[Output]:
    """Show how far a group, or every group, lags behind."""
    if group is None:
        yield await _progress_of_all(admin)
        return
    stats = await admin.consume_stats(group)
    owners = await client_addresses(admin, group) if with_clients else None
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
    total = stats.total_diff()
    text = f"\nConsume TPS: {stats.consume_tps:.2f}\nDiff Total: {total}"
    yield Text(text, {"consumeTps": stats.consume_tps, "diffTotal": total})


async def client_addresses(admin: Admin, group: str) -> dict[MessageQueue, str]:
    """Return which client has each queue, by what every client of the group says.

    A client that cannot be asked hides no other: those of some languages cannot.
    """
    found: dict[MessageQueue, str] = {}
    clients = ConsumerConnection()
    with allowing_refusal():
        clients = await admin.consumers(group)
    for client in clients.connection_set:
        with allowing_refusal():
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
        with allowing_refusal():
            stats = await admin.consume_stats(group)
        with allowing_refusal():
            clients = await admin.consumers(group)
        count, version, kind, model = len(clients.connection_set), "OFFLINE", "", ""
        if count:
            version = version_name(min(each.version for each in clients.connection_set))
            is_pull = clients.consume_type == CONSUME_ACTIVELY
            kind, model = ("PULL", "") if is_pull else ("PUSH", clients.message_model or "")
        tps = int(stats.consume_tps)
        rows.append((group[:64], count, version, kind, model, tps, stats.total_diff()))
    heads = ["Group", "Count", "Version", "Type", "Model", "TPS", "Diff Total"]
    return Table("%-64s  %-6d  %-24s %-5s  %-14s  %-7d  %d", heads, rows)


@mqadmin.command("brokerConsumeStats")
async def broker_progress(
    admin: Admin,
    broker: str = flag("b", "brokerAddr", "Address of the broker, HOST:PORT."),
    timeout_ms: int = flag(
        "t", "timeoutMillis", "How long it may take.", 50_000, minimum=1, maximum=INT_MAX
    ),
    lag_min: int = flag("l", "level", "Only queues that lag by so many messages.", 0),
    is_ordered: bool = flag("o", "order", "true for ordered topics alone."),
) -> AsyncIterator[Output]:
    """Show how far every group lags behind at one broker."""
    fields = {"isOrder": is_ordered}
    code = Code.GET_BROKER_CONSUME_STATS
    found = await admin.ask_for(ConsumeStatsList, broker, code, fields, timeout_ms=timeout_ms)
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


@mqadmin.command("getConsumerConfig")
async def group_settings(admin: Admin, group: str = GROUP_NAME) -> AsyncIterator[Output]:
    """Show the settings of a group at each broker."""
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


@mqadmin.command(
    "statsAll", differs="A broker that does not answer is an error; mqadmin counts 0 for it."
)
async def stats_all(
    admin: Admin,
    only_active: bool = mark("a", "activeTopic", "Only topics with messages today."),
    only_topic: str | None = flag("t", "topic", "Only this topic."),
) -> AsyncIterator[Output]:
    """Show the rates of topics and groups."""
    rows: list[tuple[object, ...]] = []
    for topic in sorted(await admin.routes.topics()):
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            continue
        if only_topic in (None, topic):
            rows += await _topic_stats(admin, topic, only_active=only_active)
    layout = "%-64s  %-64s %12d %11.2f %11s %14d %14s"
    heads = ["Topic", "Consumer Group", "Accumulation", "InTPS", "OutTPS"]
    yield Table(layout, [*heads, "InMsg24Hour", "OutMsg24Hour"], rows)


async def _topic_stats(admin: Admin, topic: str, *, only_active: bool) -> list[tuple[object, ...]]:
    addresses: list[str] = []
    with allowing_refusal():
        groups = await admin.groups_of(topic)
        addresses = await admin.brokers_of(topic)
    if not addresses:
        return []
    in_tps, in_count = await _rate(admin, addresses, TOPIC_PUT, topic)
    rows: list[tuple[object, ...]] = []
    for group in groups:
        out_tps, out_count = await _rate(admin, addresses, GROUP_GET, f"{topic}@{group}")
        lag = 0
        with allowing_refusal():
            lag = max((await admin.consume_stats(group, topic)).total_diff(), 0)
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
        with allowing_refusal():
            found = await admin.stats(address, name, key)
            tps += found.stats_minute.tps
            count += day_sum(found)
    return tps, count


def day_sum(stats: BrokerStatsData) -> int:
    """Return the sum of the longest period that has one."""
    return stats.stats_day.sum or stats.stats_hour.sum or stats.stats_minute.sum
