"""When durations are recorded."""

from typing import Any

import pytest
from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, NoOpHistogram

from tests.otel.forking import DONE, forked_while_held
from wakelog.otel import durations
from wakelog.otel.durations import DURATIONS, Durations
from wakelog.otel.totals import LABELS_MAX, OVERFLOW, SENT, Labels


class Noted(NoOpHistogram):
    """An instrument that notes what it is given."""

    def __init__(self) -> None:
        super().__init__("noted")
        self.noted: list[tuple[float, Any, Context | None]] = []

    def record(self, amount: float, attributes: Any = None, context: Context | None = None) -> None:
        self.noted.append((amount, attributes, context))


def attributes_of(labels: Labels) -> dict[str, Any]:
    return {"name": labels.name, "error": labels.error}


def test_durations_wait_until_they_are_asked_for() -> None:
    waiting, noted, context = Durations(), Noted(), Context({"a": 1})
    column = waiting.column(noted, Labels("a"), attributes_of)
    assert waiting.column(noted, Labels("a"), attributes_of) is column
    column.add(0.1)
    waiting.column(noted, Labels("b"), attributes_of).add(0.2, context)
    assert noted.noted == []
    waiting.record_all()
    waiting.record_all()
    assert noted.noted == [
        (0.1, {"name": "a", "error": ""}, Context()),
        (0.2, {"name": "b", "error": ""}, context),
    ]


def test_few_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durations, "DURATIONS_WAITING_MAX", 2)
    noted = Noted()
    column = Durations().column(noted, Labels("a"), attributes_of)
    for number in range(4):
        column.add(number)
    assert [amount for amount, _, _ in noted.noted] == [0, 1, 2]


def test_a_column_of_before_waits_no_more() -> None:
    waiting, noted = Durations(), Noted()
    column = waiting.column(noted, Labels("a"), attributes_of)
    column.add(1)
    waiting.begin_again()
    column.add(2)
    assert [amount for amount, _, _ in noted.noted] == [1, 2]
    assert waiting.column(noted, Labels("a"), attributes_of) is not column


def test_more_attributes_than_the_sdk_keeps_have_one_column() -> None:
    waiting, noted = Durations(), Noted()
    for number in range(LABELS_MAX):
        waiting.column(noted, Labels(str(number)), attributes_of)
    first = waiting.column(noted, Labels("one more"), attributes_of)
    assert waiting.column(noted, Labels("another"), attributes_of) is first
    first.add(1)
    waiting.record_all()
    assert [found for _, found, _ in noted.noted] == [attributes_of(OVERFLOW)]


def test_messages_are_counted_with_their_durations() -> None:
    waiting, observe = Durations(), SENT.observer(attributes_of, lambda: None)
    column = waiting.column(Noted(), Labels("counted"), attributes_of)
    for sent_count in (3, 0, 1):
        column.add(0.1, None, sent_count)
    assert list(observe(CallbackOptions())) == []
    waiting.record_all()
    waiting.record_all()
    assert [(x.value, x.attributes) for x in observe(CallbackOptions())] == [
        (4, {"name": "counted", "error": ""})
    ]


def test_a_fork_does_not_wait_for_a_thread_that_records() -> None:
    assert forked_while_held(DURATIONS._lock, DURATIONS.record_all) == DONE


def test_garbage_may_record_while_a_column_is_made() -> None:
    waiting, noted = Durations(), Noted()

    def beside_garbage(labels: Labels) -> dict[str, Any]:
        if labels.name == "a":
            waiting.column(noted, Labels("left"), attributes_of).add(1)
        return attributes_of(labels)

    waiting.column(noted, Labels("a"), beside_garbage).add(2)
    waiting.record_all()
    assert {amount for amount, _, _ in noted.noted} == {1, 2}
