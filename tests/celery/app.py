"""The app of the tests, which their workers import: tasks that note each run of theirs in a file.

WAKELOG_TEST_BROKER: the URL. WAKELOG_TEST_FOLDER: for results, and for the file `runs`.
"""

import os
import time
from pathlib import Path

from celery import Celery

import wakelog.celery  # noqa: F401  # the scheme

FOLDER = Path(os.environ["WAKELOG_TEST_FOLDER"])

app = Celery("tests.celery.app", broker=os.environ["WAKELOG_TEST_BROKER"])
app.conf.update(
    result_backend=f"file://{FOLDER}",
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=4,
    broker_connection_retry_on_startup=True,
    worker_cancel_long_running_tasks_on_connection_loss=False,
)


@app.task(shared=False)  # type: ignore[untyped-decorator]
def add(left: int, right: int) -> int:
    return left + right


@app.task(shared=False)  # type: ignore[untyped-decorator]
def total(numbers: list[int]) -> int:
    return sum(numbers)


@app.task(shared=False)  # type: ignore[untyped-decorator]
def moment() -> float:
    return time.time()


@app.task(ignore_result=True, shared=False)  # type: ignore[untyped-decorator]
def note(number: int) -> None:
    """Work a little, and note that it was done, by one write that no other run breaks."""
    time.sleep(0.002)
    with (FOLDER / "runs").open("ab", buffering=0) as runs:
        runs.write(f"{number}\n".encode())
