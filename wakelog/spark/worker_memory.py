"""What a Spark worker keeps between tasks, kept out of the way of its garbage collections.

Spark's Python worker collects garbage after each task. It looks through all that is alive then:
with numba and the compiled loops imported that is some 90 ms, as much as reading 128 MiB takes.

Invariants: done once in a process, and only in a worker of Spark's.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import TypeVar

from pyspark import TaskContext

Batch = TypeVar("Batch")


class _Worker:
    """This process."""

    is_frozen = False


def freeze_after(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Yield a task's batches; what is alive behind the first task's last is never looked at again.

    That is what was imported, and the little of the task that is still held, which goes as its
    last reference does.
    """
    yield from batches
    if TaskContext.get() is not None and not _Worker.is_frozen:
        _Worker.is_frozen = True
        gc.freeze()
