"""`wakelog topics`: the topics of a cluster, or the queues of one."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, Final

from wakelog.cli.admin.java_text import permission_text
from wakelog.cli.cluster.output import Columns, Moment
from wakelog.cli.output import Output
from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError
from wakelog.protocol.bodies import TopicList
from wakelog.protocol.body_codec import decode_response
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.names import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_TOPIC_PREFIX, reply_topic
from wakelog.protocol.sys_flag import PERM_INHERIT

AT_ONCE_MAX: Final = 64
"""Topics that are asked for at a time."""

NO_TOPICS: Final = "no topics; --all shows those of RocketMQ itself"


async def topics(admin: Admin, *, shows_all: bool) -> AsyncIterator[Output]:
    """Yield one row for each topic."""
    names = await admin.routes.topics()
    if not shows_all:
        names -= await _own_topics(admin)
    wanted, rows = sorted(names), []
    for begin in range(0, len(wanted), AT_ONCE_MAX):
        asked = (_row(admin, name) for name in wanted[begin : begin + AT_ONCE_MAX])
        rows += [row for row in await asyncio.gather(*asked) if row is not None]
    if not shows_all:
        left_over = set(_left_over(rows))
        rows = [row for row in rows if row[0] not in left_over]
    heads = ("topic", "brokers", "queues", "perm", "messages", "last stored")
    yield Columns(heads, rows, NO_TOPICS)


def _left_over(rows: Iterable[tuple[Any, ...]]) -> Iterator[str]:
    """Yield the topics of a store that RocketMQ made while cluster or broker had another name.

    New topics may inherit from those alone, and each cluster has one for replies.
    """
    for name, _, _, perms, *_ in rows:
        if permission_text(PERM_INHERIT).strip("-") in perms:
            yield name
            yield reply_topic(name)


async def _row(admin: Admin, name: str) -> tuple[Any, ...] | None:
    """Return the row of a topic, None if it was deleted since the list was made."""
    route = await admin.routes.find(name)
    if route is None:
        return None
    brokers = sorted({data.broker_name for data in route.queue_datas})
    queues = sum(data.read_queue_nums for data in route.queue_datas)
    perms = {permission_text(data.perm).rstrip("-") for data in route.queue_datas}
    return name, brokers, queues, "/".join(sorted(perms)), *await _held(admin, name)


async def queues(admin: Admin, topic: str) -> AsyncIterator[Output]:
    """Yield one row for each queue of a topic. Raises: ClientError for an unknown one."""
    stats = await admin.topic_stats(topic)
    rows = [
        (
            queue.broker_name,
            queue.queue_id,
            ends.min_offset,
            ends.max_offset,
            ends.max_offset - ends.min_offset,
            Moment(ends.last_update_timestamp),
        )
        for queue, ends in sorted(stats.offset_table.items())
    ]
    heads = ("broker", "queue", "first offset", "next offset", "messages", "last stored")
    yield Columns(heads, rows, f"{topic} has no queues")


async def _own_topics(admin: Admin) -> frozenset[str]:
    """Return RocketMQ's own topics, and those of retries and dead letters."""
    response = await admin.ask_name_server(Code.GET_SYSTEM_TOPIC_LIST_FROM_NS)
    found = set(decode_response(TopicList, response.body).topic_list if response.body else ())
    info = await admin.cluster()
    found |= info.broker_addr_table.keys() | info.cluster_addr_table.keys()
    for data in info.broker_addr_table.values():
        address = data.broker_addrs[min(data.broker_addrs)]
        part = await admin.ask_for(TopicList, address, Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
        found |= part.topic_list
    prefixes = RETRY_PREFIX, DLQ_PREFIX, SYSTEM_TOPIC_PREFIX
    found |= {name for name in await admin.routes.topics() if name.startswith(prefixes)}
    return frozenset(found)


async def _held(admin: Admin, topic: str) -> tuple[int | None, Moment]:
    """Return how many messages a topic holds, and when the last one was stored.

    Unknown are both of a topic whose brokers are away, or with more queues than can be read.
    """
    try:
        table = (await admin.topic_stats(topic)).offset_table
    except ClientError:
        return None, Moment(0)
    last_ms = max((ends.last_update_timestamp for ends in table.values()), default=0)
    return sum(ends.max_offset - ends.min_offset for ends in table.values()), Moment(last_ms)
