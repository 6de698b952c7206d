"""Commands about topics and their routes."""

from collections.abc import AsyncIterator
from typing import Final

from wakelog.cli.admin.command import (
    BROKER,
    CLUSTER,
    TOPIC,
    Command,
    Flags,
    Output,
    Table,
    Text,
    may,
    need,
    switch,
)
from wakelog.cli.admin.java_text import map_text, topic_text
from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError
from wakelog.client.route import MASTER_ID, readable_queues
from wakelog.protocol import fastjson
from wakelog.protocol.bodies import ClusterInfo, TopicConfig
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.java import exact_time
from wakelog.protocol.names import DLQ_PREFIX, RETRY_PREFIX

ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"
UNIT_FLAG, UNIT_SUB_FLAG = 1, 2
QUEUES_DEFAULT: Final = 8
PERM_DEFAULT: Final = 6
RULE_CHARACTERS: Final = 158
ROUTE_LAYOUT: Final = "%-45s %-32s %-50s %-10s %-11s %-5s"


async def targets(admin: Admin, flags: Flags) -> list[str]:
    """Return the broker that -b names, or the masters of the cluster that -c names."""
    return [flags["b"]] if "b" in flags else await admin.masters(flags["c"])


async def update_topic(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Create a topic, or change it."""
    topic = TopicConfig(
        flags["t"],
        flags.number("r", QUEUES_DEFAULT),
        flags.number("w", QUEUES_DEFAULT),
        flags.number("p", PERM_DEFAULT),
        topic_sys_flag=flags.truth("u") * UNIT_FLAG + flags.truth("s") * UNIT_SUB_FLAG,
        order=flags.truth("o"),
    )
    addresses = await targets(admin, flags)
    for address in addresses:
        await admin.update_topic(address, topic)
        value = {"topic": topic.topic_name, "broker": address}
        yield Text(f"create topic to {address} success.", value)
    if topic.order:
        names = sorted(_names_at(await admin.cluster(), addresses))
        parts = [f"{name}:{topic.write_queue_nums}" for name in names]
        if "b" in flags:
            old = await order_configuration(admin, topic.topic_name)
            kept = [x for x in filter(None, old.split(";")) if x.partition(":")[0] not in names]
            parts = kept + parts
        order = ";".join(parts)
        await put_value(admin, ORDER_NAMESPACE, topic.topic_name, order)
        kind = "broker" if "b" in flags else "cluster"
        text = f"set {kind} orderConf. isOrder=true, orderConf=[{order}]"
        yield Text(text, {"topic": topic.topic_name, "orderConf": order})
    yield Text(topic_text(topic), {"topic": topic.topic_name, "order": topic.order})


async def update_permission(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Change the permission of a topic; its queues become as many as at its first broker."""
    name, perm = flags["t"], flags.number("p")
    route = await admin.route(name)
    first = route.queue_datas[0]
    topic = TopicConfig(
        name,
        first.read_queue_nums,
        first.write_queue_nums,
        perm,
        topic_sys_flag=first.topic_sys_flag,
    )
    masters = {data.broker_addrs.get(MASTER_ID): data.broker_name for data in route.broker_datas}
    old_perms = {data.broker_name: data.perm for data in route.queue_datas}
    for address in await targets(admin, flags):
        if "b" in flags and address not in masters:
            known = ", ".join(sorted(filter(None, masters)))
            raise ClientError(f"{address} is no master of topic {name}", f"Give -b {known}")
        old = old_perms[masters[address]] if "b" in flags else first.perm
        if "b" in flags and old == perm:
            yield Text("new perm equals to the old one!", {"topic": name, "perm": perm})
            return
        await admin.update_topic(address, topic)
        text = f"update topic perm from {old} to {perm} in {address} success."
        yield Text(text, {"topic": name, "broker": address, "from": old, "perm": perm})
    if "b" in flags:
        yield Text(f"{topic_text(topic)}.", {"topic": name, "perm": perm})


async def allocate_queues(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Show which queues of a topic each client would have, as consumers deal them by default."""
    clients = flags["i"].split(",")
    queues = sorted(
        MessageQueue(queue.topic, queue.broker, queue.queue_id)
        for queue in readable_queues(await admin.route(flags["t"]), flags["t"])
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


async def delete_topic(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Delete a topic at the brokers of a cluster and at the name servers."""
    async for output in delete_topic_of(admin, flags["c"], flags["t"]):
        yield output


async def delete_topic_of(admin: Admin, cluster: str, topic: str) -> AsyncIterator[Output]:
    """Delete a topic, also for deleteSubGroup."""
    for address in await admin.members(cluster):
        await admin.ask(address, Code.DELETE_TOPIC_IN_BROKER, {"topic": topic})
    value = {"topic": topic, "cluster": cluster}
    yield Text(f"delete topic [{topic}] from cluster [{cluster}] success.", value)
    await admin.ask_name_servers(Code.DELETE_TOPIC_IN_NAMESRV, {"topic": topic})
    yield Text(f"delete topic [{topic}] from NameServer success.", {"topic": topic})


async def topic_list(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """List all topics, with -c their clusters and groups."""
    names = sorted(await admin.routes.topics())
    if "c" not in flags:
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


async def topic_route(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Show the route of a topic: JSON, or a table with -l."""
    route = await admin.route(flags["t"])
    if "l" not in flags:
        text = fastjson.dumps(route, pretty=True).decode()
        yield Text(text, {"topic": flags["t"], "route": fastjson.loads(fastjson.dumps(route))})
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


async def topic_status(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Show both ends of every queue of a topic."""
    stats = await admin.topic_stats(flags["t"])
    rows = []
    for queue, offset in sorted(stats.offset_table.items()):
        updated_ms = offset.last_update_timestamp
        updated = exact_time(updated_ms) if updated_ms > 0 else ""
        ends = offset.min_offset, offset.max_offset
        rows.append((queue.broker_name[:32], queue.queue_id, *ends, updated))
    heads = ["Broker Name", "QID", "Min Offset", "Max Offset", "Last Updated"]
    yield Table("%-32s  %-4d  %-20d  %-20d    %s", heads, rows)


async def topic_clusters(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """List the clusters that have a topic."""
    info = await admin.cluster()
    route = await admin.route(flags["t"])
    names = {data.broker_name for data in route.broker_datas}
    rows = [(cluster,) for cluster, own in sorted(info.cluster_addr_table.items()) if own & names]
    yield Table("%s", ["Cluster Name"], rows, shows_heads=False)


COMMANDS: Final = (
    Command(
        "updateTopic",
        "Create a topic, or change it.",
        update_topic,
        (
            BROKER,
            CLUSTER,
            TOPIC,
            may("r", "readQueueNums", "Queues that are read.  [default: 8]"),
            may("w", "writeQueueNums", "Queues that are written.  [default: 8]"),
            may("p", "perm", "2 write, 4 read, 6 both.  [default: 6]"),
            may("o", "order", "true for an ordered topic."),
            may("u", "unit", "true for a unit's topic."),
            may("s", "hasUnitSub", "true if a unit subscribes."),
        ),
        one_of="bc",
    ),
    Command(
        "updateTopicPerm",
        "Change the permission of a topic.",
        update_permission,
        (BROKER, CLUSTER, TOPIC, need("p", "perm", "2 write, 4 read, 6 both.")),
        one_of="bc",
    ),
    Command(
        "deleteTopic",
        "Delete a topic at the brokers of a cluster and at the name servers.",
        delete_topic,
        (TOPIC, need("c", "clusterName", "Name of the cluster.")),
    ),
    Command(
        "topicList",
        "List all topics.",
        topic_list,
        (switch("c", "clusterModel", "Also the cluster and the groups of each."),),
    ),
    Command(
        "topicRoute",
        "Show the brokers and queues of a topic.",
        topic_route,
        (TOPIC, switch("l", "list", "A table in place of JSON.")),
    ),
    Command("topicStatus", "Show both ends of every queue of a topic.", topic_status, (TOPIC,)),
    Command("topicClusterList", "List the clusters of a topic.", topic_clusters, (TOPIC,)),
    Command(
        "allocateMQ",
        "Show which queues of a topic each of some consumers would have.",
        allocate_queues,
        (TOPIC, need("i", "ipList", "Clients in their order, `,` between.")),
        differs="Queues are dealt in order, as to consumers; mqadmin deals them as they come.",
    ),
)
