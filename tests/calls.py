"""Counts calls of functions: what a piece of work costs, the same on every machine."""

import gc
import sys
from collections.abc import Callable, Generator
from types import FrameType
from typing import Any


def count_calls(work: Callable[[], Any]) -> int:
    """Return how many functions a piece of work calls, those in C included."""
    return counted(work)[0]


def counted(work: Callable[[], Any]) -> tuple[int, Any]:
    """Do a piece of work; return how many functions it called, and its result.

    What a collection of garbage would call, callbacks and finalizers, is not of the work.
    """
    calls, collects = 0, gc.isenabled()

    def count(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    gc.disable()
    sys.setprofile(count)
    try:
        result = work()
    finally:
        sys.setprofile(None)
        if collects:
            gc.enable()
    return calls, result


def calls_of_steps(steps: Generator[None, None, Any]) -> tuple[list[int], Any]:
    """Do all steps; return how many functions each has called, and the result."""
    calls: list[int] = []

    def take() -> tuple[bool, Any]:
        try:
            next(steps)
        except StopIteration as end:
            return True, end.value
        return False, None

    while True:
        count, (is_over, result) = counted(take)
        calls.append(count)
        if is_over:
            return calls, result
