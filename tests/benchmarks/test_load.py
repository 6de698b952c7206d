"""The drivers and the real side, for a moment: what is sent one-way is counted where it arrived."""

from pathlib import Path

import pytest

from benchmarks.cost import Cost
from benchmarks.load import compile_drivers, costs, measure_load, settings_of
from benchmarks.rows import Kind, Row
from benchmarks.sides import RocketMQ
from tests.benchmarks.examples import row_named

ROWS = [
    Row("client", Kind.CLIENT, (), "oneway", 1, messages=3_000, warmup=50),
    Row("frames", Kind.FRAMES, (), "oneway", 8, messages=3_000, warmup=50),
    Row("batch", Kind.FRAMES, (), "batch", 2, messages=3_200, warmup=64, connections=2),
]


@pytest.mark.java
@pytest.mark.long
def test_drivers_say_what_was_stored_and_the_side_what_it_cost(tmp_path: Path) -> None:
    drivers = compile_drivers(tmp_path / "classes")
    side = RocketMQ(tmp_path / "rocketmq", settings_of(ROWS[0]))
    try:
        runs = [measure_load(row, side, drivers) for row in ROWS]
    finally:
        side.stop()
    for row, run in zip(ROWS, runs, strict=True):
        assert (run["messages"] + run["lost"], run["errors"]) == (row.messages, 0)
        # Of what is sent without an answer the real broker drops some when it has too much to do.
        assert run["messages"] > 0 if row.mode == "oneway" else run["lost"] == 0
    assert all(run["per_second"] > 0 and run["cpu"] >= run["broker_cpu"] for run in runs)
    # The kernel counts in hundredths of a second: a run as short as these may use none.
    assert sum(run["broker_cpu"] for run in runs) > 0
    assert side.configuration["jvm"] == ("-Xms2g", "-Xmx2g")


def test_a_row_names_its_flush_mode_and_nothing_else_differs() -> None:
    asynchronous, synchronous = settings_of(row_named("sync-1")), settings_of(row_named("flush-1"))
    assert {asynchronous["flushDiskType"], synchronous["flushDiskType"]} == {
        "ASYNC_FLUSH",
        "SYNC_FLUSH",
    }
    assert asynchronous.keys() == synchronous.keys()


def test_a_run_costs_what_was_used_meanwhile() -> None:
    before = Cost({"JVM broker": 5.0}, 5.0, 0, 0, 0)
    after = Cost({"JVM broker": 8.0, "raylet": 1.0}, 8.0, 3 << 20, 2 << 20, 1 << 20)
    run = {
        "driver_seconds": 10.0,
        "driver_cpu_seconds": 0.05,
    }
    assert costs(before, after, run, 1_000_000) == {
        "cpu": 4.0,
        "broker_cpu": 3.0,
        "pss_mib": 3.0,
        "memory_mib": 2.0,
        "shared_memory_mib": 1.0,
        "busy_percent": {"JVM broker": 30.0, "raylet": 10.0},
    }
