"""Runs pieces of work as tasks of a Spark session: a list of items in, a list of results out.

An item and its result are Python values of some hundred bytes; what is large lies in files.

Invariants: one task an item, results in the items' order. Spark runs a task again that failed,
and may run one twice, so that work has to allow for it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import wakelog
from wakelog.spark.errors import JobFailed
from wakelog.spark.worker_memory import freeze

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Item = TypeVar("Item")
Result = TypeVar("Result")

CONTEXT_LOGGERS: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""By which pyspark says where in a query an error is, with all of Java's frames."""
_RAISED: Final = re.compile(
    r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+((?:[a-z_]\w*\.)*)(\w+): (.+)$",
    re.MULTILINE,
)
"""What Python says of an exception, inside of what Spark says."""
_REMEDIES: Final = {
    "OptionError": "correct that option",
    "StoreUnreadable": "look at the path of the store",
}
"""By the kind of an error whose text is a cause alone."""
_IN_SENTENCES: Final = frozenset({"ClientError", "NotAcknowledged"})
"""Kinds of errors whose remedy is a sentence of its own."""


class Runner(Protocol):
    """What a job needs of Spark."""

    @property
    def parallelism(self) -> int:
        """How many tasks run at once."""
        ...

    def __call__(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Do all the work. Raises: JobFailed."""
        ...


class SparkRunner:
    """Tasks of a session."""

    def __init__(self, spark: SparkSession) -> None:
        """Start nothing."""
        self._spark = spark

    @property
    def parallelism(self) -> int:
        """How many tasks run at once."""
        return self._spark.sparkContext.defaultParallelism

    def __call__(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Do all the work; `work` and items are pickled. Raises: JobFailed."""
        if not items:
            return []
        # Not mapInArrow: it wants pandas, for which there is no other use.
        tasks = self._spark.sparkContext.parallelize(items, len(items))
        with explained():
            return tasks.map(partial(_work, work)).collect()


def _work(work: Callable[[Item], Result], item: Item) -> Result:
    """Do the work of one task, in a worker."""
    result = work(item)
    freeze()
    return result


@contextmanager
def explained() -> Iterator[None]:
    """Turn what Spark raises into JobFailed."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        with _hushed():
            yield
    except (PySparkException, Py4JJavaError) as error:
        raise failure_of(error) from error


@contextmanager
def _hushed() -> Iterator[None]:
    """Keep pyspark from printing a page of JSON for an error that we say in a line."""
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger(name) for name in CONTEXT_LOGGERS]
    levels = [each.level for each in loggers]
    try:
        for each in loggers:
            each.setLevel(logging.CRITICAL)
        yield
    finally:
        for each, level in zip(loggers, levels, strict=True):
            each.setLevel(level)


def failure_of(error: Exception) -> JobFailed:
    """Take out of what Spark says of a failed task what the task itself said."""
    found = _RAISED.findall(str(error))
    if not found:
        first, *_ = str(error).splitlines() or [type(error).__name__]
        return JobFailed(f"Spark gave up: {first}", "look at its log")
    module, kind, text = found[-1]
    separator = ". " if kind in _IN_SENTENCES else "; "
    cause, _, remedy = text.partition(separator)
    if not module.startswith(wakelog.__name__):  # not in our words
        cause = f"a task failed with {kind}: {cause}"
    return JobFailed(cause, remedy or _REMEDIES.get(kind, "look at Spark's log"))
