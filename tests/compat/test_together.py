"""Calls and contexts at the same time: all are begun before one is over, and all are ended."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Barrier

import pytest

from tests.compat.together import all_entered, at_once

SECONDS_MAX = 20


def test_calls_are_under_way_at_once() -> None:
    both = Barrier(2)

    def call(value: int) -> int:
        both.wait(SECONDS_MAX)
        return value

    assert at_once(lambda: call(1), lambda: call(2)) == [1, 2]


def test_an_error_is_raised_when_all_are_over() -> None:
    over = []

    def fail() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        at_once(fail, lambda: over.append(1))
    assert over == [1]


@contextmanager
def entered(name: str, log: list[str], both: Barrier, *, fails: bool = False) -> Iterator[str]:
    both.wait(SECONDS_MAX)
    if fails:
        raise KeyError(name)
    try:
        yield name.upper()
    finally:
        both.wait(SECONDS_MAX)
        log.append(name)


def test_contexts_are_entered_and_left_at_once() -> None:
    log: list[str] = []
    both = Barrier(2)
    with all_entered({name: entered(name, log, both) for name in "ab"}) as values:
        assert values == {"a": "A", "b": "B"}
    assert sorted(log) == ["a", "b"]


def test_what_was_entered_is_left_if_another_could_not_be() -> None:
    log: list[str] = []
    one, other = Barrier(1), Barrier(1)
    managers = {"a": entered("a", log, one), "b": entered("b", log, other, fails=True)}
    with pytest.raises(KeyError), all_entered(managers):
        raise AssertionError("not reached")
    assert log == ["a"]
