"""Opens a Spark session whose workers run this Python, and checks for a Java first.

A session of the user's own finds the source too, if its workers run the Python in which wakelog is
installed (`PYSPARK_PYTHON`).

Invariants: an environment variable that is set already is kept.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wakelog.spark.errors import SourceError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_VERSION_MIN: Final = 17
"""Spark 4 needs it, with the module jdk.incubator.vector, which some small runtimes lack."""
JAVA_END_SECONDS_MAX: Final = 10
"""An idle Java ends in one or two; a user who interrupts does not wait longer."""
LOCAL_SOCKETS: Final = "spark.python.unix.domain.socket.enabled"
"""Rows go from Python to Java over a Unix socket, which costs less than TCP."""


class SparkMissing(SourceError):
    """PySpark, or a Java for it, is not installed; the text says what to install."""


class SparkRefused(SourceError):
    """Spark did not start with its settings; Java wrote the reason before."""

    def __init__(self, said: str) -> None:
        """said: the first line of the error."""
        super().__init__(
            f"Spark did not start: {said}; check its master, its settings and its output above"
        )


def open_session(
    master: str | None = "local[*]", config: Mapping[str, str] | None = None
) -> SparkSession:
    """Return the session of this process; open one if there is none.

    master: None for the master of spark-submit.
    Raises: SparkMissing, SparkRefused.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        cause = "PySpark is not installed: install wakelog with its extra spark"
        raise SparkMissing(cause) from error
    found = SparkSession.getActiveSession()
    if found is not None:
        return found
    given = dict(config or {})
    if not is_submitted(os.environ):
        check_java(os.environ)
        given.setdefault(LOCAL_SOCKETS, "true")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("wakelog")
    if master is not None:
        builder = builder.master(master)
    for name, value in given.items():
        builder = builder.config(name, value)
    try:
        session: SparkSession = builder.getOrCreate()
    except Exception as error:  # errors of Java, py4j and pyspark have no class in common
        first, *_ = str(error).splitlines() or [type(error).__name__]
        raise SparkRefused(first) from error
    return session


@contextmanager
def job_session(
    master: str | None = None, config: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Yield a session for one job; stop it after the job if it was opened here.

    master: None for the master of spark-submit, or else all cores of this machine.
    Raises: SparkMissing, SparkRefused.
    """
    if master is None and not is_submitted(os.environ):
        master = "local[*]"
    is_ours = _active_session() is None
    session = None
    try:
        session = open_session(master, config)
        yield session
    except Exception:
        if is_ours and session is not None:
            session.stop()
        raise
    except BaseException:
        if is_ours:
            end_java()
        raise
    if is_ours:
        session.stop()


def end_java() -> None:
    """End Spark without a call: the answer of an interrupted call would confuse the next one."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is not None:
        process.stdin.close()  # Java waits for this, and then removes its files
        with suppress(subprocess.TimeoutExpired):
            process.wait(JAVA_END_SECONDS_MAX)


def is_submitted(environment: Mapping[str, str]) -> bool:
    """Return whether spark-submit started this process; its Java knows the master then."""
    return "PYSPARK_GATEWAY_PORT" in environment


def _active_session() -> SparkSession | None:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        return None
    return SparkSession.getActiveSession()


def check_java(environment: Mapping[str, str]) -> None:
    """Check the Java that Spark would start. Raises: SparkMissing."""
    home = environment.get("JAVA_HOME")
    java = (
        str(Path(home, "bin", "java")) if home else shutil.which("java", path=environment["PATH"])
    )
    advice = (
        f"Spark needs a Java runtime of version {JAVA_VERSION_MIN} or newer: put one on PATH or "
        "name it in JAVA_HOME"
    )
    if java is None or not os.access(java, os.X_OK):
        raise SparkMissing(f"{advice}; there is none{f' at {home}' if home else ''}")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    if version is None or int(version[1]) < JAVA_VERSION_MIN:
        raise SparkMissing(f"{advice}; {java} says {said.splitlines()[0] if said else 'nothing'}")
