"""The drivers and the real side, for a moment: what is sent one-way is counted where it arrived."""

from pathlib import Path

import pytest
import yaml

from benchmarks.cost import Cost
from benchmarks.load import compile_drivers, costs, measure_load, settings_of, write_accounts
from benchmarks.rows import Kind, Row
from benchmarks.sides import RocketMQ
from tests.benchmarks.examples import row_named

ROWS = [
    Row("client", Kind.CLIENT, (), "oneway", 1, messages=3_000, warmup=50),
    Row("commits", Kind.CLIENT, (), "transactions", 8, messages=800, warmup=50),
    Row("frames", Kind.FRAMES, (), "oneway", 8, messages=3_000, warmup=50),
    Row("batch", Kind.FRAMES, (), "batch", 2, messages=3_200, warmup=64, connections=2),
]


@pytest.mark.java
@pytest.mark.long
def test_drivers_say_what_was_stored_and_the_side_what_it_cost(tmp_path: Path) -> None:
    drivers = compile_drivers(tmp_path / "classes")
    folder = tmp_path / "rocketmq"
    side = RocketMQ(folder, settings_of(ROWS[0], folder))
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


def test_a_row_names_its_flush_mode_and_nothing_else_differs(tmp_path: Path) -> None:
    asynchronous, synchronous = (
        settings_of(row_named(f"{m}-1"), tmp_path) for m in ("sync", "flush")
    )
    assert {asynchronous["flushDiskType"], synchronous["flushDiskType"]} == {
        "ASYNC_FLUSH",
        "SYNC_FLUSH",
    }
    assert asynchronous.keys() == synchronous.keys()


def test_access_control_has_the_account_that_the_driver_signs_with(tmp_path: Path) -> None:
    row = row_named("acl-64")
    write_accounts(tmp_path / "store")
    home = Path(settings_of(row, tmp_path)["rocketmqHome"])
    [account] = yaml.safe_load((home / "conf" / "plain_acl.yml").read_text())["accounts"]
    assert row.driver_options == tuple(
        f"-D{key}={account[key]}" for key in ("accessKey", "secretKey")
    )


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


def test_a_row_with_a_slave_waits_for_it(tmp_path: Path) -> None:
    alone, followed = (settings_of(row_named(name), tmp_path) for name in ("sync-1", "slave-1"))
    assert followed == {**alone, "brokerRole": "SYNC_MASTER"}
