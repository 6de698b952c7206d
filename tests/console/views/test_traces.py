"""Traces as rows of each message."""

from wakelog.client.trace_notes import PUB, SUB_AFTER, SUB_BEFORE, TraceRow
from wakelog.console.views.traces import by_message

MS = 1_700_000_000_000


def test_each_message_has_its_send_and_consumptions_by_time() -> None:
    rows = [
        TraceRow(SUB_AFTER, "A", "g", 0, 3, client_host="h"),
        TraceRow(SUB_BEFORE, "A", "g", MS + 9, retries=1, client_host="h"),
        TraceRow(PUB, "A", "p\x1b", MS, 2, is_success=False, topic="T", client_host="h"),
        TraceRow(PUB, "B", "p", MS, 2, topic="T", client_host="h"),
    ]
    first, second = by_message(rows)
    assert (first.id, first.topic, second.id) == ("A", "T", "B")
    assert [(x.what, x.after, x.by, x.state) for x in first.events] == [
        ("send failed", "+0 ms", "p\\x1b at h", "problem"),
        ("given to a consumer", "+9 ms", "g at h", ""),
        ("consumed", "", "g at h", "done"),
    ]
