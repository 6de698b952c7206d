"""What of the delayed messages is overdue: at brokers that say exactly, and at others."""

from wakelog.console.cluster_reading import BrokerReading, ClusterReading
from wakelog.console.history import History
from wakelog.console.overdue import delivered_count, overdue_count, places
from wakelog.console.waiting import Backlog, LevelReading

NOW_MS = 1_000_000
LATE = LevelReading(3, 10_000, 5, 20, NOW_MS - 90_000, 6, 4, NOW_MS - 60_000)


def broker(level: LevelReading, *, is_own: bool = False) -> BrokerReading:
    values = {"wakelogVersion": "1"} if is_own else {}
    return BrokerReading("c", "a", 0, "a:1", values, messages=Backlog((level,)))


def history_of(*readings: tuple[int, LevelReading]) -> History:
    history = History()
    for now_ms, level in readings:
        history.add(ClusterReading(now_ms, brokers=[broker(level)]))
    return history


def test_a_broker_that_says_exactly_is_believed() -> None:
    history = history_of((NOW_MS, LATE))
    own = broker(LATE, is_own=True)
    assert overdue_count(own, LATE, history) == 4
    assert delivered_count(own, LATE, history) == 0


def test_what_was_due_before_the_first_reading_is_taken_as_delivered() -> None:
    history = history_of((NOW_MS - 50_000, LATE), (NOW_MS, LATE))
    assert overdue_count(broker(LATE), LATE, history) == 0
    assert delivered_count(broker(LATE), LATE, history) == 6


def test_what_came_due_while_the_offset_stayed_is_overdue() -> None:
    history = history_of((NOW_MS - 70_000, LATE), (NOW_MS, LATE))
    assert overdue_count(broker(LATE), LATE, history) == 4
    moved = history_of((NOW_MS - 70_000, LATE._replace(offset=4)), (NOW_MS, LATE))
    assert overdue_count(broker(LATE), LATE, moved) == 0


def test_an_offset_is_forgotten_with_its_broker_and_when_a_clock_is_set_back() -> None:
    history = history_of((NOW_MS - 70_000, LATE))
    assert set(history.unmoved_levels) == {("a:1", 3)}
    history.add(ClusterReading(NOW_MS))
    assert not history.unmoved_levels
    back = history_of((NOW_MS, LATE), (NOW_MS - 70_000, LATE))
    assert back.unmoved_levels["a:1", 3].since_ms == NOW_MS - 70_000


def test_the_next_messages_begin_behind_those_taken_as_delivered() -> None:
    history = history_of((NOW_MS, LATE))
    [place] = places(history, history.latest)
    assert (place.begin, place.end, place.level) == (11, 20, LATE)
    history.latest.brokers[0].clock_ahead_ms = 700.0
    assert places(history, history.latest) == [place._replace(clock_ahead_ms=700)]
    nothing = LevelReading(1, 1_000, 7, 7)
    history.add(ClusterReading(NOW_MS, brokers=[broker(nothing)]))
    assert places(history, history.latest) == []
