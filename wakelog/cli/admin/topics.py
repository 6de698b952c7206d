"""Commands about topics and their routes."""

from collections.abc import AsyncIterator
from typing import Final

from wakelog.cli.admin.command import (
    BROKER,
    BROKER_OR_CLUSTER,
    CLUSTER,
    TOPIC,
    WHOLE_CLUSTER,
    flag,
    mark,
    mqadmin,
)
from wakelog.cli.admin.java_text import map_text, topic_text
from wakelog.cli.output import Output, Table, Text
from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError
from wakelog.client.route import MASTER_ID, readable_queues
from wakelog.protocol import fastjson
from wakelog.protocol.bodies import ClusterInfo, TopicConfig
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.java import exact_time
from wakelog.protocol.names import DLQ_PREFIX, ORDER_NAMESPACE, RETRY_PREFIX

UNIT_FLAG, UNIT_SUB_FLAG = 1, 2
RULE_CHARACTERS: Final = 158
ROUTE_LAYOUT: Final = "%-45s %-32s %-50s %-10s %-11s %-5s"


async def targets(admin: Admin, broker: str, cluster: str) -> list[str]:
    """Return the broker that -b names, or the masters of the cluster that -c names."""
    return [broker] if broker else await admin.masters(cluster)


@mqadmin.command("updateTopic", one_of=BROKER_OR_CLUSTER)
async def update_topic(
    admin: Admin,
    topic: str = TOPIC,
    broker: str = BROKER,
    cluster: str = CLUSTER,
    reads: int = flag("r", "readQueueNums", "Queues that are read.", 8),
    writes: int = flag("w", "writeQueueNums", "Queues that are written.", 8),
    perm: int = flag("p", "perm", "2 write, 4 read, 6 both.", 6),
    is_ordered: bool = flag("o", "order", "true for an ordered topic."),
    is_unit: bool = flag("u", "unit", "true for a unit's topic."),
    has_unit_sub: bool = flag("s", "hasUnitSub", "true if a unit subscribes."),
) -> AsyncIterator[Output]:
    """Create a topic, or change it."""
    config = TopicConfig(
        topic,
        reads,
        writes,
        perm,
        topic_sys_flag=is_unit * UNIT_FLAG + has_unit_sub * UNIT_SUB_FLAG,
        order=is_ordered,
    )
    addresses = await targets(admin, broker, cluster)
    for address in addresses:
        await admin.update_topic(address, config)
        yield Text(f"create topic to {address} success.", {"topic": topic, "broker": address})
    if is_ordered:
        names = sorted(_names_at(await admin.cluster(), addresses))
        parts = [f"{name}:{writes}" for name in names]
        if broker:
            old = await order_configuration(admin, topic)
            kept = [x for x in filter(None, old.split(";")) if x.partition(":")[0] not in names]
            parts = kept + parts
        order = ";".join(parts)
        await put_value(admin, ORDER_NAMESPACE, topic, order)
        kind = "broker" if broker else "cluster"
        text = f"set {kind} orderConf. isOrder=true, orderConf=[{order}]"
        yield Text(text, {"topic": topic, "orderConf": order})
    yield Text(topic_text(config), {"topic": topic, "order": is_ordered})


@mqadmin.command("updateTopicPerm", one_of=BROKER_OR_CLUSTER)
async def update_permission(
    admin: Admin,
    topic: str = TOPIC,
    perm: int = flag("p", "perm", "2 write, 4 read, 6 both."),
    broker: str = BROKER,
    cluster: str = CLUSTER,
) -> AsyncIterator[Output]:
    """Change the permission of a topic."""
    route = await admin.route(topic)
    first = route.queue_datas[0]
    config = TopicConfig(  # its queues become as many as at its first broker
        topic,
        first.read_queue_nums,
        first.write_queue_nums,
        perm,
        topic_sys_flag=first.topic_sys_flag,
    )
    masters = {data.broker_addrs.get(MASTER_ID): data.broker_name for data in route.broker_datas}
    old_perms = {data.broker_name: data.perm for data in route.queue_datas}
    for address in await targets(admin, broker, cluster):
        if broker and address not in masters:
            known = ", ".join(sorted(filter(None, masters)))
            raise ClientError(f"{address} is no master of topic {topic}", f"Give -b {known}")
        old = old_perms[masters[address]] if broker else first.perm
        if broker and old == perm:
            yield Text("new perm equals to the old one!", {"topic": topic, "perm": perm})
            return
        await admin.update_topic(address, config)
        text = f"update topic perm from {old} to {perm} in {address} success."
        yield Text(text, {"topic": topic, "broker": address, "from": old, "perm": perm})
    if broker:
        yield Text(f"{topic_text(config)}.", {"topic": topic, "perm": perm})


@mqadmin.command(
    "allocateMQ",
    differs="Queues are dealt in order, as to consumers; mqadmin deals them as they come.",
)
async def allocate_queues(
    admin: Admin,
    topic: str = TOPIC,
    clients_text: str = flag("i", "ipList", "Clients in their order, `,` between."),
) -> AsyncIterator[Output]:
    """Show which queues of a topic each of some consumers would have."""
    clients = clients_text.split(",")
    queues = sorted(
        MessageQueue(queue.topic, queue.broker, queue.queue_id)
        for queue in readable_queues(await admin.route(topic), topic)
    )
    size, longer = divmod(len(queues), len(clients))
    found = {}
    for number, client in enumerate(clients):
        first = number * size + min(number, longer)
        found[client] = queues[first : first + size + (number < longer)]
    text = fastjson.dumps({"result": found})
    yield Text(text.decode(), fastjson.loads(text))


