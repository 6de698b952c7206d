"""Runs the tasks of a job in this process: in the worst order, and some of them twice."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class LocalRunner:
    """Last task first; every `twice`th of them once more, as Spark may do."""

    def __init__(self, *, twice: int = 1) -> None:
        self._twice = twice

    def __call__(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        work, items = pickle.loads(pickle.dumps((work, items)))
        found = []
        for number in reversed(range(len(items))):
            result = work(items[number])
            if number % self._twice == 0:
                again = work(items[number])
                assert again == result
            found.append(result)
        return found[::-1]
