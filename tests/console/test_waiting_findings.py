"""What is wrong with messages that wait, beside the one case of each rule in `cases`."""

from tests.console.cases import NOW_MS, cluster, delayed, history_of, open_half
from wakelog.console.waiting import Backlog, LevelReading
from wakelog.console.waiting_findings import waiting_findings


def test_the_level_that_is_overdue_longest_is_named_and_all_are_counted() -> None:
    first = LevelReading(3, 10_000, 5, 20, NOW_MS - 90_000, 2, 2, NOW_MS - 40_000)
    longest = LevelReading(4, None, 7, 20, NOW_MS - 95_000, 1, 1, NOW_MS - 95_000)
    messages = Backlog((first, longest))
    snapshot = cluster(NOW_MS, {"wakelogVersion": "1"}, messages=messages)
    [found] = waiting_findings(history_of((snapshot,)))
    assert found.found.startswith("3 delayed messages are overdue, the first by 1 min 35 s: level")
    assert "level 4 stays at offset 7" in found.found
    assert found.since_ms == NOW_MS - 95_000


def test_a_broker_that_was_not_asked_has_nothing_overdue() -> None:
    assert not list(waiting_findings(history_of((cluster(),))))
    [one] = waiting_findings(history_of(delayed(1)))
    assert one.found.startswith("1 delayed message is overdue, the first by 1 min 30 s")


def test_a_half_message_has_the_time_that_its_producer_or_its_broker_gives_it() -> None:
    [snapshot] = open_half(400_000)
    [broker] = snapshot.brokers
    assert len(list(waiting_findings(history_of((snapshot,))))) == 1
    broker.settings = {"transactionTimeOut": "200000"}
    assert not list(waiting_findings(history_of((snapshot,))))
    broker.waiting = {"transactionTimeOut": "6000"}
    assert len(list(waiting_findings(history_of((snapshot,))))) == 1
    assert broker.messages is not None and broker.messages.halves is not None
    halves = broker.messages.halves
    assert halves.first is not None
    first = halves.first._replace(immunity_ms=200_000)
    broker.messages = Backlog((), halves._replace(first=first))
    assert not list(waiting_findings(history_of((snapshot,))))
