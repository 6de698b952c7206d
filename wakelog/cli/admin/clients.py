"""Commands about clients: who they are, what they do, and a monitor of all consumers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Final

from wakelog.cli.admin.command import GROUP, flag, mark, mqadmin
from wakelog.cli.admin.java_text import bean_text, bean_values, compact_time, queue_text, word
from wakelog.cli.output import Output, Table, Text
from wakelog.client.admin import Admin, records
from wakelog.client.clocks import wall_ms
from wakelog.client.errors import ClientError
from wakelog.client.route import QueueAt
from wakelog.protocol.bodies import (
    CONSUME_PASSIVELY,
    ConsumerRunningInfo,
    OffsetMovedEvent,
    OffsetWrapper,
    SubscriptionData,
    decode_body,
)
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.java import parse_boolean
from wakelog.protocol.names import OFFSET_MOVED_EVENT, RETRY_PREFIX
from wakelog.protocol.versions import version_name

ROUND_SECONDS: Final = 60
STARTED_MS_MIN: Final = 120_000
"""Before that the subscriptions of a group may differ: its clients are being replaced."""
BLOCKED_MS_MIN: Final = 60_000
EVENTS_MAX: Final = 32
MONITOR: Final = "[MONITOR] "
NOTIFY: Final = f"{MONITOR} [NOTIFY] reportConsumerRunningInfo: ConsumerGroup: "

# The fields of a ProcessQueueInfo as mqadmin writes them; a name with Timestamp is a time.
_PROCESS_FIELDS: Final = (
    "commitOffset", "cachedMsgMinOffset", "cachedMsgMaxOffset", "cachedMsgCount",
    "cachedMsgSizeInMiB", "transactionMsgMinOffset", "transactionMsgMaxOffset",
    "transactionMsgCount", "locked", "tryUnlockTimes", "lastLockTimestamp", "droped",
    "lastPullTimestamp", "lastConsumeTimestamp",
)  # fmt: skip
_FLAG_FIELDS: Final = ("locked", "droped")
_RATE_FIELDS: Final = ("pullRT", "pullTPS", "consumeRT", "consumeOKTPS", "consumeFailedTPS")


@mqadmin.command("consumerConnection")
async def consumer_connection(admin: Admin, group: str = GROUP) -> AsyncIterator[Output]:
    """Show the clients of a consumer group and its subscriptions."""
    found = await admin.consumers(group)
    clients = [
        (each.client_id, each.client_addr, each.language, version_name(each.version))
        for each in found.connection_set
    ]
    heads = ["ClientId", "ClientAddr", "Language", "Version"]
    yield Table("%-36s %-22s %-10s %s", heads, clients)
    yield Text("\nBelow is subscription:", {})
    topics = [(each.topic, each.sub_string) for each in found.subscription_table.values()]
    yield Table("%-20s %s", ["Topic", "SubExpression"], topics)
    kind = {
        "consumeType": found.consume_type,
        "messageModel": found.message_model,
        "consumeFromWhere": found.consume_from_where,
    }
    lines = [f"{name[0].upper()}{name[1:]}: {word(value)}" for name, value in kind.items()]
    yield Text("\n" + "\n".join(lines), kind)


@mqadmin.command("producerConnection")
async def producer_connection(
    admin: Admin,
    group: str = flag("g", "producerGroup", "Name of the producer group."),
    topic: str = flag("t", "topic", "A topic of its brokers."),
) -> AsyncIterator[Output]:
    """Show the clients of a producer group."""
    found = await admin.producers(group, topic)
    rows = [
        (number, each.client_id, each.client_addr, each.language, version_name(each.version))
        for number, each in enumerate(found.connection_set, 1)
    ]
    heads = ["Number", "ClientId", "ClientAddr", "Language", "Version"]
    yield Table("%04d  %-32s %-22s %-8s %s", heads, rows, shows_heads=False)


@mqadmin.command(
    "consumerStatus",
    differs="No file is written; mqadmin writes one for each client, here -i shows it.",
)
async def consumer_status(
    admin: Admin,
    group: str = GROUP,
    client_id: str | None = flag("i", "clientId", "Id of a client: show all that it says."),
    with_stacks: bool = mark("s", "jstack", "Ask the clients for their threads as well."),
) -> AsyncIterator[Output]:
    """Show what the clients of a group do, and what is wrong with them."""
    if client_id is not None:
        info = await admin.running_info(group, client_id, with_stacks=with_stacks)
        yield Text(running_text(info), {"clientId": client_id, **_running_values(info)})
        return
    found: dict[str, ConsumerRunningInfo] = {}
    for number, client in enumerate((await admin.consumers(group)).connection_set, 1):
        name = client.client_id
        found[name] = await admin.running_info(group, name, with_stacks=with_stacks)
        row = number, name, version_name(client.version)
        heads = ["Number", "ClientId", "Version"]
        yield Table("%03d  %-40s %-20s", heads, [row], shows_heads=False)
    now_ms = wall_ms()
    if not has_one_subscription(found, now_ms):
        text = "\n\nWARN: Different subscription in the same group of consumer!!!"
        yield Text(text, {"sameSubscription": False})
        return
    text = "\n\nSame subscription in the same group of consumer\n\nRebalance OK"
    yield Text(text, {"sameSubscription": True})
    for name, info in sorted(found.items()):
        for complaint in complaints_of(name, info, now_ms):
            yield Text(complaint, {"clientId": name, "complaint": complaint})


def _running_values(info: ConsumerRunningInfo) -> dict[str, object]:
    queues = [{**bean_values(queue), **each} for queue, each in sorted(info.mq_table.items())]
    topics = {each.topic: each.sub_string for each in info.subscription_set}
    found = {"properties": info.properties, "subscriptions": topics, "queues": queues}
    return {**found, "topics": info.status_table, "jstack": info.jstack}


def running_text(info: ConsumerRunningInfo) -> str:
    """Write what a client does as ConsumerRunningInfo's formatString."""
    queue_line = "{:<64}  {:<32}  {:<4}  {}"
    lines = ["#Consumer Properties#"]
    lines += [f"{name:<40}: {word(value)}" for name, value in info.properties.items()]
    lines += ["", "", "#Consumer Subscription#"]
    for number, each in enumerate(sorted(info.subscription_set, key=_subscription_name), 1):
        mode = word(each.class_filter_mode)
        lines.append(
            f"{number:03d} Topic: {each.topic:<40} ClassFilter: {mode:<8} "
            f"SubExpression: {each.sub_string}"
        )
    lines += ["", "", "#Consumer Offset#"]
    lines.append(queue_line.format("#Topic", "#Broker Name", "#QID", "#Consumer Offset"))
    queues = sorted(info.mq_table.items())
    for queue, process in queues:
        names = queue.topic, queue.broker_name, queue.queue_id
        lines.append(queue_line.format(*names, process.get("commitOffset", 0)))
    lines += ["", "", "#Consumer MQ Detail#"]
    lines.append(queue_line.format("#Topic", "#Broker Name", "#QID", "#ProcessQueueInfo"))
    for queue, process in queues:
        names = queue.topic, queue.broker_name, queue.queue_id
        values = {name: _process_value(process, name) for name in _PROCESS_FIELDS}
        lines.append(queue_line.format(*names, bean_text("ProcessQueueInfo", values)))
    lines += ["", "", "#Consumer RT&TPS#"]
    heads = ("#Pull RT", "#Pull TPS", "#Consume RT", "#ConsumeOK TPS")
    texts = " ".join(f"{head:>14}" for head in heads)
    lines.append(f"{'#Topic':<64}  {texts} {'#ConsumeFailed TPS':>18} #ConsumeFailedMsgsInHour")
    for topic, status in sorted(info.status_table.items()):
        *rates, failed = (f"{status.get(name, 0.0):.2f}" for name in _RATE_FIELDS)
        texts = " ".join(f"{rate:>14}" for rate in rates)
        count = int(status.get("consumeFailedMsgs", 0))
        lines.append(f"{topic:<64}  {texts} {failed:>18} {count:>25}")
    if info.jstack is not None:
        lines += ["", "", "#Consumer jstack#", info.jstack]
    return "\n".join(lines)