def _names_at(info: ClusterInfo, addresses: list[str]) -> list[str]:
    found = info.broker_addr_table.items()
    return [name for name, data in found if set(data.broker_addrs.values()) & set(addresses)]


async def order_configuration(admin: Admin, topic: str) -> str:
    """Return the order configuration of a topic, "" if it has none."""
    response = await admin.ask_name_server(
        Code.GET_KV_CONFIG,
        {"namespace": ORDER_NAMESPACE, "key": topic},
        allowed=(ResponseCode.QUERY_NOT_FOUND,),
    )
    return response.ext_fields.get("value", "")


async def put_value(admin: Admin, namespace: str, key: str, value: str) -> None:
    """Set a value at every name server."""
    fields = {"namespace": namespace, "key": key, "value": value}
    await admin.ask_name_servers(Code.PUT_KV_CONFIG, fields)


@mqadmin.command("deleteTopic")
async def delete_topic(
    admin: Admin, topic: str = TOPIC, cluster: str = WHOLE_CLUSTER
) -> AsyncIterator[Output]:
    """Delete a topic at the brokers of a cluster and at the name servers."""
    for address in await admin.members(cluster):
        await admin.ask(address, Code.DELETE_TOPIC_IN_BROKER, {"topic": topic})
    value = {"topic": topic, "cluster": cluster}
    yield Text(f"delete topic [{topic}] from cluster [{cluster}] success.", value)
    await admin.ask_name_servers(Code.DELETE_TOPIC_IN_NAMESRV, {"topic": topic})
    yield Text(f"delete topic [{topic}] from NameServer success.", {"topic": topic})


@mqadmin.command("topicList")
async def topic_list(
    admin: Admin,
    with_clusters: bool = mark("c", "clusterModel", "Also the cluster and the groups of each."),
) -> AsyncIterator[Output]:
    """List all topics."""
    names = sorted(await admin.routes.topics())
    if not with_clusters:
        yield Table("%s", ["Topic"], [(name,) for name in names], shows_heads=False)
        return
    info = await admin.cluster()
    rows = []
    for name in names:
        if name.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            continue
        cluster, groups = "", [""]
        try:
            cluster = await _cluster_of(admin, info, name)
            groups = await admin.groups_of(name) or [""]
        except ClientError:
            pass  # as in mqadmin: the row is shown without what is not known
        rows += [(cluster[:20], name[:64], group[:64]) for group in groups]
    yield Table("%-20s  %-64s  %-64s", ["Cluster Name", "Topic", "Consumer Group"], rows)


async def _cluster_of(admin: Admin, info: ClusterInfo, topic: str) -> str:
    route = await admin.route(topic)
    name = route.broker_datas[0].broker_name if route.broker_datas else ""
    found = (cluster for cluster, names in info.cluster_addr_table.items() if name in names)
    return next(found, "null")


@mqadmin.command("topicRoute")
async def topic_route(
    admin: Admin,
    topic: str = TOPIC,
    as_table: bool = mark("l", "list", "A table in place of JSON."),
) -> AsyncIterator[Output]:
    """Show the brokers and queues of a topic."""
    route = await admin.route(topic)
    if not as_table:
        text = fastjson.dumps(route, pretty=True).decode()
        yield Text(text, {"topic": topic, "route": fastjson.loads(fastjson.dumps(route))})
        return
    queues = {data.broker_name: data for data in route.queue_datas}
    rows: list[tuple[object, ...]] = []
    for broker in sorted(route.broker_datas, key=lambda data: data.broker_name):
        data = queues[broker.broker_name]
        addresses = map_text(broker.broker_addrs)
        counts = data.read_queue_nums, data.write_queue_nums
        rows.append((broker.cluster, broker.broker_name, addresses, *counts, data.perm))
    heads = ["ClusterName", "BrokerName", "BrokerAddrs", "ReadQueue", "WriteQueue", "Perm"]
    yield Table(ROUTE_LAYOUT, heads, rows)
    reads = sum(data.read_queue_nums for data in queues.values())
    writes = sum(data.write_queue_nums for data in queues.values())
    total = ROUTE_LAYOUT % ("Total:", len(queues), "", reads, writes, "")
    value = {"brokers": len(queues), "readQueues": reads, "writeQueues": writes}
    yield Text("-" * RULE_CHARACTERS + "\n" + total, value)


@mqadmin.command("topicStatus")
async def topic_status(admin: Admin, topic: str = TOPIC) -> AsyncIterator[Output]:
    """Show both ends of every queue of a topic."""
    stats = await admin.topic_stats(topic)
    rows = []
    for queue, offset in sorted(stats.offset_table.items()):
        updated_ms = offset.last_update_timestamp
        updated = exact_time(updated_ms) if updated_ms > 0 else ""
        ends = offset.min_offset, offset.max_offset
        rows.append((queue.broker_name[:32], queue.queue_id, *ends, updated))
    heads = ["Broker Name", "QID", "Min Offset", "Max Offset", "Last Updated"]
    yield Table("%-32s  %-4d  %-20d  %-20d    %s", heads, rows)


@mqadmin.command("topicClusterList")
async def topic_clusters(admin: Admin, topic: str = TOPIC) -> AsyncIterator[Output]:
    """List the clusters of a topic."""
    info = await admin.cluster()
    route = await admin.route(topic)
    names = {data.broker_name for data in route.broker_datas}
    rows = [(cluster,) for cluster, own in sorted(info.cluster_addr_table.items()) if own & names]
    yield Table("%s", ["Cluster Name"], rows, shows_heads=False)
