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

from wakelog.cli.admin.clients import complaints_of
from wakelog.cli.admin.command import Output
from wakelog.cli.cluster.findings import shown
from wakelog.cli.cluster.groups import clients_of, masters, progress
from wakelog.cli.cluster.output import Moment
from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError
from wakelog.client.route import MASTER_ID, NO_NAME_SERVER
from wakelog.console.findings import (
    MOVES_MS,
    OLD_MS_MIN,
    address_findings,
    broker_text,
    load_findings,
    member_findings,
    queue_text,
    setting_findings,
    subscriptions_of,
    unanswered,
    unmoved_findings,
)
from wakelog.console.rules import OK, PROBLEM, SEE_CLIENT, WARNING, Finding, say
from wakelog.console.snapshot import BrokerReading
from wakelog.console.views.brokers import version_text
from wakelog.protocol.bodies import (
    ClusterInfo,
    ConsumerRunningInfo,
    ConsumeStats,
    SubscriptionGroupConfig,
    TopicRouteData,
)
from wakelog.protocol.body_codec import MessageQueue, decode_response
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.names import AUTO_CREATE_TOPIC
from wakelog.protocol.sys_flag import PERM_READ, PERM_WRITE

MOVES_SECONDS: Final = MOVES_MS / 1000
"""Within which a client that consumes commits (persistConsumerOffsetInterval is 5 s)."""
CHECK_GROUP: Final = "Check its name (wakelog groups), or create it (wakelog admin updateSubGroup)"


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


async def _group(admin: Admin, group: str, topic: str | None) -> AsyncIterator[Finding]:
    about = f"group {group}"
    try:
        clients = (await clients_of(admin, group)).connection_set
        configs = await _configs(admin, group)
        if not (configs or clients or (await progress(admin, group)).offset_table):
            found = "is not there: no broker knows it, and it has no client and no offset"
            yield Finding(PROBLEM, about, found, CHECK_GROUP)
            return
        if not configs:
            yield Finding(WARNING, about, "no broker knows it", CHECK_GROUP)
        for each in setting_findings(about, configs):
            yield each
        if not clients:
            yield say("no client", about, waiting="")
        infos: dict[str, ConsumerRunningInfo] = {}
        for client in clients:
            try:
                infos[client.client_id] = await admin.running_info(group, client.client_id)
            except ClientError as error:
                found = f"cannot be asked: {error.cause}"
                remedy = "Some clients answer no questions; look at its own log"
                yield Finding(WARNING, f"client {client.client_id}", found, remedy)
        for each in client_findings(about, infos, topic, round(time.time() * 1000)):
            yield each
        async for each in _queues(admin, about, group, topic, infos):
            yield each
    except ClientError as error:
        yield _failed(about, error)


async def _configs(admin: Admin, group: str) -> list[SubscriptionGroupConfig]:
    tables = [await admin.groups(address) for address in await masters(admin)]
    return [table[group] for table in tables if group in table]


def client_findings(
    about: str, infos: Mapping[str, ConsumerRunningInfo], topic: str | None, now_ms: int
) -> Iterator[Finding]:
    """Yield what the clients of a group say: subscriptions that differ, queues that are stuck."""
    subscribed = subscriptions_of(infos)
    if infos and len(set(subscribed.values())) == 1:
        text = f"{len(infos)} clients subscribe alike" if len(infos) > 1 else "1 client subscribes"
        yield Finding(OK, about, text)
    if topic and infos and not any(x == topic for each in subscribed.values() for x, _ in each):
        yield Finding(PROBLEM, about, f"no client subscribes to {topic}", "Subscribe to it")
    yield from member_findings(about, infos, now_ms)
    for name, info in sorted(infos.items()):
        for complaint in complaints_of(name, info, now_ms):
            yield Finding(PROBLEM, about, complaint, SEE_CLIENT)


async def _queues(
    admin: Admin,
    about: str,
    group: str,
    topic: str | None,
    infos: Mapping[str, ConsumerRunningInfo],
) -> AsyncIterator[Finding]:
    stats = await progress(admin, group, topic)
    owned: set[MessageQueue] = set().union(*(info.mq_table for info in infos.values()))
    now_ms = round(time.time() * 1000)
    lag = 0
    for queue, place in sorted(stats.offset_table.items()):
        behind = place.broker_offset - place.consumer_offset
        lag += behind
        name = queue_text(queue)
        if behind > 0 and infos and queue not in owned:
            yield say("queue without client", about, queue=name, lag=behind)
        elif behind > 0 and 0 < place.last_timestamp < now_ms - OLD_MS_MIN:
            found = f"{name} lags by {behind:,}, at a message of {Moment(place.last_timestamp)}"
            remedy = "Look at what consumes it; add consumers, or skip (wakelog reset)"
            yield Finding(WARNING, about, found, remedy)
    yield Finding(OK, about, f"lags by {lag:,}")
    if lag and infos:
        await asyncio.sleep(MOVES_SECONDS)
        for each in still_findings(about, stats, await progress(admin, group, topic), infos):
            yield each


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
