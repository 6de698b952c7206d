"""Excludes what a Spark worker keeps between tasks from its garbage collections.

A Python worker of Spark collects garbage after each task, and a planner after each query. With
what a worker imports, a collection takes some 60 ms: as long as reading 80 MiB.

Invariants: done once in a process, and only in a worker that Spark uses again.
"""

import gc
import os
from collections.abc import Iterator
from typing import Final, TypeVar

Batch = TypeVar("Batch")

REUSED: Final = "SPARK_REUSE_WORKER"
"""Only the environment of such a worker has this."""


_is_frozen = False


def freeze_after(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Yield the batches of a task, then exclude what is alive from later collections.

    That is the imported modules, and the few objects of the task that are still referenced.
    """
    yield from batches
    freeze()


def freeze() -> None:
    """Exclude what is alive now from all later collections."""
    global _is_frozen
    if REUSED in os.environ and not _is_frozen:
        _is_frozen = True
        gc.freeze()
