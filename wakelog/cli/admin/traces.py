"""The trace of one message: what clients have recorded of its send and of its consumption.

Source: org.apache.rocketmq.tools.command.message.QueryMsgTraceByIdSubCommand (4.9.3).
"""

from collections.abc import AsyncIterator, Iterator
from typing import Final, NamedTuple

from wakelog.cli.admin.command import flag, mqadmin
from wakelog.cli.admin.java_text import body_of, has_key, plain_time
from wakelog.cli.output import Output, Table
from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError
from wakelog.client.trace_notes import PUB, SUB_BEFORE, TRACES_MAX, read_notes
from wakelog.protocol.java import iteration_order
from wakelog.protocol.names import TRACE_TOPIC

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
    for row in read_notes(text):
        if row.kind != SUB_BEFORE:
            yield Trace(row.kind == PUB, *row[1:6])


@mqadmin.command("QueryMsgTraceById")
async def query_trace(
    admin: Admin,
    message_id: str = flag("i", "msgId", "Id that the producer gave."),
    topic: str = flag("t", "traceTopic", "Topic of the traces.", TRACE_TOPIC),
) -> AsyncIterator[Output]:
    """Show what clients have recorded of a message."""
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
