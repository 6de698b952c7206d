"""What is counted until a reader asks."""

import threading

import pytest
from opentelemetry.metrics import CallbackOptions, Observation

from tests.otel.forking import DONE, forked_while_held
from wakelog.otel import totals
from wakelog.otel.attributes import Attributes
from wakelog.otel.totals import CONSUMED, OVERFLOW, SENT, Labels, Totals

ONE, OTHER = Labels("send", "one"), Labels("send", "other")


def names(labels: Labels) -> Attributes:
    return {"topic": labels.topic, "error": labels.error}


def read(observe: object) -> dict[str, int]:
    assert callable(observe)
    found: list[Observation] = list(observe(CallbackOptions()))
    return {str((x.attributes or {})["topic"]): int(x.value) for x in found}


def test_an_instrument_reads_what_came_after_it_was_made() -> None:
    counted, calls = Totals(), []
    counted.add(ONE, 2)
    observe = counted.observer(names, lambda: calls.append(1))
    assert read(observe) == {}
    counted.add(ONE, 3)
    counted.add(OTHER, 1)
    assert read(observe) == {"one": 3, "other": 1}
    assert read(observe) == {"one": 3, "other": 1}  # a total, not what is new
    assert read(counted.observer(names, lambda: None)) == {}
    assert len(calls) == 3


def test_above_the_limit_all_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(totals, "LABELS_MAX", 1)
    counted = Totals()
    observe = counted.observer(names, lambda: None)
    for labels in (ONE, OTHER, ONE, Labels("send", "third")):
        counted.add(labels, 1)
    [first, rest] = observe(CallbackOptions())
    assert (first.value, rest.value) == (2, 2)
    assert rest.attributes == names(OVERFLOW)


def test_no_count_of_several_threads_is_lost() -> None:
    counted = Totals()
    observe = counted.observer(names, lambda: None)

    def count() -> None:
        for _ in range(2_000):
            counted.add(ONE, 1)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read(observe) == {"one": 8_000}


@pytest.mark.parametrize("counted", [SENT, CONSUMED])
def test_a_fork_does_not_wait_for_a_thread_that_counts(counted: Totals) -> None:
    assert forked_while_held(counted._lock, lambda: counted.add(ONE, 1)) == DONE
