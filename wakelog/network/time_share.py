"""A share of a loop's time: work that goes on in pieces stops when it has had so much.

Source: none upstream; there a thread of a pool is interrupted by the kernel.
"""

import time
from collections.abc import Callable


def run_for_a_share(
    step: Callable[[], bool], seconds: float, clock_seconds: Callable[[], float] = time.monotonic
) -> bool:
    """Do steps, one at least, until one says that nothing is left or the time is over.

    step: does one piece of the work, and returns whether more is left. A piece is not interrupted.

    Returns: whether more is left.
    """
    end_seconds = clock_seconds() + seconds
    while step():
        if clock_seconds() >= end_seconds:
            return True
    return False
