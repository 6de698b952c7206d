"""`wakelog doctor`: why a client here cannot reach, write or consume.

It asks as a client would, from the host of the client, and changes nothing. Each thing that is
looked at gives a finding. Looking goes on after a problem, as far as the answers allow.

    name servers   each answers, and all know the same brokers
    brokers        the advertised address is one for this host; it answers; there is a master
    services       each does its work, or says why not
    load and disk  the disk has room, sends do not wait, the queues follow the log
    a topic        it has a route, with permissions and queues
    a group        it may consume; its clients subscribe alike; every queue has one that goes on

A group that lags is looked at twice, `MOVES_SECONDS` apart: clients commit every five seconds.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Final

from wakelog.cli.admin.command import Output
from wakelog.cli.cluster.findings import shown
from wakelog.cli.cluster.groups import clients_of, masters, progress
from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError
from wakelog.client.route import MASTER_ID, NO_NAME_SERVER
from wakelog.console.diagnosis import diagnosis
from wakelog.console.findings import (
    MOVES_MS,
    address_findings,
    broker_text,
    load_findings,
    unanswered,
    unmoved_findings,
)
from wakelog.console.rules import CHECK_GROUP, OK, PROBLEM, WARNING, Finding, say
from wakelog.console.snapshot import BrokerReading, GroupReading
from wakelog.console.views.brokers import version_text
from wakelog.protocol.bodies import (
    ClusterInfo,
    ConsumerRunningInfo,
    ConsumeStats,
    SubscriptionGroupConfig,
    TopicRouteData,
)
from wakelog.protocol.body_codec import decode_response
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.names import AUTO_CREATE_TOPIC
from wakelog.protocol.sys_flag import PERM_READ, PERM_WRITE

MOVES_SECONDS: Final = MOVES_MS / 1000
"""Within which a client that consumes commits (persistConsumerOffsetInterval is 5 s)."""


async def doctor(admin: Admin, topic: str | None, group: str | None) -> AsyncIterator[Output]:
    """Yield the findings. Raises: DeploymentFailed at the end if there is a problem."""
    async for finding in shown(_findings(admin, topic, group)):
        yield finding


async def _findings(admin: Admin, topic: str | None, group: str | None) -> AsyncIterator[Finding]:
    tables: dict[str, ClusterInfo] = {}
    for address in admin.options.name_servers:
        yield await _name_server(admin, address, tables)
    if not tables:
        return
    for finding in disagreements(tables):
        yield finding
    parts = [_brokers(admin, *next(iter(tables.items())))]
    if topic is not None:
        parts.append(_topic(admin, topic))
    if group is not None:
        parts.append(_group(admin, group, topic))
    for part in parts:
        async for finding in part:
            yield finding


async def _brokers(admin: Admin, name_server: str, info: ClusterInfo) -> AsyncIterator[Finding]:
    if not info.broker_addr_table:
        yield say("no broker", "brokers")
    for name, data in sorted(info.broker_addr_table.items()):
        for finding in address_findings(name, data.broker_addrs, name_server):
            yield finding
        for broker_id, address in sorted(data.broker_addrs.items()):
            reading = BrokerReading(data.cluster, name, broker_id, address)
            async for finding in _broker(admin, broker_text(reading), address):
                yield finding


def _failed(about: str, error: ClientError) -> Finding:
    return Finding(PROBLEM, about, error.cause, error.remedy)


async def _name_server(admin: Admin, address: str, tables: dict[str, ClusterInfo]) -> Finding:
    about, began = f"name server {address}", time.monotonic()
    try:
        response = await admin.ask(address, Code.GET_BROKER_CLUSTER_INFO)
    except ClientError as error:
        if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return Finding(PROBLEM, about, error.cause, NO_NAME_SERVER)
        return _failed(about, error)
    tables[address] = (
        decode_response(ClusterInfo, response.body) if response.body else ClusterInfo()
    )
    names = ", ".join(sorted(tables[address].broker_addr_table)) or "no broker"
    took_ms = (time.monotonic() - began) * 1000
    return Finding(OK, about, f"answers in {took_ms:.0f} ms, knows {names}")


def disagreements(tables: Mapping[str, ClusterInfo]) -> Iterator[Finding]:
    """Yield a finding for each broker that some name servers do not know."""
    known = {address: set(info.broker_addr_table) for address, info in tables.items()}
    for name in sorted(set().union(*known.values())):
        without = [address for address, names in known.items() if name not in names]
        if without:
            remedy = "Give that broker all name servers (namesrvAddr)"
            yield Finding(WARNING, f"broker {name}", f"unknown at {', '.join(without)}", remedy)


async def _broker(admin: Admin, about: str, address: str) -> AsyncIterator[Finding]:
    try:
        values = await admin.runtime_info(address)
    except ClientError as error:
        yield unanswered(about, error)
        return
    yield Finding(OK, about, f"answers, version {version_text(values) or 'unknown'}")
    for each in load_findings(about, values):
        yield each


async def _topic(admin: Admin, topic: str) -> AsyncIterator[Finding]:
    about = f"topic {topic}"
    try:
        route = await admin.routes.find(topic)
        if route is None:
            is_made = await admin.routes.find(AUTO_CREATE_TOPIC) is not None
            found = "does not exist; " + (
                "the first send makes it" if is_made else "no send makes it"
            )
            remedy = "Check its name (wakelog topics), or create it (wakelog admin updateTopic)"
            yield Finding(WARNING if is_made else PROBLEM, about, found, remedy)
            return
    except ClientError as error:
        yield _failed(about, error)
        return
    for each in route_findings(about, route):
        yield each


def route_findings(about: str, route: TopicRouteData) -> Iterator[Finding]:
    """Yield what a route lets clients do."""
    addresses = {data.broker_name: data.broker_addrs for data in route.broker_datas}
    reads = writes = 0
    for data in route.queue_datas:
        is_writable = data.perm & PERM_WRITE and MASTER_ID in addresses.get(data.broker_name, {})
        writes += data.write_queue_nums if is_writable else 0
        reads += data.read_queue_nums if data.perm & PERM_READ else 0
        if data.write_queue_nums > data.read_queue_nums:
            found = f"at {data.broker_name}, queues from {data.read_queue_nums} on are not read"
            remedy = "Give it as many read queues as write queues (wakelog admin updateTopic)"
            yield Finding(WARNING, about, found, remedy)
    for count, can in ((writes, "written"), (reads, "read")):
        if count:
            yield Finding(OK, about, f"{count} queues can be {can}")
        else:
            remedy = "Give it the permission (wakelog admin updateTopicPerm), or start its masters"
            yield Finding(PROBLEM, about, f"no queue can be {can}", remedy)


async def _group(admin: Admin, name: str, topic: str | None) -> AsyncIterator[Finding]:
    about = f"group {name}"
    try:
        group = GroupReading(await _configs(admin, name), clients=await clients_of(admin, name))
        clients = group.clients.connection_set if group.clients else []
        if not (group.configs or clients or (await progress(admin, name)).offset_table):
            found = "is not there: no broker knows it, and it has no client and no offset"
            yield Finding(PROBLEM, about, found, CHECK_GROUP)
            return
        for client in clients:
            try:
                info = await admin.running_info(name, client.client_id)
            except ClientError as error:
                cause = f"cannot be asked: {error.cause}"
                yield say("silent client", f"client {client.client_id}", cause=cause)
            else:
                group.members[client.client_id] = info
        group.progress = await progress(admin, name, topic)
        for each in diagnosis(name, group, round(time.time() * 1000), topic):
            yield each
        if group.progress.total_diff() and group.members:
            await asyncio.sleep(MOVES_SECONDS)
            after = await progress(admin, name, topic)
            for each in still_findings(about, group.progress, after, group.members):
                yield each
    except ClientError as error:
        yield _failed(about, error)


async def _configs(admin: Admin, group: str) -> list[SubscriptionGroupConfig]:
    tables = [await admin.groups(address) for address in await masters(admin)]
    return [table[group] for table in tables if group in table]


def still_findings(
    about: str,
    before: ConsumeStats,
    after: ConsumeStats,
    infos: Mapping[str, ConsumerRunningInfo],
) -> Iterator[Finding]:
    """Yield the queues that a client has and that grew, while their offset stayed."""
    for queue, place in sorted(after.offset_table.items()):
        then = before.offset_table.get(queue)
        if then is not None and then.consumer_offset == place.consumer_offset:
            grown = place.broker_offset - then.broker_offset
            elapsed_ms = round(MOVES_SECONDS * 1000)
            yield from unmoved_findings(
                about, queue, place.consumer_offset, grown, elapsed_ms, infos
            )
