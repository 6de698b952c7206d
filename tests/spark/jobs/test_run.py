"""Work as tasks: a result for each item in order, and what is said when a task fails."""

import gc
import logging

import pytest
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from wakelog.spark.errors import JobFailed
from wakelog.spark.jobs.run import CONTEXT_LOGGERS, explained, failure_of, run_tasks
from wakelog.storage.errors import DamagedStore


def double(item: int) -> tuple[int, str]:
    return 2 * item, "x"


def refuse(item: int) -> int:
    raise DamagedStore("/a/file", f"item {item} is bad", "mend it")


@pytest.mark.spark
@pytest.mark.slow
def test_results_come_in_the_order_of_the_items(spark: SparkSession) -> None:
    assert run_tasks(spark, double, [3, 1, 2]) == [(6, "x"), (2, "x"), (4, "x")]
    assert run_tasks(spark, double, []) == []


def frozen_count(item: int) -> int:
    return gc.get_freeze_count()


@pytest.mark.spark
@pytest.mark.slow
def test_the_collector_skips_what_a_task_imported(spark: SparkSession) -> None:
    assert max(run_tasks(spark, frozen_count, range(8))) > 1000


@pytest.mark.spark
@pytest.mark.slow
def test_a_failed_task_says_why_and_what_to_do(spark: SparkSession) -> None:
    with pytest.raises(JobFailed, match=r"^/a/file: item 5 is bad; mend it$") as caught:
        run_tasks(spark, refuse, [5])
    assert caught.value.remedy == "mend it"


def test_a_failure_of_spark_itself_is_reported_as_it_is() -> None:
    failure = failure_of(ValueError("no room"))
    assert failure.cause == "Spark gave up: no room"


def test_pyspark_prints_no_page_for_what_is_explained() -> None:
    loggers = [PySparkLogger.getLogger(name) for name in CONTEXT_LOGGERS]
    with explained():
        assert not any(each.isEnabledFor(logging.ERROR) for each in loggers)
    assert all(each.isEnabledFor(logging.ERROR) for each in loggers)


SAID = """[STREAM_FAILED] Query [id = 1] terminated with exception:
Traceback (most recent call last):
  File "/x/job.py", line 7, in work
    raise DamagedStore
wakelog.storage.errors.DamagedStore: /a: it is bad; mend it
\tat org.apache.spark.Something
=== Streaming Query ===
Identifier: [id = 1]
"""


def test_what_the_task_said_is_found_in_what_spark_says() -> None:
    failure = failure_of(ValueError(SAID))
    assert (failure.cause, failure.remedy) == ("/a: it is bad", "mend it")
    failure = failure_of(ValueError(SAID.replace("wakelog.storage.errors.DamagedStore", "OSError")))
    assert failure.cause == "a task failed with OSError: /a: it is bad"


@pytest.mark.parametrize(
    ("said", "cause", "remedy"),
    [
        ("spark.errors.OptionError: no option 'x'", "no option 'x'", "correct that option"),
        ("spark.remote.routes.ClientError: no answer. Look there", "no answer", "Look there"),
        ("spark.errors.DataLost: gone. So; do this", "gone. So", "do this"),
    ],
)
def test_what_to_do_goes_with_the_kind_of_error(said: str, cause: str, remedy: str) -> None:
    text = SAID.replace("storage.errors.DamagedStore: /a: it is bad; mend it", said)
    failure = failure_of(ValueError(text))
    assert (failure.cause, failure.remedy) == (cause, remedy)


def test_what_spark_raises_is_explained() -> None:
    with pytest.raises(JobFailed, match="Spark gave up: no room"), explained():
        raise PySparkException("no room")
