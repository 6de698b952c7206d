"""The app and its tasks. NAME_SERVER and RESULTS say where; the defaults are of one machine."""

import os
import tempfile

from celery import Celery

import wakelog.celery  # noqa: F401  # the scheme rocketmq

NAME_SERVER = os.environ.get("NAME_SERVER", "127.0.0.1:9876")
RESULTS = os.environ.get("RESULTS", tempfile.gettempdir())

app = Celery("tasks", broker=f"rocketmq://{NAME_SERVER}", backend=f"file://{RESULTS}")
app.conf.task_acks_late = True  # a task whose worker dies is given to another one


@app.task  # type: ignore[untyped-decorator]
def amount(cents: int, count: int) -> int:
    """Return what several of a thing come to."""
    return cents * count


@app.task  # type: ignore[untyped-decorator]
def bill(amounts: list[int]) -> str:
    """Return the text of a bill."""
    return f"{sum(amounts) / 100:.2f} EUR"
