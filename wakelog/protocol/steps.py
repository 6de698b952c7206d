"""Steps: long work in pieces, so that one loop can do other things between them.

It is a generator. It yields where it may pause, and returns the result. No piece takes longer than
a fraction of a millisecond, however large a request is. What it changes between two pauses belongs
together: whatever runs meanwhile sees tables that keep their invariants.

Source: none upstream; there a thread of a pool is interrupted by the kernel.
"""

from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import TypeAlias, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

Steps: TypeAlias = Generator[None, None, Result]


def finish(steps: Steps[Result]) -> Result:
    """Do all of the work at once, and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


def batched(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield lists of `size` items, the last of fewer.

    The items are copied first, so that they may change between two steps; copying a million
    references takes a few milliseconds.
    """
    left = iter(list(items))
    while batch := list(islice(left, size)):
        yield batch