def _process_value(process: Mapping[str, bool | int], name: str) -> object:
    value = process.get(name, False if name in _FLAG_FIELDS else 0)
    return compact_time(value) if name.endswith("Timestamp") else value


def _subscription_name(each: SubscriptionData) -> str:
    return f"{each.topic}@{each.sub_string}"


def _is_pushed(info: ConsumerRunningInfo) -> bool:
    return info.properties.get("PROP_CONSUME_TYPE") == CONSUME_PASSIVELY


def has_one_subscription(clients: Mapping[str, ConsumerRunningInfo], now_ms: int) -> bool:
    """Return whether all clients of a group subscribe to the same; young groups count as such."""
    infos = [info for _, info in sorted(clients.items())]
    if not infos or not _is_pushed(infos[0]):
        return True
    started_ms = int(infos[0].properties.get("PROP_CONSUMER_START_TIMESTAMP", now_ms))
    if now_ms - started_ms <= STARTED_MS_MIN:
        return True
    names = {frozenset(map(_subscription_name, info.subscription_set)) for info in infos}
    return len(names) == 1 and names != {frozenset()}


def complaints_of(name: str, info: ConsumerRunningInfo, now_ms: int) -> Iterator[str]:
    """Yield a line for each queue that a client does not lock or does not consume."""
    if not _is_pushed(info):
        return
    is_ordered = parse_boolean(info.properties.get("PROP_CONSUMEORDERLY"))
    for queue, process in sorted(info.mq_table.items()):
        place = f"{name} {queue_text(queue.topic, queue.broker_name, queue.queue_id)}"
        idle_ms = now_ms - process.get("lastConsumeTimestamp", 0)
        if not is_ordered:
            if idle_ms > BLOCKED_MS_MIN and process.get("cachedMsgCount", 0) > 0:
                yield f"{place} can't consume for a while, maybe blocked, {idle_ms}ms"
        elif not process.get("locked"):
            waited_ms = now_ms - process.get("lastLockTimestamp", 0)
            yield f"{place} can't lock for a while, {waited_ms}ms"
        elif process.get("droped") and (times := process.get("tryUnlockTimes", 0)) > 0:
            yield f"{place} unlock {times} times, still failed"


