"""The trace of one message: what clients have recorded of its send and of its consumption.

Source: org.apache.rocketmq.tools.command.message.QueryMsgTraceByIdSubCommand (4.9.3).
"""

from collections.abc import AsyncIterator
from typing import Final

from wakelog.cli.admin.command import flag, mqadmin
from wakelog.cli.admin.java_text import plain_time
from wakelog.cli.output import Output, Table
from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError
from wakelog.client.trace_notes import PUB, SUB_BEFORE, TraceRow, recorded_notes
from wakelog.protocol.java import iteration_order
from wakelog.protocol.names import TRACE_TOPIC

LAYOUT: Final = "%-10s %-20s %-20s %-20s %-10s %-10s"


@mqadmin.command("QueryMsgTraceById")
async def query_trace(
    admin: Admin,
    message_id: str = flag("i", "msgId", "Id that the producer gave."),
    topic: str = flag("t", "traceTopic", "Topic of the traces.", TRACE_TOPIC),
) -> AsyncIterator[Output]:
    """Show what clients have recorded of a message."""
    sends: list[tuple[str, ...]] = []
    by_group: dict[str, list[tuple[str, ...]]] = {}
    found, _ = await recorded_notes(admin, message_id, topic, is_id=True)
    for note in found:
        if note.kind != SUB_BEFORE:
            rows = sends if note.kind == PUB else by_group.setdefault(note.group, [])
            rows.append(_row(note))
    if not sends and not by_group:
        raise ClientError(
            f"no client has recorded message {message_id} in topic {topic}",
            "Check the id, and that producers and consumers trace (enableMsgTrace)",
        )
    for row in sends:
        yield _table("Producer", "Send", [row])
    for group in iteration_order(tuple(by_group)):
        yield _table("Consumer", "Consumer", by_group[group])


def _row(note: TraceRow) -> tuple[str, ...]:
    kind, status = "Pub" if note.kind == PUB else "Sub", "success" if note.is_success else "failed"
    time = plain_time(note.time_ms)
    return kind, note.group, note.client_host, time, f"{note.cost_ms}ms", status


def _table(role: str, when: str, rows: list[tuple[str, ...]]) -> Output:
    heads = ["Type", f"{role}Group", "ClientHost", f"{when}Time", "CostTimes", "Status"]
    return Table(LAYOUT, heads, rows)
