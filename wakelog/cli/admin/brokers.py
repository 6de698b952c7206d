"""Commands about brokers, name servers and their settings."""

import asyncio
import time
from collections.abc import AsyncIterator
from operator import sub
from typing import Final, NamedTuple

from wakelog.cli.admin.command import (
    BROKER,
    BROKER_NAME,
    BROKER_OR_CLUSTER,
    CLUSTER,
    TOPIC,
    flag,
    mark,
    mqadmin,
)
from wakelog.cli.admin.java_text import first_rate
from wakelog.cli.admin.topics import order_configuration, put_value, targets
from wakelog.cli.output import Output, Table, Text
from wakelog.client.admin import Admin, cluster_members
from wakelog.client.configuration import Configuration
from wakelog.client.errors import ClientError
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.names import ORDER_NAMESPACE

MS_PER_HOUR: Final = 3_600_000
LIST_LAYOUT: Final = "%-16s  %-22s  %-4s  %-22s %-16s %19s %19s %10s %5s %6s"


KEY = flag("k", "key", "Name of the setting.")
VALUE = flag("v", "value", "Its new value.")
NAMESPACE = flag("s", "namespace", "Name of the namespace.")
KEY_THERE = flag("k", "key", "Its key.")
SOME_CLUSTER = flag("c", "cluster", "Name of a cluster.  [default: all]", "")


@mqadmin.command("clusterList")
async def cluster_list(
    admin: Admin,
    with_totals: bool = mark(
        "m", "moreStats", "Messages of yesterday and today in place of rates."
    ),
    seconds: int | None = flag(
        "i", "interval", "Seconds until it is shown again.  [default: once]"
    ),
) -> AsyncIterator[Output]:
    """List the brokers of all clusters."""
    while True:
        yield await (_totals if with_totals else _brokers)(admin)
        if seconds is None:
            return
        await asyncio.sleep(seconds)


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


@mqadmin.command("brokerStatus", one_of=BROKER_OR_CLUSTER)
async def broker_status(
    admin: Admin, broker: str = BROKER, cluster: str = CLUSTER
) -> AsyncIterator[Output]:
    """Show what a broker says of itself."""
    if broker:
        values = await admin.runtime_info(broker)
        rows = sorted(values.items())
        yield Table("%-32s: %s", ["Name", "Value"], rows, shows_heads=False)
        return
    for address in await admin.members(cluster):
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


@mqadmin.command("getBrokerConfig", one_of=BROKER_OR_CLUSTER)
async def broker_settings(
    admin: Admin, broker: str = BROKER, cluster: str = CLUSTER
) -> AsyncIterator[Output]:
    """Show the settings of brokers."""
    if broker:
        yield _settings(broker, broker, await admin.configuration(broker))
        return
    info = await admin.cluster()
    master = ""
    for _, broker_id, address in cluster_members(info, cluster):
        if broker_id == 0:
            master, title = address, f"Master: {address}"
        else:
            title = f"My Master: {master}=====Slave: {address}"
        yield _settings(title, address, await admin.configuration(address))


@mqadmin.command("updateBrokerConfig", one_of=BROKER_OR_CLUSTER)
async def update_broker_settings(
    admin: Admin, key: str = KEY, value: str = VALUE, broker: str = BROKER, cluster: str = CLUSTER
) -> AsyncIterator[Output]:
    """Change one setting of brokers."""
    body = f"{key}={value}\n".encode()
    for address in await targets(admin, broker, cluster):
        response = await admin.ask(address, Code.UPDATE_BROKER_CONFIG, body=body)
        text = f"update broker config success, {address}"
        yield Text(_with_remark(text, response.remark), {"addr": address, key: value})


@mqadmin.command("getNamesrvConfig")
async def name_server_settings(admin: Admin) -> AsyncIterator[Output]:
    """Show the settings of name servers."""
    for address in admin.options.name_servers:
        values = await admin.configuration(address, Code.GET_NAMESRV_CONFIG)
        yield _settings(address, address, values)


