"""What became of one message: read from its queue, from groups, their retries, and the trace.

Parts are asked beside each other. A part that fails or comes too late is named, and missing.

Invariants: at most `GROUPS_MAX` groups and `KEYS_MAX` keys are asked about, for `SECONDS_MAX`.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Final

from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError
from wakelog.client.message_search import COPIES_MAX, by_key
from wakelog.client.received import ReceivedMessage
from wakelog.client.trace_notes import TraceRow, notes_of
from wakelog.client.tracks import UNKNOWN, Track, track_of
from wakelog.network.background import awaited, gathered
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.names import DLQ_PREFIX, RETRY_PREFIX, TRACE_TOPIC

GROUPS_MAX: Final = 32
KEYS_MAX: Final = 4
SECONDS_MAX: Final = 3.0
AT_ONCE_MAX: Final = 8


@dataclass
class Life:
    """One message, and what is known of it. missing: parts that could not be read, in words.

    ends: the range of offsets of its queue. retries, dead: by group. copies: with one of its keys.
    """

    message: ReceivedMessage
    ends: tuple[int, int] | None = None
    tracks: list[Track] = field(default_factory=list)
    retries: list[tuple[str, ReceivedMessage]] = field(default_factory=list)
    dead: list[tuple[str, ReceivedMessage]] = field(default_factory=list)
    traces: list[TraceRow] = field(default_factory=list)
    copies: list[ReceivedMessage] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


async def life_of(admin: Admin, message: ReceivedMessage, seconds_max: float = SECONDS_MAX) -> Life:
    """Return what became of a message, as far as it comes in time."""
    life = Life(message)

    async def part(name: str, work: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(seconds_max):
                await work
        except TimeoutError:
            life.missing.append(f"{name}: no answer within {seconds_max:g} s")
        except ClientError as error:
            if error.code not in (ResponseCode.TOPIC_NOT_EXIST, ResponseCode.QUERY_NOT_FOUND):
                life.missing.append(f"{name}: {error.cause}")

    async def groups() -> None:
        names = await admin.groups_of(message.full_topic)
        if len(names) > GROUPS_MAX:
            life.missing.append(f"groups: the first {GROUPS_MAX} of {len(names):,} were asked")
        await gathered(group, names[:GROUPS_MAX], at_once_max=AT_ONCE_MAX)

    async def group(name: str) -> None:
        try:
            life.tracks.append(await track_of(admin, message.record, name))
        except ClientError as error:
            life.tracks.append(Track(name, UNKNOWN, error.cause))
        for prefix, found in ((RETRY_PREFIX, life.retries), (DLQ_PREFIX, life.dead)):
            found.extend((name, x) for x in await _copies(admin, prefix + name, message))

    work = {
        "its queue": _ends(admin, life),
        "groups": groups(),
        "trace": _traces(admin, life),
        "other messages of its keys": _keyed(admin, life),
    }
    await asyncio.wait([awaited(part(name, each)) for name, each in work.items()])
    life.tracks.sort(key=lambda each: each.group)
    return life


async def _ends(admin: Admin, life: Life) -> None:
    message = life.message
    if message.broker:
        where = MessageQueue(message.full_topic, message.broker, message.queue_id)
        life.ends = await admin.calls.range_of(await admin.queue_at(where))


async def _copies(admin: Admin, topic: str, message: ReceivedMessage) -> list[ReceivedMessage]:
    """Return the messages of a topic that have the producer's id of this one."""
    if topic == message.full_topic:
        return []
    try:
        asked = await admin.query_messages(topic, message.message_id, COPIES_MAX, is_unique=True)
    except ClientError as error:
        if error.code == ResponseCode.TOPIC_NOT_EXIST:  # nothing was sent back
            return []
        raise
    found = [x for x in map(ReceivedMessage, asked) if x.message_id == message.message_id]
    return sorted(found, key=lambda each: each.record.store_timestamp_ms)


async def _traces(admin: Admin, life: Life) -> None:
    life.traces, _ = await notes_of(admin, life.message.message_id, TRACE_TOPIC, is_id=True)


async def _keyed(admin: Admin, life: Life) -> None:
    message = life.message
    seen = {message.offset_message_id}
    for key in message.keys[:KEYS_MAX]:
        for each in (await by_key(admin, message.full_topic, key)).messages:
            if each.offset_message_id not in seen:
                seen.add(each.offset_message_id)
                life.copies.append(each)
