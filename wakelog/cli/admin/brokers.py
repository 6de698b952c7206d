"""Commands about brokers, name servers and their settings."""

import asyncio
import time
from collections.abc import AsyncIterator
from operator import sub
from typing import Final, NamedTuple

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
from wakelog.cli.admin.java_text import first_rate
from wakelog.cli.admin.topics import ORDER_NAMESPACE, order_configuration, put_value, targets
from wakelog.client.admin import Admin, Configuration, cluster_members
from wakelog.client.errors import ClientError
from wakelog.protocol.codes import RequestCode as Code

MS_PER_HOUR: Final = 3_600_000
LIST_LAYOUT: Final = "%-16s  %-22s  %-4s  %-22s %-16s %19s %19s %10s %5s %6s"


async def cluster_list(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """List the brokers of all clusters; with -i again and again."""
    while True:
        yield await (_totals if "m" in flags else _brokers)(admin)
        if "i" not in flags:
            return
        await asyncio.sleep(flags.number("i"))


class AskedBroker(NamedTuple):
    """A registered broker. values: what it says of itself, empty if it does not.

    refusal: why, if it answers and refuses.
    """

    cluster: str
    name: str
    broker_id: int
    address: str
    values: dict[str, str]
    refusal: ClientError | None


async def every_broker(admin: Admin) -> list[AskedBroker]:
    """Ask every registered broker for its runtime values."""
    info = await admin.cluster()
    found = []
    for cluster in sorted(info.cluster_addr_table):
        for name, broker_id, address in cluster_members(info, cluster):
            values, refusal = {}, None
            try:
                values = await admin.runtime_info(address)
            except ClientError as error:
                refusal = None if error.code is None else error
            found.append(AskedBroker(cluster, name, broker_id, address, values, refusal))
    return found


async def _brokers(admin: Admin) -> Output:
    rows = []
    for cluster, name, broker_id, address, values, _ in await every_broker(admin):
        loads = [
            f"{first_rate(values, rate):9.2f}"
            f"({values.get(f'{pool}ThreadPoolQueueSize', '')},"
            f"{values.get(f'{pool}ThreadPoolQueueHeadWaitTimeMills', '')}ms)"
            for rate, pool in (("putTps", "send"), ("getTransferedTps", "pull"))
        ]
        earliest = values.get("earliestMessageTimeStamp")
        hours = (time.time() * 1000 - int(earliest)) / MS_PER_HOUR if earliest else 0.0
        rest = values.get("pageCacheLockTimeMills", ""), f"{hours:.2f}"
        space = f"{float(values.get('commitLogDiskRatio') or 0):.4f}"
        place = cluster, name, broker_id, address, values.get("brokerVersionDesc", "")
        rows.append((*place, *loads, *rest, space))
    heads = ["Cluster Name", "Broker Name", "BID", "Addr", "Version", "InTPS(LOAD)"]
    heads += ["OutTPS(LOAD)", "PCWait(ms)", "Hour", "SPACE"]
    return Table(LIST_LAYOUT, heads, rows)


async def _totals(admin: Admin) -> Output:
    rows = []
    for cluster, name, _, _, values, _ in await every_broker(admin):
        counts = {
            when: [int(values.get(f"msg{verb}Total{when}", 0)) for verb in ("Put", "Get")]
            for when in ("YesterdayMorning", "TodayMorning", "TodayNow")
        }
        morning = counts["TodayMorning"]
        yesterday = map(sub, morning, counts["YesterdayMorning"])
        today = map(sub, counts["TodayNow"], morning)
        rows.append((cluster, name, *yesterday, *today))
    heads = ["Cluster Name", "Broker Name", "InTotalYest", "OutTotalYest"]
    heads += ["InTotalToday", "OutTotalToday"]
    return Table("%-16s  %-32s %14d %14d %14d %14d", heads, rows)


async def broker_status(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Show what a broker says of itself."""
    if "b" in flags:
        values = await admin.runtime_info(flags["b"])
        rows = sorted(values.items())
        yield Table("%-32s: %s", ["Name", "Value"], rows, shows_heads=False)
        return
    for address in await admin.members(flags["c"]):
        values = await admin.runtime_info(address)
        found = [(address, name, value) for name, value in sorted(values.items())]
        yield Table("%-24s %-32s: %s", ["Addr", "Name", "Value"], found, shows_heads=False)


def _settings(title: str, address: str, found: Configuration) -> Output:
    lines = [f"============{title}============"]
    lines += [f"{key:<50}=  {value}" for key, value in sorted(found.settings.items())]
    lines += [
        f"{key} waits for a restart: until then it is {value or 'not set'}"
        for key, value in sorted(found.waiting.items())
    ]
    values = {"addr": address, "settings": found.settings}
    if found.waiting:
        values["waitsForRestart"] = found.waiting
    return Text("\n".join(lines) + "\n", values)


def _with_remark(text: str, remark: str | None) -> str:
    """Add what the sender of a change has to know; mqadmin shows that of an error alone."""
    return f"{text}\n{remark}" if remark else text


async def broker_settings(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Show the settings of a broker, or of a cluster's masters and slaves."""
    if "b" in flags:
        yield _settings(flags["b"], flags["b"], await admin.configuration(flags["b"]))
        return
    info = await admin.cluster()
    master = ""
    for _, broker_id, address in cluster_members(info, flags["c"]):
        if broker_id == 0:
            master, title = address, f"Master: {address}"
        else:
            title = f"My Master: {master}=====Slave: {address}"
        yield _settings(title, address, await admin.configuration(address))


async def update_broker_settings(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Change one setting of a broker, or of a cluster's masters."""
    body = f"{flags['k']}={flags['v']}\n".encode()
    for address in await targets(admin, flags):
        response = await admin.ask(address, Code.UPDATE_BROKER_CONFIG, body=body)
        value = {"addr": address, flags["k"]: flags["v"]}
        text = f"update broker config success, {address}"
        yield Text(_with_remark(text, response.remark), value)


async def name_server_settings(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Show the settings of every name server."""
    for address in admin.options.name_servers:
        values = await admin.configuration(address, Code.GET_NAMESRV_CONFIG)
        yield _settings(address, address, values)


async def update_name_server_settings(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Change one setting of every name server."""
    key, value = flags["k"], flags["v"]
    body, remark = f"{key}={value}\n".encode(), None
    for address in admin.options.name_servers:
        remark = (await admin.ask(address, Code.UPDATE_NAMESRV_CONFIG, body=body)).remark
    names = ", ".join(admin.options.name_servers)
    text = f"update name server config success![{names}]\n{key} : {value}"
    yield Text(_with_remark(text, remark), {key: value})


async def update_value(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Set a value of a namespace at every name server."""
    await put_value(admin, flags["s"], flags["k"], flags["v"])
    value = {"namespace": flags["s"], "key": flags["k"], "value": flags["v"]}
    yield Text("create or update kv config to namespace success.", value)


async def delete_value(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Delete a value of a namespace at every name server."""
    fields = {"namespace": flags["s"], "key": flags["k"]}
    await admin.ask_name_servers(Code.DELETE_KV_CONFIG, fields)
    yield Text("delete kv config from namespace success.", fields)


async def order_conf(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Show, set or delete the order configuration of a topic."""
    topic, method = flags["t"], flags["m"]
    order = ""
    if method == "get":
        order = await order_configuration(admin, topic)
        text = f"get orderConf success. topic=[{topic}], orderConf=[{order}] "
    elif method == "put" and flags.get("v"):
        order = flags["v"]
        await put_value(admin, ORDER_NAMESPACE, topic, order)
        text = f"update orderConf success. topic=[{topic}], orderConf=[{order}]"
    elif method == "delete":
        fields = {"namespace": ORDER_NAMESPACE, "key": topic}
        await admin.ask_name_servers(Code.DELETE_KV_CONFIG, fields)
        text = f"delete orderConf success. topic=[{topic}]"
    else:
        raise ClientError(f"-m {method} cannot be done", "Give -m get, delete, or put with -v")
    yield Text(text, {"topic": topic, "method": method, "orderConf": order})


async def _write_permission(
    admin: Admin, flags: Flags, code: Code, verb: str, count_name: str
) -> AsyncIterator[Output]:
    name = flags["b"]
    for address in admin.options.name_servers:
        response = await admin.ask(address, code, {"brokerName": name})
        count = int(response.ext_fields.get(count_name, 0))
        text = f"{verb} write perm of broker[{name}] in name server[{address}] OK, {count}"
        yield Text(text, {"broker": name, "nameServer": address, "topics": count})


def wipe_write_permission(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Take the write permission from the topics of a broker, at every name server."""
    code = Code.WIPE_WRITE_PERM_OF_BROKER
    return _write_permission(admin, flags, code, "wipe", "wipeTopicCount")


def add_write_permission(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Give the write permission back to the topics of a broker, at every name server."""
    code = Code.ADD_WRITE_PERM_OF_BROKER
    return _write_permission(admin, flags, code, "add", "addTopicCount")


async def _clean(admin: Admin, flags: Flags, code: Code) -> AsyncIterator[Output]:
    if "b" in flags:
        addresses = [flags["b"]]
    else:
        info = await admin.cluster()
        clusters = [flags["c"]] if flags.get("c") else sorted(info.cluster_addr_table)
        addresses = [each[2] for name in clusters for each in cluster_members(info, name)]
    for address in addresses:
        await admin.ask(address, code)
    yield Text("success", {"brokers": addresses})


def clean_expired_queues(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Have brokers delete consume queues whose messages have expired."""
    return _clean(admin, flags, Code.CLEAN_EXPIRED_CONSUMEQUEUE)


def clean_unused_topics(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Have brokers delete the consume queues of topics that they do not have."""
    return _clean(admin, flags, Code.CLEAN_UNUSED_TOPIC)


KEY: Final = need("k", "key", "Name of the setting.")
VALUE: Final = need("v", "value", "Its new value.")
NAMESPACE: Final = need("s", "namespace", "Name of the namespace.")
NAMED_BROKER: Final = need("b", "brokerName", "Name of the broker.")
SOME_CLUSTER: Final = may("c", "cluster", "Name of a cluster.  [default: all]")

COMMANDS: Final = (
    Command(
        "clusterList",
        "List the brokers of all clusters.",
        cluster_list,
        (
            switch("m", "moreStats", "Messages of yesterday and today in place of rates."),
            may("i", "interval", "Seconds until it is shown again.  [default: once]"),
        ),
    ),
    Command(
        "brokerStatus",
        "Show what a broker says of itself.",
        broker_status,
        (BROKER, CLUSTER),
        one_of="bc",
    ),
    Command(
        "getBrokerConfig",
        "Show the settings of brokers.",
        broker_settings,
        (BROKER, CLUSTER),
        one_of="bc",
    ),
    Command(
        "updateBrokerConfig",
        "Change one setting of brokers.",
        update_broker_settings,
        (BROKER, CLUSTER, KEY, VALUE),
        one_of="bc",
    ),
    Command("getNamesrvConfig", "Show the settings of name servers.", name_server_settings),
    Command(
        "updateNamesrvConfig",
        "Change one setting of name servers.",
        update_name_server_settings,
        (KEY, VALUE),
    ),
    Command(
        "updateKvConfig",
        "Set a value at the name servers.",
        update_value,
        (NAMESPACE, need("k", "key", "Its key."), VALUE),
    ),
    Command(
        "deleteKvConfig",
        "Delete a value at the name servers.",
        delete_value,
        (NAMESPACE, need("k", "key", "Its key.")),
    ),
    Command(
        "updateOrderConf",
        "Show, set or delete the order configuration of a topic.",
        order_conf,
        (
            need("t", "topic", "Name of the topic."),
            need("m", "method", "get, put or delete."),
            may("v", "orderConf", "BROKER:QUEUES, `;` between."),
        ),
    ),
    Command(
        "wipeWritePerm",
        "Take the write permission from a broker's topics.",
        wipe_write_permission,
        (NAMED_BROKER,),
    ),
    Command(
        "addWritePerm",
        "Give the write permission back to a broker's topics.",
        add_write_permission,
        (NAMED_BROKER,),
    ),
    Command(
        "cleanExpiredCQ",
        "Delete consume queues whose messages have expired.",
        clean_expired_queues,
        (BROKER, SOME_CLUSTER),
    ),
    Command(
        "cleanUnusedTopic",
        "Delete the consume queues of topics that a broker does not have.",
        clean_unused_topics,
        (BROKER, SOME_CLUSTER),
    ),
)
