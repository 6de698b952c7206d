"""`wakelog tail`: the messages of a topic in the order in which they were stored.

No consumer group moves: messages are pulled, and no offset is committed. Brokers filter by the
hash of a tag; the exact tag, and an SQL92 expression, are checked here. So an expression works at
brokers that refuse such subscriptions, too.

The last messages are searched from the end, in steps that double, until as many match as wanted.

Invariants:
    - at most `PULL_MAX` messages of each queue are in memory, besides the last ones wanted.
    - the search for the last ones examines at most `EXAMINED_MAX` messages of a topic.
"""

import asyncio
import base64
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final, NamedTuple

from wakelog.actors.errors import NotPossible
from wakelog.cli.cluster.output import Moment
from wakelog.cli.output import Output, Text
from wakelog.client import message_filter
from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError
from wakelog.client.message_filter import Accepts
from wakelog.client.queue_puller import FOLLOWED_MAX, HOLD_MS, QueuePuller, merged
from wakelog.client.received import ReceivedMessage, body_values, values_of
from wakelog.client.route import QueueAt

WAITING_MAX: Final = 1_024
"""New messages that wait to be put out."""

EXAMINED_MAX: Final = 100_000
"""Messages of all queues, for the last ones that match: some seconds at one broker."""


class WantedTail(NamedTuple):
    """Which messages are shown.

    tags: joined by `||`, `*` for all. sql: an SQL92 expression, "" for none.
    since_ms: from when; None for the last messages. lines: how many of those.
    """

    tags: str = "*"
    sql: str = ""
    since_ms: int | None = None
    lines: int = 10
    follows: bool = False


class ShownMessage(NamedTuple):
    """A message as it is put out."""

    message: ReceivedMessage

    def lines(self) -> Iterator[str]:
        """Yield when and where it was stored, what it is called, and its body."""
        one = self.message
        marks = [f"tags={one.tags}"] if one.tags else []
        marks += [f"keys={' '.join(one.keys)}"] if one.keys else []
        place = f"{one.broker}/{one.queue_id}@{one.queue_offset}"
        stored = Moment(one.record.store_timestamp_ms)
        try:
            body = one.body.decode(errors="backslashreplace")
        except ClientError as error:  # the others are shown all the same
            body = f"({error.cause})"
        yield "  ".join([str(stored), place, *marks, body])

    def values(self) -> Iterator[dict[str, Any]]:
        """Yield everything of it; a body that is not UTF-8, or cannot be read, is in base64."""
        try:
            body = body_values(self.message.body)
        except ClientError as error:
            stored = base64.b64encode(self.message.record.body).decode()
            body = {"bodyBase64": stored, "error": error.cause}
        yield values_of(self.message) | body


def make_filter(tags: str, sql: str) -> Accepts:
    """Return what says whether a message is shown. Raises: NotPossible."""
    try:
        return message_filter.make_filter(tags, sql)
    except message_filter.FilterRefused as error:
        raise NotPossible(f"--{error.part} {error.cause}", error.remedy) from None


async def tail(admin: Admin, topic: str, wanted: WantedTail) -> AsyncIterator[Output]:
    """Yield messages that are there, then with `follows` those that come. Raises: ClientError."""
    accepts = make_filter(wanted.tags, wanted.sql)
    await admin.route(topic)  # refuses an unknown topic
    queues = await admin.routes.readable(topic)
    if not queues:
        remedy = "Give it the permission (wakelog admin updateTopicPerm -p 6), or start its brokers"
        raise ClientError(f"no queue of topic {topic} can be read", remedy)
    ranges = [await admin.calls.range_of(queue) for queue in queues]
    parts = list(zip(queues, ranges, strict=True))
    pullers = [await _begin(admin, *part, wanted, accepts) for part in parts]
    if wanted.since_ms is None:
        async for output in _show_last(admin, parts, wanted, accepts):
            yield output
    else:
        async for message in merged(pullers):
            yield ShownMessage(message)
    if wanted.follows:
        async for message in _follow(pullers):
            yield ShownMessage(message)


async def _begin(
    admin: Admin, queue: QueueAt, within: tuple[int, int], wanted: WantedTail, accepts: Accepts
) -> QueuePuller:
    calls, (first, end) = admin.calls, within
    if wanted.since_ms is None or wanted.since_ms < 0:
        first = end
    elif wanted.since_ms > 0:
        first = await calls.first_at(queue, wanted.since_ms, within)
    since_ms = wanted.since_ms or 0
    return QueuePuller(calls, queue, first, end, wanted.tags, accepts, since_ms)


class _Last(NamedTuple):
    """The last messages of a queue that match. missing: of what was not examined."""

    messages: list[ReceivedMessage]
    examined: int
    missing: int


async def _show_last(
    admin: Admin,
    parts: Sequence[tuple[QueueAt, tuple[int, int]]],
    wanted: WantedTail,
    accepts: Accepts,
) -> AsyncIterator[Output]:
    """Yield the last messages of all queues, and what was examined if too few match.

    parts: queues with their offsets, from the first one to behind the last.
    """
    share = max(EXAMINED_MAX // len(parts), wanted.lines)
    lasts = await asyncio.gather(
        *(_last_of(admin, *part, share, wanted, accepts) for part in parts)
    )
    found = sorted(
        (message for last in lasts for message in last.messages),
        key=lambda message: message.record.store_timestamp_ms,
    )
    for message in found[-wanted.lines :] if wanted.lines else ():
        yield ShownMessage(message)
    if len(found) < wanted.lines and (wanted.sql or wanted.tags not in ("", "*")):
        examined, missing = sum(x.examined for x in lasts), sum(x.missing for x in lasts)
        rest = f", {missing:,} older ones were not: give --since" if missing else ""
        text = f"{len(found):,} of {examined:,} examined messages match{rest}"
        yield Text(text, {"found": len(found), "examined": examined, "notExamined": missing})


async def _last_of(
    admin: Admin,
    queue: QueueAt,
    within: tuple[int, int],
    count_max: int,
    wanted: WantedTail,
    accepts: Accepts,
) -> _Last:
    """Return the last messages of a queue that match. count_max: how many are examined."""
    begin, end = within
    found: list[ReceivedMessage] = []
    limit, at, step = max(begin, end - count_max), end, wanted.lines
    while len(found) < wanted.lines and at > limit:
        first = max(limit, at - step)
        puller = QueuePuller(admin.calls, queue, first, at, wanted.tags, accepts)
        older = deque[ReceivedMessage](maxlen=wanted.lines - len(found))
        while await puller.fill():
            older.extend(puller.messages)
            puller.messages.clear()
        found = [*older, *found]
        at, step = first, step * 2
    return _Last(found, end - at, at - begin)


async def _follow(pullers: list[QueuePuller]) -> AsyncIterator[ReceivedMessage]:
    """Yield messages as they come, for ever."""
    found: asyncio.Queue[ReceivedMessage] = asyncio.Queue(WAITING_MAX)
    hold_ms = HOLD_MS * FOLLOWED_MAX // max(FOLLOWED_MAX, len(pullers))

    async def read(puller: QueuePuller) -> None:
        while True:
            for message in await puller.pull(hold_ms=max(1, hold_ms)):
                await found.put(message)

    tasks = [asyncio.create_task(read(each)) for each in pullers]
    try:
        while True:
            get = asyncio.create_task(found.get())
            done, _ = await asyncio.wait([get, *tasks], return_when=asyncio.FIRST_COMPLETED)
            if get in done:
                yield get.result()
                continue
            get.cancel()
            for task in done:
                task.result()  # raises why it ended
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
