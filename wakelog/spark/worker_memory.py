"""What a Spark worker keeps between tasks, kept out of the way of its garbage collections.

Spark's Python workers collect garbage after each task, and those that plan after each query. They
look through all that is alive then: with numba and the compiled loops imported that is some 90 ms,
as much as reading 128 MiB takes. A planner does it while the query's first tasks run.

Invariants: done once in a process, and only in a worker of Spark's that is used again.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import Final, TypeVar

Batch = TypeVar("Batch")

REUSED: Final = "SPARK_REUSE_WORKER"
"""In the environment of such a worker, and of nobody else."""


class _Worker:
    """This process."""

    is_frozen = False


def freeze_after(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Yield a task's batches; what is alive behind the first task's last is never looked at again.

    That is what was imported, and the little of the task that is still held, which goes as its
    last reference does.
    """
    yield from batches
    freeze()


def freeze() -> None:
    """Leave what is alive now out of all later collections."""
    if REUSED in os.environ and not _Worker.is_frozen:
        _Worker.is_frozen = True
        gc.freeze()
