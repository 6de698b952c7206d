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
import ipaddress
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from wakelog.actors.errors import DeploymentFailed
from wakelog.broker.trouble import NOTICE_PREFIX, read_troubles
from wakelog.cli.admin.clients import complaints_of
from wakelog.cli.admin.command import Output
from wakelog.cli.cluster.groups import clients_of, masters, progress
from wakelog.cli.cluster.output import Moment
from wakelog.cli.cluster.status import version_text
from wakelog.cli.failures import with_options
from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError
from wakelog.client.route import MASTER_ID, NO_NAME_SERVER
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
from wakelog.protocol.names import AUTO_CREATE_TOPIC, RETRY_PREFIX
from wakelog.protocol.sys_flag import PERM_READ, PERM_WRITE

OK, WARNING, PROBLEM = "ok", "warning", "problem"

DISK_WARNING_RATIO: Final = 0.75
"""diskMaxUsedSpaceRatio: from here on old segments are deleted at any hour."""
DISK_PROBLEM_RATIO: Final = 0.90
"""diskSpaceWarningLevelRatio: from here on sends are refused."""
SEND_WAIT_MS_MAX: Final = 200
"""waitTimeMillsInSendQueue: sends that wait longer are refused."""
BEHIND_BYTES_MAX: Final = 64 << 20
"""What is stored and not yet in the queues, so that no consumer sees it."""
OLD_MS_MIN: Final = 600_000
"""How long ago the last consumed message was stored, with others waiting."""
MOVES_SECONDS: Final = 6.0
"""Within which a client that consumes commits (persistConsumerOffsetInterval is 5 s)."""
HELD_MS_MIN: Final = 60_000
"""How long ago a client with messages took the last one, as for `consumerStatus` of mqadmin."""
SEE_CLIENT: Final = (
    "Look at what its listener waits for (wakelog admin consumerStatus --jstack), or start it again"
)
CHECK_GROUP: Final = "Check its name (wakelog groups), or create it (wakelog admin updateSubGroup)"


class Finding(NamedTuple):
    """What was looked at, and what is so; a problem or a warning has a remedy."""

    verdict: str
    about: str
    found: str
    remedy: str = ""

    def lines(self) -> Iterator[str]:
        """Yield the finding, and below it the remedy."""
        yield f"{self.verdict:8} {self.about}: {self.found}"
        if self.remedy:
            yield f"{'':8} -> {self.remedy}"

    def values(self) -> Iterator[dict[str, Any]]:
        """Yield the parts."""
        yield self._asdict()


async def doctor(admin: Admin, topic: str | None, group: str | None) -> AsyncIterator[Output]:
    """Yield the findings. Raises: DeploymentFailed at the end if there is a problem."""
    verdicts: Counter[str] = Counter()
    async for finding in _findings(admin, topic, group):
        verdicts[finding.verdict] += 1
        yield finding._replace(remedy=with_options(finding.remedy))
    if verdicts[PROBLEM]:
        noun = "problem" if verdicts[PROBLEM] == 1 else "problems"
        raise DeploymentFailed(f"{verdicts[PROBLEM]} {noun} found", "See what stands with each.")


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
        remedy = "Start a broker with this name server (namesrvAddr), or wait 30 s for it"
        yield Finding(PROBLEM, "brokers", "none has registered", remedy)
    for name, data in sorted(info.broker_addr_table.items()):
        for finding in address_findings(name, data.broker_addrs, name_server):
            yield finding
        for broker_id, address in sorted(data.broker_addrs.items()):
            async for finding in _broker(
                admin, f"broker {name} ({broker_id}) at {address}", address
            ):
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


def address_findings(
    name: str, addresses: Mapping[int, str], name_server: str
) -> Iterator[Finding]:
    """Yield what is wrong with the addresses that a broker gives to clients."""
    remedy = "Start the broker with --advertise IP (brokerIP1), an address that clients reach"
    for address in addresses.values():
        host = address.rpartition(":")[0]
        if _is(host, "is_unspecified"):
            yield Finding(PROBLEM, f"broker {name}", f"advertises {address}, no address", remedy)
        elif _is(host, "is_loopback") and not _is_here(name_server):
            found = f"advertises {address}, which is this host and not the broker's"
            yield Finding(PROBLEM, f"broker {name}", found, remedy)
    if MASTER_ID not in addresses:
        found = "has no master now: nothing can be sent to it"
        yield Finding(WARNING, f"broker {name}", found, "Start its master (brokerId=0)")


def _is(host: str, kind: str) -> bool:
    try:
        return bool(getattr(ipaddress.ip_address(host.strip("[]")), kind))
    except ValueError:
        return False


def _is_here(address: str) -> bool:
    host = address.rpartition(":")[0]
    return host == "localhost" or _is(host, "is_loopback")


async def _broker(admin: Admin, about: str, address: str) -> AsyncIterator[Finding]:
    try:
        values = await admin.runtime_info(address)
    except ClientError as error:
        remedy = error.remedy
        if error.code is None:
            remedy += "; --advertise IP (brokerIP1) of the broker says which address clients get"
        yield Finding(PROBLEM, about, error.cause, remedy)
        return
    yield Finding(OK, about, f"answers, version {version_text(values) or 'unknown'}")
    for each in load_findings(about, values):
        yield each