@mqadmin.command("updateNamesrvConfig")
async def update_name_server_settings(
    admin: Admin, key: str = KEY, value: str = VALUE
) -> AsyncIterator[Output]:
    """Change one setting of name servers."""
    body, remark = f"{key}={value}\n".encode(), None
    for address in admin.options.name_servers:
        remark = (await admin.ask(address, Code.UPDATE_NAMESRV_CONFIG, body=body)).remark
    names = ", ".join(admin.options.name_servers)
    text = f"update name server config success![{names}]\n{key} : {value}"
    yield Text(_with_remark(text, remark), {key: value})


@mqadmin.command("updateKvConfig")
async def update_value(
    admin: Admin, namespace: str = NAMESPACE, key: str = KEY_THERE, value: str = VALUE
) -> AsyncIterator[Output]:
    """Set a value at the name servers."""
    await put_value(admin, namespace, key, value)
    fields = {"namespace": namespace, "key": key, "value": value}
    yield Text("create or update kv config to namespace success.", fields)


@mqadmin.command("deleteKvConfig")
async def delete_value(
    admin: Admin, namespace: str = NAMESPACE, key: str = KEY_THERE
) -> AsyncIterator[Output]:
    """Delete a value at the name servers."""
    fields = {"namespace": namespace, "key": key}
    await admin.ask_name_servers(Code.DELETE_KV_CONFIG, fields)
    yield Text("delete kv config from namespace success.", fields)


@mqadmin.command("updateOrderConf")
async def order_conf(
    admin: Admin,
    topic: str = TOPIC,
    method: str = flag("m", "method", "get, put or delete."),
    wanted: str = flag("v", "orderConf", "BROKER:QUEUES, `;` between.", ""),
) -> AsyncIterator[Output]:
    """Show, set or delete the order configuration of a topic."""
    order = ""
    if method == "get":
        order = await order_configuration(admin, topic)
        text = f"get orderConf success. topic=[{topic}], orderConf=[{order}] "
    elif method == "put" and wanted:
        order = wanted
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
    admin: Admin, name: str, code: Code, verb: str, count_name: str
) -> AsyncIterator[Output]:
    for address in admin.options.name_servers:
        response = await admin.ask(address, code, {"brokerName": name})
        count = int(response.ext_fields.get(count_name, 0))
        text = f"{verb} write perm of broker[{name}] in name server[{address}] OK, {count}"
        yield Text(text, {"broker": name, "nameServer": address, "topics": count})


@mqadmin.command("wipeWritePerm")
def wipe_write_permission(admin: Admin, broker: str = BROKER_NAME) -> AsyncIterator[Output]:
    """Take the write permission from a broker's topics."""
    code = Code.WIPE_WRITE_PERM_OF_BROKER
    return _write_permission(admin, broker, code, "wipe", "wipeTopicCount")


@mqadmin.command("addWritePerm")
def add_write_permission(admin: Admin, broker: str = BROKER_NAME) -> AsyncIterator[Output]:
    """Give the write permission back to a broker's topics."""
    code = Code.ADD_WRITE_PERM_OF_BROKER
    return _write_permission(admin, broker, code, "add", "addTopicCount")


async def _clean(admin: Admin, broker: str, cluster: str, code: Code) -> AsyncIterator[Output]:
    if broker:
        addresses = [broker]
    else:
        info = await admin.cluster()
        clusters = [cluster] if cluster else sorted(info.cluster_addr_table)
        addresses = [each[2] for name in clusters for each in cluster_members(info, name)]
    for address in addresses:
        await admin.ask(address, code)
    yield Text("success", {"brokers": addresses})


@mqadmin.command("cleanExpiredCQ")
def clean_expired_queues(
    admin: Admin, broker: str = BROKER, cluster: str = SOME_CLUSTER
) -> AsyncIterator[Output]:
    """Delete consume queues whose messages have expired."""
    return _clean(admin, broker, cluster, Code.CLEAN_EXPIRED_CONSUMEQUEUE)


@mqadmin.command("cleanUnusedTopic")
def clean_unused_topics(
    admin: Admin, broker: str = BROKER, cluster: str = SOME_CLUSTER
) -> AsyncIterator[Output]:
    """Delete the consume queues of topics that a broker does not have."""
    return _clean(admin, broker, cluster, Code.CLEAN_UNUSED_TOPIC)
