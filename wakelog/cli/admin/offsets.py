"""Commands that move the offsets of a group."""

from collections.abc import AsyncIterator
from typing import Final

from wakelog.cli.admin.command import TOPIC, flag, mark, mqadmin
from wakelog.cli.admin.java_text import read_time
from wakelog.cli.output import Output, Table, Text
from wakelog.client.admin import Admin, addresses_by_broker
from wakelog.client.errors import ClientError
from wakelog.client.route import QueueAt
from wakelog.protocol.bodies import OffsetWrapper, ResetOffsetBody, TopicStatsTable
from wakelog.protocol.body_codec import MessageQueue, decode_response
from wakelog.protocol.codes import LanguageCode, ResponseCode
from wakelog.protocol.codes import RequestCode as Code

NOW: Final = -1
HEADS: Final = (
    "brokerName",
    "queueId",
    "brokerOffset",
    "consumerOffset",
    "timestampOffset",
    "rollbackOffset",
)


RESET_GROUP = flag("g", "group", "Name of the consumer group.")
FORCE = flag("f", "force", "false to move offsets back only.", True)


@mqadmin.command("resetOffsetByTime")
async def reset_by_time(
    admin: Admin,
    group: str = RESET_GROUP,
    topic: str = TOPIC,
    time: str = flag("s", "timestamp", "now, milliseconds, or yyyy-MM-dd#HH:mm:ss:SSS."),
    is_forced: bool = FORCE,
    is_cplus: bool = mark("c", "cplus", "The clients are written in C++."),
) -> AsyncIterator[Output]:
    """Reset a group to a time."""
    time_ms = read_time(time)
    language = LanguageCode.CPP if is_cplus else LanguageCode.JAVA
    name, table = await _reset(admin, group, topic, time_ms, is_forced, language)
    text = (
        f"rollback consumer offset by specified {name}[{group}], topic[{topic}], "
        f"force[{str(is_forced).lower()}], timestamp(string)[{time}], timestamp(long)[{time_ms}]"
    )
    yield Text(text, {"group": group, "topic": topic, "timestamp": time_ms})
    yield table


@mqadmin.command("skipAccumulatedMessage")
async def skip_accumulated(
    admin: Admin, group: str = RESET_GROUP, topic: str = TOPIC, is_forced: bool = FORCE
) -> AsyncIterator[Output]:
    """Reset a group to the ends of its queues."""
    _, table = await _reset(admin, group, topic, NOW, is_forced, LanguageCode.JAVA)
    yield table


async def _reset(
    admin: Admin, group: str, topic: str, time_ms: int, is_forced: bool, language: LanguageCode
) -> tuple[str, Table]:
    """Reset a group, by its clients if there are any, else at the brokers.

    Return what mqadmin calls it then, and the new offsets.
    """
    try:
        offsets = await reset_online(admin, group, topic, time_ms, is_forced, language)
    except ClientError as error:
        if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
            raise
        rows = await reset_offline(admin, group, topic, time_ms, is_forced)
        layout = "%-20s  %-20d  %-20d  %-20d  %-20d  %-20d"
        return "consumerGroup", Table(layout, HEADS, rows)
    moved = [(x.broker_name[:32], x.queue_id, offset) for x, offset in sorted(offsets.items())]
    heads = ("brokerName", "queueId", "offset")
    return "group", Table("%-40s  %-40d  %-40d", heads, moved)


async def reset_online(
    admin: Admin, group: str, topic: str, time_ms: int, is_forced: bool, language: LanguageCode
) -> dict[MessageQueue, int]:
    """Have the brokers notify the clients of the group. Raises: ClientError without clients.

    A broker finds any one of the messages of a millisecond. So it is asked for the millisecond
    before, which skips none of them.
    """
    asked_ms = time_ms - 1 if time_ms > 0 else time_ms
    fields = {"topic": topic, "group": group, "timestamp": asked_ms, "isForce": is_forced}
    found: dict[MessageQueue, int] = {}
    for address in await admin.brokers_of(topic):
        code = Code.INVOKE_BROKER_TO_RESET_OFFSET
        response = await admin.ask(address, code, fields, language=language)
        if response.body:
            found.update(decode_response(ResetOffsetBody, response.body).offset_table)
    return found


async def reset_offline(
    admin: Admin, group: str, topic: str, time_ms: int, is_forced: bool, *, commits: bool = True
) -> list[tuple[str | int, ...]]:
    """Commit the offsets in the place of the group; return a row for each queue.

    commits: False to compute the rows alone.
    """
    route = await admin.route(topic)
    counts = {data.broker_name: data.read_queue_nums for data in route.queue_datas}
    rows: list[tuple[str | int, ...]] = []
    for broker, address in addresses_by_broker(route).items():
        stats = await admin.consume_stats_at(address, group)
        table = {queue: x for queue, x in stats.offset_table.items() if queue.topic == topic}
        if not table:
            fields = {"topic": topic}
            ends = await admin.ask_for(TopicStatsTable, address, Code.GET_TOPIC_STATS_INFO, fields)
            for queue_id in range(counts.get(broker, 0)):
                queue = MessageQueue(topic, broker, queue_id)
                end = ends.offset_table[queue]
                table[queue] = OffsetWrapper(end.max_offset, end.min_offset)
        for queue, place in sorted(table.items()):
            at = QueueAt(queue.broker_name, topic, queue.queue_id, address)
            offset = await _offset_at(admin, at, time_ms)
            is_moved = is_forced or offset <= place.consumer_offset
            if is_moved and commits:
                await admin.calls.commit_offset(at, group, offset)
            now = offset if is_moved else place.consumer_offset
            name = queue.broker_name[:32]
            ends_of = place.broker_offset, place.consumer_offset
            rows.append((name, queue.queue_id, *ends_of, offset, now))
    return rows


async def _offset_at(admin: Admin, queue: QueueAt, time_ms: int) -> int:
    if time_ms == NOW:
        return await admin.calls.max_offset(queue)
    return await admin.calls.first_at(queue, time_ms)


@mqadmin.command("cloneGroupOffset")
async def clone(
    admin: Admin,
    source: str = flag("s", "srcGroup", "The group whose offsets are read."),
    target: str = flag("d", "destGroup", "The group that gets them."),
    topic: str = TOPIC,
    offline: str = flag("o", "offline", "Has no effect, as in mqadmin.", ""),
) -> AsyncIterator[Output]:
    """Commit the offsets of one group for another."""
    stats = await admin.consume_stats(source)
    addresses = addresses_by_broker(await admin.route(topic))
    for queue, place in sorted(stats.offset_table.items()):
        if place.consumer_offset >= 0 and queue.broker_name in addresses:
            address = addresses[queue.broker_name]
            at = QueueAt(queue.broker_name, queue.topic, queue.queue_id, address)
            await admin.calls.commit_offset(at, target, place.consumer_offset)
    text = f"clone group offset success. srcGroup[{source}], destGroup=[{target}], topic[{topic}]"
    yield Text(text, {"source": source, "target": target, "topic": topic})
