"""What waits at a master: delayed messages by level, and half messages. Values, and their reading.

    read_waiting     with each reading: positions, and when the first message of a level is due
    read_next_due    for a page: the next delayed messages, of the levels that come first
    read_open_halves for a page: the half messages that are not ended, and those given up

Positions cost a few requests, and none reads a body but the first half messages. Both readings for
pages are bounded, and all viewers share one (`shared`).

The topic of op messages has no configuration, so that none can be pulled. Each is asked for by its
place in the log, which the entries of its queue have.

Invariants: what a broker refuses is kept as its failure, and is no failure of the reading.

Source: org.apache.rocketmq.store.schedule.ScheduleMessageService, org.apache.rocketmq.broker.
transaction.queue.TransactionalMessageServiceImpl (4.9.3).
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from wakelog.broker.half_queue import HalfMessage, half_message
from wakelog.broker.names import TRANS_GROUP
from wakelog.broker.transactions import HALF_QUEUE_ID, REMOVE_TAG
from wakelog.client.admin import Admin, records
from wakelog.client.errors import ClientError
from wakelog.client.received import ReceivedMessage
from wakelog.client.route import QueueAt
from wakelog.client.waiting import DueEntry, delay_offsets, due_at, entries_at, message_at
from wakelog.network.background import gathered
from wakelog.protocol.bodies import TopicOffset, TopicStatsTable
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.delay_levels import DEFAULT_DELAY_LEVELS, read_delay_levels
from wakelog.protocol.names import (
    GROUP_LENGTH_MAX,
    SCHEDULE_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)
from wakelog.protocol.properties import PRODUCER_GROUP, REAL_TOPIC

LATE_MS_MIN: Final = 30_000
"""How long ago a delayed message was due that counts as overdue: 4.9.3 looks each 100 ms."""
LEVELS_AT_ONCE_MAX: Final = 8
PULL_MAX: Final = 32
FIRST_OPS_MAX: Final = 64
"""Op messages that a reading has, to know whether the first half message is ended."""
OPS_AT_ONCE_MAX: Final = 8
OPEN_MS_MIN: Final = 60_000
"""How old the first half message is for which op messages are read as well."""

DUE_A_LEVEL_MAX: Final = 8
"""Delayed messages of one level that a page's reading takes."""
DUE_LEVELS_MAX: Final = 64
"""Levels, over all brokers, of which it takes some; those that are due first."""
HALVES_READ_MAX: Final = 1_024
"""Half messages of one broker that a page's reading takes."""
OPS_READ_MAX: Final = 512
"""Op messages of one broker that it takes."""
GIVEN_UP_READ_MAX: Final = 64
"""Of the half messages that a broker gave up, the newest."""


class LevelReading(NamedTuple):
    """A level of delays. [offset, end): queue offsets of the messages that wait.

    delay_ms: None for a level that the broker's setting does not have.
    first_due_ms: when the first of them is due, 0 if none waits. due: how many of them are.
    late: how many were due LATE_MS_MIN ago or before. last_late_ms: when the last of those was due.
    """

    level: int
    delay_ms: int | None
    offset: int
    end: int
    first_due_ms: int = 0
    due: int = 0
    late: int = 0
    last_late_ms: int = 0


class OpenHalf(NamedTuple):
    """A half message. id: the broker's, which names it. checks: how often its group was asked.

    immunity_ms: for how long after its birth its producer wants no question, 0 if it does not say.
    """

    broker: str
    id: str
    topic: str
    group: str
    born_ms: int
    stored_ms: int
    checks: int
    immunity_ms: int = 0


class HalfReading(NamedTuple):
    """Half messages of a broker. [offset, end): those that the check has not passed.

    given_up: half messages that are in TRANS_CHECK_MAX_TIME_TOPIC.
    first: the first of the half messages that is not ended, as far as was read.
    """

    offset: int
    end: int
    given_up: int
    first: OpenHalf | None = None


class Backlog(NamedTuple):
    """What waits at a master. levels: those that ever had a message.

    halves: None before the broker has its topic of half messages. failure: why something is not
    known.
    """

    levels: Sequence[LevelReading] = ()
    halves: HalfReading | None = None
    failure: ClientError | None = None