def load_findings(about: str, values: Mapping[str, str]) -> Iterator[Finding]:
    """Yield what a broker's runtime values say about services, disk and load."""
    for part, trouble in read_troubles(values):
        found = f"{part} does not work: {trouble.reason}"
        yield Finding(PROBLEM, about, found, trouble.remedy.removesuffix("."))
    for file, notice in read_troubles(values, NOTICE_PREFIX):
        yield Finding(WARNING, f"{about} {file}", notice.reason, notice.remedy.removesuffix("."))
    ratio = _number(values, "commitLogDiskRatio")
    if ratio >= DISK_WARNING_RATIO:
        is_full = ratio >= DISK_PROBLEM_RATIO
        effect = "brokers refuse sends" if is_full else "they delete old messages at any hour"
        remedy = "Free space on the disk of its store, or lower fileReservedTime"
        verdict = PROBLEM if is_full else WARNING
        from_ratio = DISK_PROBLEM_RATIO if is_full else DISK_WARNING_RATIO
        yield Finding(
            verdict,
            about,
            f"its disk is {ratio:.0%} full: from {from_ratio:.0%} on {effect}",
            remedy,
        )
    waits_ms = _number(values, "sendThreadPoolQueueHeadWaitTimeMills")
    if waits_ms > SEND_WAIT_MS_MAX:
        found = f"sends wait {waits_ms:.0f} ms and are refused as too old"
        yield Finding(PROBLEM, about, found, "Look at its disk and CPU, or spread the topic")
    behind_bytes = _number(values, "dispatchBehindBytes")
    if behind_bytes > BEHIND_BYTES_MAX:
        found = f"{behind_bytes / (1 << 20):,.0f} MiB are stored that no consumer sees yet"
        yield Finding(WARNING, about, found, "Wait, and look at its log and disk")


def _number(values: Mapping[str, str], name: str) -> float:
    try:
        return float(values.get(name) or 0)
    except ValueError:
        return 0.0


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
        for each in setting_findings(about, configs):
            yield each
        if not clients:
            remedy = "Start a consumer; if one runs, check its group's name and its name servers"
            yield Finding(PROBLEM, about, "no client is online", remedy)
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


def setting_findings(about: str, configs: Sequence[SubscriptionGroupConfig]) -> Iterator[Finding]:
    """Yield what the settings of a group forbid. configs: of the brokers that know it."""
    if not configs:
        yield Finding(WARNING, about, "no broker knows it", CHECK_GROUP)
    if any(not each.consume_enable for each in configs):
        remedy = "Allow it: wakelog admin updateSubGroup -s true"
        yield Finding(PROBLEM, about, "may not consume (consumeEnable=false)", remedy)


def client_findings(
    about: str, infos: Mapping[str, ConsumerRunningInfo], topic: str | None, now_ms: int
) -> Iterator[Finding]:
    """Yield what the clients of a group say: subscriptions that differ, queues that are stuck."""
    subscribed = {
        name: {
            (x.topic, x.sub_string)
            for x in info.subscription_set
            if not x.topic.startswith(RETRY_PREFIX)
        }
        for name, info in infos.items()
    }
    if len({frozenset(each) for each in subscribed.values()}) > 1:
        texts = {
            name: ", ".join(f"{x}@{y}" for x, y in sorted(each)) or "nothing"
            for name, each in sorted(subscribed.items())
        }
        found = "; ".join(f"{name} subscribes to {text}" for name, text in texts.items())
        remedy = "Let all clients of a group subscribe to the same topics and tags: each takes "
        remedy += "messages away from the others"
        yield Finding(PROBLEM, about, f"subscriptions differ: {found}", remedy)
    elif infos:
        text = f"{len(infos)} clients subscribe alike" if len(infos) > 1 else "1 client subscribes"
        yield Finding(OK, about, text)
    if topic and infos and not any(x == topic for each in subscribed.values() for x, _ in each):
        yield Finding(PROBLEM, about, f"no client subscribes to {topic}", "Subscribe to it")
    for name, info in sorted(infos.items()):
        for complaint in (*complaints_of(name, info, now_ms), *_held(name, info, now_ms)):
            yield Finding(PROBLEM, about, complaint, SEE_CLIENT)


def _held(name: str, info: ConsumerRunningInfo, now_ms: int) -> Iterator[str]:
    """Yield a line for each queue that a client has locked and does not consume."""
    for queue, process in sorted(info.mq_table.items()):
        taken_ms, count = process.get("lastConsumeTimestamp", 0), process.get("cachedMsgCount", 0)
        if process.get("locked") and count and 0 < taken_ms < now_ms - HELD_MS_MIN:
            yield (
                f"{name} holds the lock of {_queue_text(queue)}, and has consumed nothing of its "
                f"{count:,} messages for {(now_ms - taken_ms) // 1000:,} s"
            )


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
        name = _queue_text(queue)
        if behind > 0 and infos and queue not in owned:
            found = f"{name} lags by {behind:,} and no client has it"
            remedy = "Wait for a rebalance (20 s); then check that no client subscribes otherwise"
            yield Finding(PROBLEM, about, found, remedy)
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
        owners = [name for name, info in sorted(infos.items()) if queue in info.mq_table]
        if then is None or not owners or then.consumer_offset != place.consumer_offset:
            continue
        if grown := place.broker_offset - then.broker_offset:
            found = f"{_queue_text(queue)} got {grown:,} messages in {MOVES_SECONDS:.0f} s, and "
            found += f"{owners[0]}, which has it, stayed at offset {place.consumer_offset:,}"
            yield Finding(WARNING, about, found, SEE_CLIENT)


def _queue_text(queue: MessageQueue) -> str:
    return f"queue {queue.queue_id} of {queue.topic} at {queue.broker_name}"
