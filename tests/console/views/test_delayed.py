"""Delayed messages in rows and sentences."""

import pytest

from tests.fakes.records import STORE_MS, properties, record
from wakelog.client.errors import ClientError
from wakelog.client.received import ReceivedMessage
from wakelog.console.cluster_reading import BrokerReading, ClusterReading
from wakelog.console.history import History
from wakelog.console.views import delayed
from wakelog.console.waiting import Backlog, DelayedMessage, LevelReading
from wakelog.protocol.record import decode_record

NOW_MS = STORE_MS
SOON = LevelReading(3, 10_000, 5, 9, NOW_MS + 4_000)
LATE = LevelReading(1, 1_000, 0, 8, NOW_MS - 90_000, 4, 3, NOW_MS - 40_000)
DONE = LevelReading(2, 5_000, 7, 7)


def history_of(*levels: LevelReading, is_own: bool = True, since_ms: int = NOW_MS) -> History:
    values = {"wakelogVersion": "1"} if is_own else {}
    history = History()
    for taken_ms in (since_ms, NOW_MS):
        broker = BrokerReading("c", "a", 0, "a:1", values, messages=Backlog(levels))
        history.add(ClusterReading(taken_ms, brokers=[broker]))
    return history


def rows(history: History) -> list[delayed.LevelRow]:
    return delayed.rows(history, history.latest)


def test_a_level_says_what_waits_and_when_the_next_is_due() -> None:
    soon, done = rows(history_of(SOON, DONE))
    assert (soon.waiting, soon.overdue, soon.due_ms) == (4, 0, NOW_MS + 4_000)
    assert (soon.stored_ms, soon.delivered_to, soon.stored_to) == (NOW_MS - 6_000, 5, 9)
    assert (soon.delay, done.waiting, done.due_ms) == ("10 s", 0, None)


def test_what_is_overdue_is_said_with_its_time() -> None:
    found = rows(history_of(LATE, SOON))
    assert [row.overdue for row in found] == [3, 0]
    assert delayed.summary(found, NOW_MS) == (
        "12 delayed messages wait; 3 are overdue, the first by 1 min 30 s"
    )
    one = rows(history_of(LATE._replace(late=1)))
    assert delayed.summary(one, NOW_MS) == "8 delayed messages wait; 1 is overdue by 1 min 30 s"


def test_what_a_broker_of_rocketmq_has_delivered_does_not_wait() -> None:
    [row] = rows(history_of(LATE, is_own=False))
    assert (row.waiting, row.overdue, row.due_ms, row.delivered_to) == (4, 0, None, 4)
    assert delayed.summary([row], NOW_MS) == "4 delayed messages wait"
    [stuck] = rows(history_of(LATE, is_own=False, since_ms=NOW_MS - 60_000))
    assert (stuck.waiting, stuck.overdue) == (8, 3)
    for is_own in (True, False):
        history = history_of(LATE, is_own=is_own)
        assert delayed.is_any_inexact(history.latest) is not is_own


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ((), "No delayed message waits"),
        ((DONE,), "No delayed message waits"),
        ((SOON._replace(end=6),), "1 delayed message waits; the next is due in 4 s"),
        ((SOON,), "4 delayed messages wait; the next is due in 4 s"),
        ((SOON._replace(first_due_ms=NOW_MS - 5),), "4 delayed messages wait"),
    ],
)
def test_a_sentence_says_how_it_stands(levels: tuple[LevelReading, ...], said: str) -> None:
    assert delayed.summary(rows(history_of(*levels)), NOW_MS) == said


@pytest.mark.parametrize(
    ("due_ms", "text"),
    [
        (None, "-"),
        (NOW_MS + 4_000, "in 4 s"),
        (NOW_MS, "now"),
        (NOW_MS - 29_999, "now"),
        (NOW_MS - 30_000, "30 s overdue"),
    ],
)
def test_a_time_is_said_from_now_on(due_ms: int | None, text: str) -> None:
    assert delayed.due_text(due_ms, NOW_MS) == text


def test_levels_are_sorted_and_filtered() -> None:
    found = rows(history_of(SOON, LATE, DONE))
    by_level = delayed.LEVELS.page(found, {})
    assert [row.level for row in by_level.rows] == [1, 2, 3]
    by_waiting = delayed.LEVELS.page(found, {"sort": "-waiting"})
    assert [row.level for row in by_waiting.rows] == [1, 3, 2]
    assert delayed.LEVELS.page(found, {"q": "b"}).total == 0


def test_a_broker_that_refuses_is_named() -> None:
    failure = ClientError("a refuses", "Ask as another", code=1)
    broker = BrokerReading("c", "a", 0, "a:1", messages=Backlog(failure=failure))
    snapshot = ClusterReading(NOW_MS, brokers=[broker, BrokerReading("c", "a", 1, "a:2")])
    assert delayed.unread(snapshot) == [delayed.Unread("a", "a refuses", "Ask as another")]


def message(topic: str, stored_ms: int, level: LevelReading) -> DelayedMessage:
    data = record(
        stored_ms % 1_000_000,
        properties(REAL_TOPIC=topic, KEYS="k1 k2"),
        store_timestamp_ms=stored_ms,
    )
    return DelayedMessage("a", level, ReceivedMessage(decode_record(data), broker="a"), stored_ms)


def test_the_next_messages_come_by_the_time_that_they_are_due() -> None:
    first, second = delayed.due_rows(
        [message("orders", NOW_MS, SOON), message("%RETRY%billing", NOW_MS + 1, DONE)], NOW_MS
    )
    assert (first.topic, first.group, first.due_ms) == (
        "%RETRY%billing",
        "billing",
        NOW_MS + 5_001,
    )
    assert (second.topic, second.group, second.keys) == ("orders", "", "k1 k2")
    many = [message("orders", NOW_MS + n, SOON) for n in range(delayed.DUE_SHOWN_MAX + 9)]
    assert len(delayed.due_rows(many, NOW_MS)) == delayed.DUE_SHOWN_MAX