class DelayedPlace(NamedTuple):
    """Where to read: a broker, one of its levels, and the offsets [begin, end) of what waits.

    clock_ahead_ms: of the broker.
    """

    broker: str
    address: str
    level: LevelReading
    begin: int
    end: int
    clock_ahead_ms: int = 0


class DelayedMessage(NamedTuple):
    """A delayed message with its level. stored_ms: when, by our clock."""

    broker: str
    level: LevelReading
    message: ReceivedMessage
    stored_ms: int


class OpenHalves(NamedTuple):
    """What a broker's queues of half messages say, as far as they were read.

    halves: not ended. read of total: how many half messages were read of those to read; the same
    for op messages. given_up: the newest first.
    """

    broker: str
    halves: Sequence[OpenHalf] = ()
    read: int = 0
    total: int = 0
    ops_read: int = 0
    ops_total: int = 0
    given_up: Sequence[OpenHalf] = ()
    failure: ClientError | None = None


def delays_ms(setting: str | None) -> tuple[int, ...]:
    """Return the delays of a broker's levels; those of a new one if its setting is not known."""
    try:
        return read_delay_levels(DEFAULT_DELAY_LEVELS if setting is None else setting)
    except ValueError:
        return read_delay_levels(DEFAULT_DELAY_LEVELS)


async def read_waiting(
    admin: Admin,
    name: str,
    address: str,
    topics: Iterable[str],
    delays: str | None,
    now_ms: int,
    *,
    clock_ahead_ms: int = 0,
) -> Backlog:
    """Read what waits at a master. topics: all of its topics; a question about another makes it.

    clock_ahead_ms: of the broker. Times here are as if its clock were ours.
    Raises: ClientError without a code if it does not answer.
    """
    known = frozenset(topics)
    levels: Sequence[LevelReading] = ()
    halves, failure = None, None
    try:
        if SCHEDULE_TOPIC in known:
            clock = _Clock(now_ms, clock_ahead_ms)
            levels = await _read_levels(admin, address, delays_ms(delays), clock)
        if TRANS_HALF_TOPIC in known:
            halves = await _read_halves(admin, name, address, known, now_ms)
    except ClientError as error:
        if error.code is None:
            raise
        failure = error
    return Backlog(levels, halves, failure)


class _Clock(NamedTuple):
    now_ms: int
    ahead_ms: int


async def _read_levels(
    admin: Admin, address: str, delays: tuple[int, ...], clock: _Clock
) -> list[LevelReading]:
    offsets = await delay_offsets(admin, address)
    ends = await _ends(admin, address, SCHEDULE_TOPIC)

    async def read(level: int) -> LevelReading:
        delay_ms = delays[level - 1] if level <= len(delays) else None
        place = ends.get(level - 1, TopicOffset())
        offset = max(offsets.get(level, 0), place.min_offset)
        if offset >= place.max_offset:
            return LevelReading(level, delay_ms, offset, max(offset, place.max_offset))
        return await _read_level(admin, address, level, delay_ms, offset, clock)

    used = sorted(offsets.keys() | {x + 1 for x, place in ends.items() if place.max_offset > 0})
    return await gathered(read, used, at_once_max=LEVELS_AT_ONCE_MAX)


async def _read_level(
    admin: Admin, address: str, level: int, delay_ms: int | None, offset: int, clock: _Clock
) -> LevelReading:
    """Read a level that has messages, and search for the first that is not due, and not late."""

    async def due(queue_offset: int) -> DueEntry:
        found = await due_at(admin, address, level, queue_offset)
        return found._replace(due_ms=max(found.due_ms - clock.ahead_ms, 0))

    now_ms, first = clock.now_ms, await due(offset)
    found = LevelReading(level, delay_ms, offset, first.end, first.due_ms)

    async def search(begin: int, end: int, until_ms: int) -> tuple[int, int]:
        """Return where the times pass until_ms, and the last time before that, 0 for none."""
        last_ms = 0
        while begin < end:
            middle = (begin + end) // 2
            due_ms = (await due(middle)).due_ms
            if 0 < due_ms <= until_ms:
                begin, last_ms = middle + 1, due_ms
            else:
                end = middle
        return begin, last_ms

    if not 0 < first.due_ms <= now_ms:
        return found
    due_end, _ = await search(offset + 1, first.end, now_ms)
    found = found._replace(due=due_end - offset)
    if first.due_ms > now_ms - LATE_MS_MIN:
        return found
    late_end, last_ms = await search(offset + 1, due_end, now_ms - LATE_MS_MIN)
    return found._replace(late=late_end - offset, last_late_ms=last_ms or first.due_ms)


