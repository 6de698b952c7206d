"""Scans of one log by Spark: the source, Parquet with the same rows, and row by row.

All in one session on two cores, in turns; a first turn, which loads classes, compiles and starts
Python workers, is not counted. What is read goes nowhere (Spark's ``noop``), but as rows.
"""

import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.cost import MARK, cpu_seconds_of, processes_of
from benchmarks.spark_rows import RowSource
from tests.compat.provision import java_runtime
from wakelog.spark.session import open_session

NARROW = ("topic", "queueId", "queueOffset", "storeTimestamp", "tags")
CODECS = ("uncompressed", "snappy")
CONFIG = {
    "spark.driver.memory": "3g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
}

Figures = dict[str, float]
Scan = Callable[[], DataFrame]


@contextmanager
def session(folder: Path, master: str = "local[2]") -> Iterator[tuple[SparkSession, str]]:
    """Yield a session, and the mark that all processes of this one's sessions have."""
    # The JVM of one session serves the next of this process, so that all have one mark.
    mark = os.environ.setdefault(MARK, uuid.uuid4().hex)
    os.environ.update(java_runtime().env)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    spark = open_session(master, {**CONFIG, "spark.local.dir": str(folder / "local")})
    try:
        yield spark, mark
    finally:
        spark.stop()


def write_parquet(store: Path, folder: Path) -> None:
    """Write the rows of a store as Parquet, once for each codec, if they are not there yet."""
    waiting = [codec for codec in CODECS if not (folder / codec / "_SUCCESS").exists()]
    if waiting:
        with session(folder) as (spark, _):
            for codec in waiting:
                rows = spark.read.format("rocketmq").load(str(store))
                rows.write.mode("overwrite").option("compression", codec).parquet(
                    str(folder / codec)
                )


def scans(spark: SparkSession, store: Path, parquet: Path) -> dict[str, Scan]:
    """Return what is measured, by name."""
    spark.dataSource.register(RowSource)
    columns = ",".join(NARROW)

    def source(**options: str) -> DataFrame:
        return spark.read.format("rocketmq").options(**options).load(str(store))

    def table(codec: str) -> DataFrame:
        return spark.read.parquet(str(parquet / codec))

    return {
        "full": source,
        "full, Parquet uncompressed": lambda: table(CODECS[0]),
        "full, Parquet snappy": lambda: table(CODECS[1]),
        "narrow": lambda: source(columns=columns),
        "narrow, Parquet uncompressed": lambda: table(CODECS[0]).select(*NARROW),
        "narrow, Parquet snappy": lambda: table(CODECS[1]).select(*NARROW),
        "row by row": lambda: spark.read.format(RowSource.name()).load(str(store)),
    }


def measure_scans(
    store: Path, parquet: Path, turns_count: int, say: Callable[[str], None]
) -> dict[str, list[Figures]]:
    """Measure every scan in turns; return the figures of each turn."""
    found: dict[str, list[Figures]] = {}
    counts: dict[str, int] = {}
    with session(parquet) as (spark, mark):
        all_scans = scans(spark, store, parquet)
        for name, scan in all_scans.items():
            counts[name] = scan().count()
            _run(scan)
            say(f"warm-up, {name}: {counts[name]} rows")
        for turn in range(turns_count):
            for name in list(all_scans)[:: 1 if turn % 2 == 0 else -1]:
                figures = _measured(all_scans[name], mark, counts[name])
                found.setdefault(name, []).append(figures)
                say(f"turn {turn + 1}, {name}: {figures['seconds']:.2f} s")
    return found


def _run(scan: Scan) -> None:
    scan().write.format("noop").mode("overwrite").save()


def _measured(scan: Scan, mark: str, rows_count: int) -> Figures:
    before = cpu_seconds(mark)
    began_seconds = time.perf_counter()
    _run(scan)
    seconds = time.perf_counter() - began_seconds
    after = cpu_seconds(mark)
    return {
        "seconds": seconds,
        "rows": rows_count,
        "rows_per_second": rows_count / seconds,
        **{f"{name}_cpu_seconds": after[name] - before[name] for name in after},
    }


def cpu_seconds(mark: str) -> Figures:
    """Return what the session's JVM and its Python processes have used so far."""
    found = {"jvm": 0.0, "python": 0.0}
    for folder in processes_of(mark):
        try:
            name = "jvm" if (folder / "comm").read_text().strip() == "java" else "python"
            found[name] += cpu_seconds_of(folder)
        except (OSError, ProcessLookupError):
            continue
    return found