class Monitor:
    """What is wrong with consumers, round by round."""

    def __init__(self, admin: Admin) -> None:
        """Ask nothing yet."""
        self._admin = admin
        self._moved_offsets: dict[QueueAt, int] | None = None

    async def round(self) -> AsyncIterator[Output]:
        """Look at every group once. Raises: ClientError without a name server."""
        yield Text(f"{MONITOR}{'=' * 41}beginRound", {"event": "beginRound"})
        for topic in sorted(await self._admin.routes.topics()):
            if topic.startswith(RETRY_PREFIX):
                async for output in self._group(topic.removeprefix(RETRY_PREFIX)):
                    yield output
        async for output in self._moved_events():
            yield output
        yield Text(f"{MONITOR}{'=' * 41}endRound", {"event": "endRound"})

    async def _group(self, group: str) -> AsyncIterator[Output]:
        """Report what a group with clients has not consumed, and what its clients say."""
        try:
            clients = (await self._admin.consumers(group)).connection_set
        except ClientError:
            return  # as in mqadmin: of a group without clients nothing is said
        async for output in self._lags(group):
            yield output
        found: dict[str, ConsumerRunningInfo] = {}
        for name in (client.client_id for client in clients):
            with contextlib.suppress(ClientError):
                found[name] = await self._admin.running_info(group, name)
        now_ms = wall_ms()
        if not has_one_subscription(found, now_ms):
            text = f"{NOTIFY}{group}, Subscription different"
            yield Text(text, {"event": "subscriptionDifferent", "consumerGroup": group})
        for name, info in sorted(found.items()):
            for complaint in complaints_of(name, info, now_ms):
                text = f"{NOTIFY}{group}, ClientId: {name}, {complaint}"
                value = {"consumerGroup": group, "clientId": name, "complaint": complaint}
                yield Text(text, {"event": "clientComplaint", **value})

    async def _lags(self, group: str) -> AsyncIterator[Output]:
        """Report by topic what a group has not consumed."""
        try:
            stats = await self._admin.consume_stats(group)
        except ClientError:
            return
        by_topic: dict[str, dict[MessageQueue, OffsetWrapper]] = {}
        for queue, place in sorted(stats.offset_table.items()):
            by_topic.setdefault(queue.topic, {})[queue] = place
        for topic, places in by_topic.items():
            undone = await self._undone(group, topic, places)
            text = f"{MONITOR}reportUndoneMsgs: {bean_text('UndoneMsgs', undone)}"
            yield Text(text, {"event": "undoneMsgs", **undone})

    async def _undone(
        self, group: str, topic: str, places: Mapping[MessageQueue, OffsetWrapper]
    ) -> dict[str, object]:
        lags = [place.broker_offset - place.consumer_offset for place in places.values()]
        delays_ms = [await self._delay(queue, place) for queue, place in places.items()]
        return {
            "consumerGroup": group,
            "topic": topic,
            "undoneMsgsTotal": sum(max(lag, 0) for lag in lags),
            "undoneMsgsSingleMQ": max(0, *lags),
            "undoneMsgsDelayTimeMills": max(0, *delays_ms),
        }

    async def _delay(self, queue: MessageQueue, place: OffsetWrapper) -> int:
        """Return how much later than the consumed message the last one was stored."""
        if place.last_timestamp <= 0:
            return 0
        try:
            at = await self._admin.queue_at(queue)
            end = await self._admin.calls.max_offset(at)
            pulled = await self._admin.calls.pull(at, end - 1, 1)
        except ClientError:
            return 0
        last = next(records(pulled.body), None)
        return 0 if last is None else last.store_timestamp_ms - place.last_timestamp

    async def _moved_events(self) -> AsyncIterator[Output]:
        """Report pulls from messages that were removed, as far as they are new."""
        queues = await self._admin.routes.readable(OFFSET_MOVED_EVENT) or ()
        calls = self._admin.calls
        if self._moved_offsets is None:
            self._moved_offsets = {queue: await calls.max_offset(queue) for queue in queues}
        for queue in queues:
            offset = self._moved_offsets.setdefault(queue, 0)
            pulled = await calls.pull(queue, offset, EVENTS_MAX)
            self._moved_offsets[queue] = pulled.next_offset
            for record in records(pulled.body):
                moved = bean_values(decode_body(OffsetMovedEvent, record.body))
                at = moved["messageQueue"]
                moved["messageQueue"] = queue_text(at.topic, at.broker_name, at.queue_id)
                value = {
                    "offsetMovedEvent": bean_text("OffsetMovedEvent", moved),
                    "eventTimestamp": record.store_timestamp_ms,
                }
                text = f"{MONITOR}reportDeleteMsgsEvent: {bean_text('DeleteMsgsEvent', value)}"
                value = {"event": "deleteMsgs", **moved, "eventTimestamp": value["eventTimestamp"]}
                yield Text(text, value)


@mqadmin.command(
    "startMonitoring",
    differs="Reports are shown, at once; mqadmin waits for 20 s and writes them to its log.",
)
async def start_monitoring(admin: Admin) -> AsyncIterator[Output]:
    """Show once a minute what is wrong with consumers, until it is interrupted."""
    monitor, is_first = Monitor(admin), True
    while True:
        try:
            async for output in monitor.round():
                yield output
        except ClientError as error:
            if is_first:  # a name server that is away ends no later round
                raise
            yield Text(f"{MONITOR}{error}", {"event": "roundFailed", "cause": error.cause})
        is_first = False
        await asyncio.sleep(ROUND_SECONDS)
