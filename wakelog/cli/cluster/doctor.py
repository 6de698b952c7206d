"""`wakelog doctor`: why a client here cannot reach, write or consume.

It asks as a client would, from the host of the client, and changes nothing. Each thing that is
looked at gives a finding. Looking goes on after a problem, as far as the answers allow.

    name servers   each answers, and all know the same brokers
    brokers        the advertised address is one for this host; it answers; there is a master
    services       each does its work, or says why not
    load and disk  the disk has room, sends do not wait, the queues follow the log
    what waits     with a group: delayed and half messages come in time
    a topic        it has a route, with permissions and queues
    a group        it may consume; its clients subscribe alike; every queue has one that goes on

A group that lags is looked at twice, `MOVES_SECONDS` apart: clients commit every five seconds.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Final

from wakelog.broker.health_values import SENDS_VALUE
from wakelog.cli.cluster.findings import shown
from wakelog.cli.cluster.groups import clients_of, progress
from wakelog.cli.output import Output
from wakelog.client.admin import Admin
from wakelog.client.clocks import wall_ms
from wakelog.client.errors import ClientError
from wakelog.client.route import MASTER_ID
from wakelog.console.cluster_reading import ClusterReading, GroupReading, read_cluster
from wakelog.console.findings import (
    MOVES_MS,
    SERVER_RULE_CHECKS,
    bounded,
    group_findings,
    letter_findings,
    wrong,
)
from wakelog.console.history import History
from wakelog.console.rules import CHECK_GROUP, OK, PROBLEM, WARNING, Finding, say
from wakelog.console.subjects import broker_text
from wakelog.console.views.brokers import version_text
from wakelog.console.views.groups import answer
from wakelog.console.waiting_findings import waiting_findings
from wakelog.protocol.bodies import TopicRouteData
from wakelog.protocol.names import AUTO_CREATE_TOPIC
from wakelog.protocol.sys_flag import PERM_READ, PERM_WRITE

MOVES_SECONDS: Final = MOVES_MS / 1000
"""Within which a client that consumes commits (persistConsumerOffsetInterval is 5 s)."""


async def doctor(admin: Admin, topic: str | None, group: str | None) -> AsyncIterator[Output]:
    """Yield the findings. Raises: CommandFailed at the end if there is a problem."""
    async for finding in shown(_findings(admin, topic, group)):
        yield finding


async def _findings(admin: Admin, topic: str | None, group: str | None) -> AsyncIterator[Finding]:
    history = History()
    history.add(await read_cluster(admin, wall_ms(), with_groups=group is not None))
    cluster = history.latest
    for each in answers(cluster):
        yield each
    for each in bounded(wrong(history, (*SERVER_RULE_CHECKS, waiting_findings))):
        yield each
    if cluster.failure is not None:
        return
    if topic is not None:
        async for each in _topic(admin, topic):
            yield each
    if group is not None:
        async for each in _group(admin, group, topic, cluster):
            yield each


def answers(cluster: ClusterReading) -> Iterator[Finding]:
    """Yield the servers that answer."""
    for server in cluster.name_servers:
        if server.failure is None:
            names = ", ".join(sorted(server.info.broker_addr_table)) or "no broker"
            found = f"answers in {server.took_ms:.0f} ms, knows {names}"
            yield Finding(OK, f"name server {server.address}", found)
    for broker in cluster.brokers:
        if broker.failure is None:
            version = version_text(broker.values) or "unknown"
            yield Finding(OK, broker_text(broker), f"answers, version {version}")
            if sends := broker.values.get(SENDS_VALUE):
                yield Finding(OK, broker_text(broker), f"sends run as {sends}")


def _failed(about: str, error: ClientError) -> Finding:
    return Finding(PROBLEM, about, error.cause, error.remedy)


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


async def _group(
    admin: Admin, group: str, topic: str | None, cluster: ClusterReading
) -> AsyncIterator[Finding]:
    """Yield what is wrong with a group, and what is fine. cluster: with groups."""
    about, history = f"group {group}", History()
    try:
        reading = await _reading(admin, group, topic, cluster)
        if not is_known(reading):
            found = "is not there: no broker knows it, and it has no client and no offset"
            yield Finding(PROBLEM, about, found, CHECK_GROUP)
            return
        async for each in _ask_members(admin, group, reading):
            yield each
        history.add(cluster)
        if reading.progress.total_diff() > 0 and reading.members:
            await asyncio.sleep(MOVES_SECONDS)
            later = await read_cluster(admin, wall_ms())
            reading_then = await _reading(admin, group, topic, later)
            reading_then.members = reading.members | reading_then.members
            history.add(later)
        hour = wrong(history, (group_findings, letter_findings))
        for each in answer(group, reading, hour, history.latest.taken_ms, topic):
            yield each
    except ClientError as error:
        yield _failed(about, error)


async def _reading(
    admin: Admin, group: str, topic: str | None, cluster: ClusterReading
) -> GroupReading:
    """Return a group, with its progress in a topic also if it has not committed there.

    Raises: ClientError.
    """
    reading = cluster.groups.setdefault(group, GroupReading())
    if not reading.configs:
        reading.clients = await clients_of(admin, group)
    reading.progress = await progress(admin, group)
    if topic is not None and is_known(reading):
        of_topic = await progress(admin, group, topic)
        reading.progress.offset_table.update(of_topic.offset_table)
    return reading


async def _ask_members(admin: Admin, group: str, reading: GroupReading) -> AsyncIterator[Finding]:
    """Have every member say what it does, and yield those that do not."""
    for client in reading.clients.connection_set if reading.clients else ():
        try:
            info = await admin.running_info(group, client.client_id)
        except ClientError as error:
            cause = f"cannot be asked: {error.cause}"
            yield say("silent client", f"client {client.client_id}", cause=cause)
        else:
            reading.members[client.client_id] = info


def is_known(group: GroupReading) -> bool:
    """Return whether anything of a group is there."""
    is_online = group.clients is not None and group.clients.connection_set
    return bool(group.configs or is_online or group.progress.offset_table)
