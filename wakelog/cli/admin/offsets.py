"""Commands that move the offsets of a group."""

from collections.abc import AsyncIterator
from typing import Final

from wakelog.cli.admin.command import TOPIC, Command, Flags, Output, Table, Text, may, need, switch
from wakelog.cli.admin.java_text import read_time
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


async def reset_by_time(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Reset a group to a time: by its clients if there are any, else at the brokers."""
    time_ms = read_time(flags["s"])
    async for output in _reset(admin, flags, time_ms, shows_time=True):
        yield output


async def skip_accumulated(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Reset a group to the ends of its queues."""
    async for output in _reset(admin, flags, NOW, shows_time=False):
        yield output


async def _reset(
    admin: Admin, flags: Flags, time_ms: int, *, shows_time: bool
) -> AsyncIterator[Output]:
    group, topic, is_forced = flags["g"], flags["t"], flags.truth("f", default=True)
    language = LanguageCode.CPP if "c" in flags else LanguageCode.JAVA
    try:
        offsets = await reset_online(admin, group, topic, time_ms, is_forced, language)
        name = "group"
        table = Table(
            "%-40s  %-40d  %-40d",
            ("brokerName", "queueId", "offset"),
            [(x.broker_name[:32], x.queue_id, offset) for x, offset in sorted(offsets.items())],
        )
    except ClientError as error:
        if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
            raise
        rows = await reset_offline(admin, group, topic, time_ms, is_forced)
        name = "consumerGroup"
        table = Table("%-20s  %-20d  %-20d  %-20d  %-20d  %-20d", HEADS, rows)
    if shows_time:
        force = str(is_forced).lower()
        text = (
            f"rollback consumer offset by specified {name}[{group}], topic[{topic}], "
            f"force[{force}], timestamp(string)[{flags['s']}], timestamp(long)[{time_ms}]"
        )
        yield Text(text, {"group": group, "topic": topic, "timestamp": time_ms})
    yield table


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


async def clone(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Commit the offsets of one group for another."""
    source, target, topic = flags["s"], flags["d"], flags["t"]
    stats = await admin.consume_stats(source)
    addresses = addresses_by_broker(await admin.route(topic))
    for queue, place in sorted(stats.offset_table.items()):
        if place.consumer_offset >= 0 and queue.broker_name in addresses:
            address = addresses[queue.broker_name]
            at = QueueAt(queue.broker_name, queue.topic, queue.queue_id, address)
            await admin.calls.commit_offset(at, target, place.consumer_offset)
    text = f"clone group offset success. srcGroup[{source}], destGroup=[{target}], topic[{topic}]"
    yield Text(text, {"source": source, "target": target, "topic": topic})


RESET_GROUP: Final = need("g", "group", "Name of the consumer group.")
FORCE: Final = may("f", "force", "false to move offsets back only.  [default: true]")

COMMANDS: Final = (
    Command(
        "resetOffsetByTime",
        "Reset a group to a time.",
        reset_by_time,
        (
            RESET_GROUP,
            TOPIC,
            need("s", "timestamp", "now, milliseconds, or yyyy-MM-dd#HH:mm:ss:SSS."),
            FORCE,
            switch("c", "cplus", "The clients are written in C++."),
        ),
    ),
    Command(
        "skipAccumulatedMessage",
        "Reset a group to the ends of its queues.",
        skip_accumulated,
        (RESET_GROUP, TOPIC, FORCE),
    ),
    Command(
        "cloneGroupOffset",
        "Commit the offsets of one group for another.",
        clone,
        (
            need("s", "srcGroup", "The group whose offsets are read."),
            need("d", "destGroup", "The group that gets them."),
            TOPIC,
            may("o", "offline", "Has no effect, as in mqadmin."),
        ),
    ),
)
