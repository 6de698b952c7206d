"""What happened to a message, in the order of time and on one line."""

from tests.client.test_message_filter import message
from wakelog.client.message_life import Life
from wakelog.client.trace_notes import PUB, SUB_AFTER, SUB_BEFORE, TraceRow
from wakelog.client.tracks import CONSUMED, NOT_CONSUME_YET, UNKNOWN, Track
from wakelog.console.views.message_life import LINE_EDGE, LINE_WIDTH, events_of, line_of
from wakelog.console.views.traces import by_message

BORN_MS = 1_700_000_000_000


def lived() -> Life:
    stored = message(born_timestamp_ms=BORN_MS, store_timestamp_ms=BORN_MS + 5, queue_offset=7)
    again = message(store_timestamp_ms=BORN_MS + 10_000, reconsume_times=1)
    dead = message(store_timestamp_ms=BORN_MS + 90_000, reconsume_times=16)
    return Life(
        stored,
        ends=(0, 8),
        tracks=[
            Track("billing", CONSUMED, None, 8),
            Track("mail", NOT_CONSUME_YET, None, 7),
            Track("x", UNKNOWN, "CODE:1 DESC:\x1b[0m"),
        ],
        retries=[("billing", again)],
        dead=[("billing", dead)],
        traces=[TraceRow(SUB_AFTER, "ID", "billing", BORN_MS + 40, 30, is_success=False)],
    )


def test_events_are_in_the_order_of_time_and_those_without_come_last() -> None:
    events = events_of(lived())
    assert [(x.number, x.what, x.after) for x in events] == [
        (1, "born", "+0 ms"),
        (2, "stored", "+5 ms"),
        (3, "consumption failed", "+40 ms"),
        (4, "retried", "+10 s"),
        (5, "dead", "+1 min 30 s"),
        (0, "dispatched", ""),
        (0, "given up", ""),
        (0, "not consumed yet", ""),
        (0, "unknown", ""),
    ]
    assert events[-1].detail == "CODE:1 DESC:\\x1b[0m"
    assert events[6].detail == "its offset is 8" and events[6].state == "problem"


def test_a_message_outside_of_its_queue_is_expired_or_not_dispatched() -> None:
    def what(low: int, high: int) -> list[str]:
        life = Life(lived().message, ends=(low, high))
        return [each.what for each in events_of(life) if each.time_ms is None]

    assert what(0, 8) == ["dispatched"]
    assert what(0, 7) == ["not dispatched yet"]
    assert what(8, 9) == ["expired"]


def test_a_clock_that_is_far_away_is_not_on_the_line() -> None:
    life = Life(message(born_timestamp_ms=-(1 << 63), store_timestamp_ms=BORN_MS))
    events = events_of(life)
    assert [(x.number, x.what) for x in events] == [(1, "stored"), (0, "born")]
    assert "-9,223,372,036,854,775,808 ms" in events[1].detail


def test_marks_are_on_the_line_by_their_time_and_near_events_share_one() -> None:
    line = line_of(events_of(lived()))
    assert [(each.numbers, each.state) for each in line.marks] == [
        ("1-3", "problem"),
        ("4", "warning"),
        ("5", "problem"),
    ]
    assert (line.marks[0].x, line.marks[-1].x) == (LINE_EDGE, LINE_WIDTH - LINE_EDGE)
    assert "stored" in line.marks[0].label and "consumption failed" in line.marks[0].label
    assert line.span == "1 min 30 s"
    assert line_of([]).marks == []


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