async def _read_halves(
    admin: Admin, name: str, address: str, topics: frozenset[str], now_ms: int
) -> HalfReading:
    begin, end = await _open_range(admin, name, address)
    given_up = 0
    if TRANS_CHECK_MAX_TIME_TOPIC in topics:
        places = await _ends(admin, address, TRANS_CHECK_MAX_TIME_TOPIC)
        given_up = sum(x.max_offset - x.min_offset for x in places.values())
    first = None
    if begin < end:
        halves = await _pull(admin, _half_queue(name, address), begin, end, PULL_MAX)
        ended: set[int] = set()
        if halves and now_ms - halves[0].record.born_timestamp_ms > OPEN_MS_MIN:
            ended = (await _read_ops(admin, name, address, FIRST_OPS_MAX)).ended
        first = next(iter(open_halves(halves, ended)), None)
    return HalfReading(begin, end, given_up, first)


class _Ops(NamedTuple):
    """Op messages that the check has not passed. ended: by those that were read of the total."""

    ended: set[int]
    read: int
    total: int


async def _read_ops(admin: Admin, name: str, address: str, count_max: int) -> _Ops:
    queue = _half_queue(name, address, TRANS_OP_HALF_TOPIC)
    offset = await admin.calls.committed_offset(queue, TRANS_GROUP) or 0
    try:
        _, end, entries = await entries_at(
            admin, address, TRANS_OP_HALF_TOPIC, HALF_QUEUE_ID, offset, count_max
        )
    except ClientError as error:
        if error.code is None:
            raise
        return _Ops(set(), 0, 0)  # as a broker says that has never ended a transaction
    places = [each.physic_offset for each in entries[:count_max]]
    read = partial(message_at, admin, address)
    ops = list(map(ReceivedMessage, await gathered(read, places, at_once_max=OPS_AT_ONCE_MAX)))
    return _Ops(ended_by(ops), len(ops), max(end - offset, len(ops)))


async def _open_range(admin: Admin, name: str, address: str) -> tuple[int, int]:
    """Return [begin, end) of the half messages that the check has not passed."""
    place = (await _ends(admin, address, TRANS_HALF_TOPIC)).get(HALF_QUEUE_ID, TopicOffset())
    queue = _half_queue(name, address)
    offset = await admin.calls.committed_offset(queue, TRANS_GROUP) or 0
    end = max(place.max_offset, 0)
    return min(max(offset, place.min_offset, 0), end), end


async def _ends(admin: Admin, address: str, topic: str) -> dict[int, TopicOffset]:
    """Return the ends of a topic's queues at one broker, by queue id."""
    fields = {"topic": topic}
    code = Code.GET_TOPIC_STATS_INFO
    table = (await admin.ask_for(TopicStatsTable, address, code, fields)).offset_table
    return {queue.queue_id: ends for queue, ends in table.items()}


def _half_queue(name: str, address: str, topic: str = TRANS_HALF_TOPIC) -> QueueAt:
    return QueueAt(name, topic, HALF_QUEUE_ID, address)


async def _pull(
    admin: Admin, queue: QueueAt, begin: int, end: int, count_max: int
) -> list[ReceivedMessage]:
    """Return messages of [begin, end) in queue order, at most count_max."""
    found: list[ReceivedMessage] = []
    at = begin
    while at < end and len(found) < count_max:
        pulled = await admin.calls.pull(queue, at, min(PULL_MAX, count_max - len(found)))
        found += [ReceivedMessage(x, broker=queue.broker) for x in records(pulled.body)]
        if pulled.next_offset <= at:
            break
        at = pulled.next_offset
    return found


