"""Reads the notes that clients have recorded of a message: of its send and its consumption.

    trace    = context *(%x02 context)
    context  = kind *(%x01 field)
    a send          Pub, time, region, group, topic, id, tags, keys, store host, length, cost, type,
                    [offset id], success, [client host]
    a begin         SubBefore, time, region, group, request id, id, retries, keys
    a consumption   SubAfter, request id, id, cost, success, keys, [context code, [time, group]]

Source: org.apache.rocketmq.client.trace.TraceDataEncoder, tools.command.message.
QueryMsgTraceByIdSubCommand (4.9.3).
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from wakelog.client.admin import Admin
from wakelog.client.message_filter import begin_of
from wakelog.client.received import ReceivedMessage
from wakelog.protocol.java import LONG_MAX, LONG_MIN, parse_boolean, parse_integer
from wakelog.protocol.names import TRACE_TOPIC
from wakelog.protocol.properties import split_keys

TRACES_MAX: Final = 64
NOTES_BYTES_MAX: Final = 1 << 20
"""Of one message that is read; clients send 128 KB (maxMsgSize of AsyncTraceDispatcher)."""
CONTEXT_SEPARATOR, FIELD_SEPARATOR = "\x02", "\x01"
NO_GROUP: Final = "null"

PUB, SUB_BEFORE, SUB_AFTER = "Pub", "SubBefore", "SubAfter"


class TraceRow(NamedTuple):
    """What one client did with a message. `time_ms` and `cost_ms` are the client's.

    request_id: joins the begin and the end of one consumption. retries: before it.
    client_host: where the note came from.
    """

    kind: str
    message_id: str
    group: str
    time_ms: int
    cost_ms: int = 0
    is_success: bool = True
    topic: str = ""
    keys: str = ""
    request_id: str = ""
    retries: int = 0
    client_host: str = ""


def read_notes(text: str) -> Iterator[TraceRow]:
    """Yield what clients did; what is of another kind, or cannot be read, is left out."""
    for context in text.split(CONTEXT_SEPARATOR):
        fields = context.split(FIELD_SEPARATOR)
        while fields and not fields[-1]:  # as Java splits
            fields.pop()
        read = _READERS.get(fields[0]) if fields else None
        if read is None:
            continue
        try:
            yield read(fields)
        except (IndexError, ValueError):
            continue


def _send(fields: list[str]) -> TraceRow:
    _, time_ms, _, group, topic, message_id, _, keys = fields[:8]
    cost_ms = _long(fields[10])
    outcome = fields[12:13] if len(fields) == 13 else fields[13:14]
    is_success = parse_boolean(outcome[0]) if outcome else True
    return TraceRow(
        PUB, message_id, group, _long(time_ms), cost_ms, is_success, topic=topic, keys=keys
    )


def _begin(fields: list[str]) -> TraceRow:
    _, time_ms, _, group, request_id, message_id, retries = fields[:7]
    return TraceRow(
        SUB_BEFORE,
        message_id,
        group,
        _long(time_ms),
        keys="".join(fields[7:8]),
        request_id=request_id,
        retries=parse_integer(retries),
    )


def _end(fields: list[str]) -> TraceRow:
    _, request_id, message_id, cost_ms, success, keys = fields[:6]
    time_ms, group = (_long(fields[7]), fields[8]) if len(fields) >= 9 else (0, NO_GROUP)
    return TraceRow(
        SUB_AFTER,
        message_id,
        group,
        time_ms,
        _long(cost_ms),
        parse_boolean(success),
        keys=keys,
        request_id=request_id,
    )


def _long(text: str) -> int:
    """Return a number as Java has it: what a client writes may be any. Raises: ValueError."""
    return parse_integer(text, minimum=LONG_MIN, maximum=LONG_MAX)


_READERS: Final = {PUB: _send, SUB_BEFORE: _begin, SUB_AFTER: _end}


async def notes_of(
    admin: Admin, key: str, topic: str = TRACE_TOPIC, *, is_id: bool = False
) -> tuple[list[TraceRow], bool]:
    """Return what clients did with the messages of an id or key, by time; and whether that is all.

    is_id: of that id alone. Raises: ClientError.
    """
    found, is_all = await recorded_notes(admin, key, topic, is_id=is_id)
    return sorted(set(found), key=lambda row: (row.time_ms, row.kind)), is_all


async def recorded_notes(
    admin: Admin, key: str, topic: str = TRACE_TOPIC, *, is_id: bool = False
) -> tuple[list[TraceRow], bool]:
    """Return the same as brokers gave it: a note that was stored twice is there twice.

    Raises: ClientError.
    """
    asked = await admin.query_messages(topic, key, TRACES_MAX)
    found: list[TraceRow] = []
    for message in map(ReceivedMessage, asked):
        if key not in message.keys:
            continue
        text = begin_of(message, NOTES_BYTES_MAX).decode(errors="replace")
        host = message.record.born_host[0]
        for row in read_notes(text):
            if row.message_id == key or (not is_id and key in split_keys(row.keys)):
                found.append(row._replace(client_host=host))
    return found, len(asked) < TRACES_MAX
