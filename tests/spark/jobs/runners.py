"""Runs the tasks of a job in this process: in the worst order, and some of them twice."""

import pickle
from collections.abc import Callable, Sequence


class LocalRunner:
    """Last task first; every `twice`th of them once more, as Spark may do."""

    def __init__(self, *, twice: int = 1) -> None:
        self._twice = twice

    def __call__(self, work: Callable[[int], None], items: Sequence[int]) -> None:
        work, items = pickle.loads(pickle.dumps((work, items)))
        for number in reversed(range(len(items))):
            for _ in range(2 if number % self._twice == 0 else 1):
                work(items[number])