def ended_by(ops: Iterable[ReceivedMessage]) -> set[int]:
    """Return the queue offsets of the half messages that op messages end.

    One of 4.9.3 ends one; later releases write several with commas between.
    """
    texts = (
        text
        for op in ops
        if op.tags == REMOVE_TAG
        for text in op.record.body.decode("utf-8", "replace").split(",")
    )
    return {int(text) for text in texts if text.isascii() and text.isdigit()}


def open_halves(halves: Iterable[ReceivedMessage], ended: set[int]) -> list[OpenHalf]:
    """Return the half messages that are not ended; of one and its copies the last, in order."""
    last: dict[tuple[str, int], tuple[HalfMessage, ReceivedMessage]] = {}
    for message in halves:
        half = half_message(message.record)
        key = half.unique_key or message.offset_message_id, half.born_timestamp_ms
        last.pop(key, None)
        last[key] = half, message
    return [
        open_half(message)
        for half, message in last.values()
        if half.queue_offset not in ended and half.first_offset not in ended
    ]


def open_half(message: ReceivedMessage) -> OpenHalf:
    """Return what is shown of a half message."""
    half, properties = half_message(message.record), message.properties
    return OpenHalf(
        message.broker,
        message.offset_message_id,
        _shown(properties.get(REAL_TOPIC, "")),
        _shown(properties.get(PRODUCER_GROUP, "")),
        half.born_timestamp_ms,
        half.store_timestamp_ms,
        _number(half.check_times),
        _number(half.immunity_seconds) * 1_000,
    )


def _shown(text: str) -> str:
    """Return a name that a client wrote, without what a terminal or a page would obey."""
    name = text[:GROUP_LENGTH_MAX]
    return "".join(x if x.isprintable() else f"\\u{ord(x):04x}" for x in name)


def _number(text: str | None) -> int:
    """Return a number that a client wrote, 0 for what is none."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else 0


async def read_next_due(admin: Admin, places: Sequence[DelayedPlace]) -> list[DelayedMessage]:
    """Return the next delayed messages: some of each level, those that are due first.

    Raises: ClientError.
    """

    async def read(place: DelayedPlace) -> list[DelayedMessage]:
        queue = QueueAt(place.broker, SCHEDULE_TOPIC, place.level.level - 1, place.address)
        found = await _pull(admin, queue, place.begin, place.end, DUE_A_LEVEL_MAX)
        ahead_ms = place.clock_ahead_ms
        return [
            DelayedMessage(place.broker, place.level, x, x.record.store_timestamp_ms - ahead_ms)
            for x in found
        ]

    first = sorted(places, key=lambda place: place.level.first_due_ms)[:DUE_LEVELS_MAX]
    parts = await gathered(read, first, at_once_max=LEVELS_AT_ONCE_MAX)
    return [each for part in parts for each in part]


async def read_open_halves(
    admin: Admin, name: str, address: str, halves: HalfReading
) -> OpenHalves:
    """Read the half messages of a master that are not ended, and the newest of those given up."""
    try:
        ops = await _read_ops(admin, name, address, OPS_READ_MAX)
        queue = _half_queue(name, address)
        found = await _pull(admin, queue, halves.offset, halves.end, HALVES_READ_MAX)
        given_up = await _read_given_up(admin, name, address) if halves.given_up else []
    except ClientError as error:
        return OpenHalves(name, failure=error)
    return OpenHalves(
        name,
        open_halves(found, ops.ended),
        len(found),
        halves.end - halves.offset,
        ops.read,
        ops.total,
        given_up,
    )


async def _read_given_up(admin: Admin, name: str, address: str) -> list[OpenHalf]:
    found: list[ReceivedMessage] = []
    ends = await _ends(admin, address, TRANS_CHECK_MAX_TIME_TOPIC)
    for queue_id, place in sorted(ends.items()):
        queue = QueueAt(name, TRANS_CHECK_MAX_TIME_TOPIC, queue_id, address)
        begin = max(place.min_offset, place.max_offset - GIVEN_UP_READ_MAX)
        found += await _pull(admin, queue, begin, place.max_offset, GIVEN_UP_READ_MAX)
    found.sort(key=lambda message: message.record.store_timestamp_ms, reverse=True)
    return [open_half(message) for message in found[:GIVEN_UP_READ_MAX]]
