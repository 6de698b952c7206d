"""The trace of one message: what clients have recorded of its send and of its consumption.

    trace    = context *(%x02 context)
    context  = kind *(%x01 field)
    a send          Pub, time, region, group, topic, id, tags, keys, store host, length, cost, type,
                    [offset id], success, [client host]
    a consumption   SubAfter, request id, id, cost, success, keys, [context code, [time, group]]

Source: org.apache.rocketmq.client.trace.TraceDataEncoder, tools.command.message.
QueryMsgTraceByIdSubCommand (4.9.3).
"""

from collections.abc import AsyncIterator, Iterator
from typing import Final, NamedTuple

from wakelog.cli.admin.command import Command, Flags, Output, Table, may, need
from wakelog.cli.admin.java_text import NONE, body_of, has_key, plain_time
from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError
from wakelog.protocol.java import iteration_order, parse_boolean
from wakelog.protocol.names import TRACE_TOPIC

TRACES_MAX: Final = 64
CONTEXT_SEPARATOR, FIELD_SEPARATOR = "\x02", "\x01"
LAYOUT: Final = "%-10s %-20s %-20s %-20s %-10s %-10s"


class Trace(NamedTuple):
    """What one client did with a message. `time_ms` and `cost_ms` are the client's."""

    is_send: bool
    message_id: str
    group: str
    time_ms: int
    cost_ms: int
    is_success: bool


def read_traces(text: str) -> Iterator[Trace]:
    """Yield the sends and consumptions; what is neither, or cannot be read, is left out."""
    for context in text.split(CONTEXT_SEPARATOR):
        fields = context.split(FIELD_SEPARATOR)
        while fields and not fields[-1]:  # as Java splits
            fields.pop()
        try:
            if fields[:1] == ["Pub"]:
                yield _send(fields)
            elif fields[:1] == ["SubAfter"]:
                yield _consumption(fields)
        except (IndexError, ValueError):
            continue


def _send(fields: list[str]) -> Trace:
    _, time_ms, _, group, _, message_id = fields[:6]
    cost_ms = int(fields[10])
    outcome = fields[12:13] if len(fields) == 13 else fields[13:14]
    is_success = parse_boolean(outcome[0]) if outcome else True
    return Trace(True, message_id, group, int(time_ms), cost_ms, is_success)


def _consumption(fields: list[str]) -> Trace:
    _, _, message_id, cost_ms, success, _ = fields[:6]
    time_ms, group = (int(fields[7]), fields[8]) if len(fields) >= 9 else (0, NONE)
    return Trace(False, message_id, group, time_ms, int(cost_ms), parse_boolean(success))


async def query_trace(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Show the sends of a message, and its consumptions by group."""
    topic, message_id = flags.get("t", TRACE_TOPIC), flags["i"]
    sends: list[tuple[str, ...]] = []
    by_group: dict[str, list[tuple[str, ...]]] = {}
    for record in await admin.query_messages(topic, message_id, TRACES_MAX):
        if not has_key(record, message_id):
            continue
        for trace in read_traces(body_of(record).decode(errors="replace")):
            if trace.message_id == message_id:
                rows = sends if trace.is_send else by_group.setdefault(trace.group, [])
                rows.append(_row(trace, record.born_host[0]))
    if not sends and not by_group:
        raise ClientError(
            f"no client has recorded message {message_id} in topic {topic}",
            "Check the id, and that producers and consumers trace (enableMsgTrace)",
        )
    for row in sends:
        yield _table("Producer", "Send", [row])
    for group in iteration_order(tuple(by_group)):
        yield _table("Consumer", "Consumer", by_group[group])


def _row(trace: Trace, client_host: str) -> tuple[str, ...]:
    kind, status = "Pub" if trace.is_send else "Sub", "success" if trace.is_success else "failed"
    time = plain_time(trace.time_ms)
    return kind, trace.group, client_host, time, f"{trace.cost_ms}ms", status


def _table(role: str, when: str, rows: list[tuple[str, ...]]) -> Output:
    heads = ["Type", f"{role}Group", "ClientHost", f"{when}Time", "CostTimes", "Status"]
    return Table(LAYOUT, heads, rows)


COMMANDS: Final = (
    Command(
        "QueryMsgTraceById",
        "Show what clients have recorded of a message.",
        query_trace,
        (
            need("i", "msgId", "Id that the producer gave."),
            may("t", "traceTopic", f"Topic of the traces.  [default: {TRACE_TOPIC}]"),
        ),
    ),
)
