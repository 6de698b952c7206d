"""Runs work as tasks of a Spark session: a list of items in, a list of results out.

An item and its result are Python values of some hundred bytes; larger data is in files.

Invariants: one task for each item, results in the items' order. Spark repeats a failed task and
may run one twice, so the work has to allow that.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import wakelog
from wakelog.spark.errors import JobFailed
from wakelog.spark.worker_memory import freeze

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Item = TypeVar("Item")
Result = TypeVar("Result")
Runner: TypeAlias = Callable[[Callable[[int], None], Sequence[int]], object]
"""`run_tasks` with its session, for work on segments: it does the work of all items."""

CONTEXT_LOGGERS: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""The loggers by which pyspark prints an error's place, with all frames of Java."""
_RAISED: Final = re.compile(
    r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+((?:[a-z_]\w*\.)*)(\w+): (.+)$",
    re.MULTILINE,
)
"""Python's report of an exception, inside of Spark's text."""
_REMEDIES: Final = {
    "OptionError": "correct that option",
    "StoreUnreadable": "check the path of the store",
}
"""Remedies for the kinds of errors whose text is only a cause."""
_IN_SENTENCES: Final = frozenset({"ClientError", "NotAcknowledged"})
"""The kinds of errors whose remedy is a sentence of its own."""


def run_tasks(
    spark: SparkSession, work: Callable[[Item], Result], items: Sequence[Item]
) -> list[Result]:
    """Do the work of all items; `work` and items are pickled. Raises: JobFailed."""
    if not items:
        return []
    # Not mapInArrow: it needs pandas, which nothing else here needs.
    tasks = spark.sparkContext.parallelize(items, len(items))
    with explained():
        return tasks.map(partial(_work, work)).collect()


def _work(work: Callable[[Item], Result], item: Item) -> Result:
    """Do the work of one task, in a worker process."""
    result = work(item)
    freeze()
    return result


@contextmanager
def explained() -> Iterator[None]:
    """Convert the errors of Spark into JobFailed."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        with _quiet():
            yield
    except (PySparkException, Py4JJavaError) as error:
        raise failure_of(error) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep pyspark from printing a page of JSON for an error."""
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
    """Return the task's own error from Spark's report of a failed task."""
    found = _RAISED.findall(str(error))
    if not found:
        first, *_ = str(error).splitlines() or [type(error).__name__]
        return JobFailed(f"Spark gave up: {first}", "check its log")
    module, kind, text = found[-1]
    separator = ". " if kind in _IN_SENTENCES else "; "
    cause, _, remedy = text.partition(separator)
    if not module.startswith(wakelog.__name__):  # not in our words
        cause = f"a task failed with {kind}: {cause}"
    return JobFailed(cause, remedy or _REMEDIES.get(kind, "check Spark's log"))
