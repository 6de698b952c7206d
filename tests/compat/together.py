"""What waits for other processes, done at the same time: each in a thread of its own."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

T = TypeVar("T")


def at_once(*calls: Callable[[], T]) -> list[T]:
    """Return what the calls return, once all of them are over; raise what one of them raises."""
    with ThreadPoolExecutor(len(calls)) as pool:
        begun = [pool.submit(call) for call in calls]
    return [one.result() for one in begun]


@contextmanager
def all_entered(managers: Mapping[str, AbstractContextManager[T]]) -> Iterator[dict[str, T]]:
    """Enter all at once, and leave all at once; those that were entered if one could not be."""
    with ThreadPoolExecutor(len(managers)) as pool:
        begun = {name: pool.submit(one.__enter__) for name, one in managers.items()}
    try:
        yield {name: one.result() for name, one in begun.items()}
    finally:
        entered = [managers[name] for name, one in begun.items() if one.exception() is None]
        with ThreadPoolExecutor(len(managers)) as pool:
            left = [pool.submit(one.__exit__, None, None, None) for one in entered]
        for one in left:
            one.result()
