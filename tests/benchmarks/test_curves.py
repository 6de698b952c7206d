"""Curves: rounds over points, kept curve by curve, and the logs that sides begin with."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks import curves
from benchmarks.curve_logs import (
    LAST_SHARE,
    LOG_FOLDER,
    SEGMENT_BYTES,
    SegmentedLogs,
    Segments,
    disk_bytes_needed,
    link_store,
)
from benchmarks.curve_points import BODIES_BYTES_MAX, row_of
from benchmarks.curve_rows import CURVES, Curve
from benchmarks.curves import Bench, measure_curve
from benchmarks.load import Run
from benchmarks.pairs import VOID_MAX
from wakelog.audit.verify import verify
from wakelog.storage.config import StoreConfig


def curve_named(name: str) -> Curve:
    [found] = [curve for curve in CURVES if curve.name == name]
    return found


class FakeBench:
    """Answers points with their size; fails at those that are listed, as often as is said."""

    def __init__(self, failing: dict[tuple[int, str], int] | None = None) -> None:
        self._failing = failing or {}
        self.asked: list[tuple[int, str]] = []

    def run(self, curve: Curve, size: int, name: str) -> tuple[Run, Mapping[str, object]]:
        self.asked.append((size, name))
        failures = self._failing.get((size, name), 0)
        self._failing[size, name] = failures - 1
        figures = {figure.name: float(size) for figure in (*curve.costs, *curve.shown)}
        return {"errors": int(failures > 0), "more": 1, **figures}, {"size": size}


def measured(bench: FakeBench, rounds: int = 1) -> dict[str, Any]:
    said: list[str] = []
    curve = curve_named("held")._replace(sizes=(1, 10))
    return measure_curve(curve, cast(Bench, bench), rounds, said.append)


def test_a_round_sweeps_over_points_and_at_each_over_sides() -> None:
    bench = FakeBench()
    found = measured(bench, rounds=2)
    both = [(size, side) for size in (1, 10) for side in ("wakelog", "rocketmq")]
    assert bench.asked == both * 2
    assert (
        found["points"]["10"]
        == [{side: {"p50_ms": 10.0, "broker_cpu": 10.0} for side in ("wakelog", "rocketmq")}] * 2
    )


def test_a_void_point_is_repeated_up_to_a_limit() -> None:
    found = measured(FakeBench({(1, "wakelog"): 1, (10, "rocketmq"): 2}))
    errors = ["1: wakelog", "10: rocketmq", "10: rocketmq"]
    assert found["void"] == [f"{each}: 1 client errors" for each in errors]
    assert len(found["points"]["10"]) == 1 and found["points"]["10"][0]
    found = measured(FakeBench({(10, "rocketmq"): 100}))
    assert len(found["void"]) == VOID_MAX + 1
    assert found["points"]["1"][0] and found["points"]["10"] == [{}]


def test_a_curve_that_is_measured_again_replaces_itself_alone(tmp_path: Path) -> None:
    head = {"measured": "today", "load": {"before": 0.0, "busy_percent": 0.0}, "void": []}
    machine = dict.fromkeys(
        ("cores", "processor", "file_system", "kernel", "python", "python_build", "twin"), "x"
    ) | {"ray": "x", "java": "x"}
    point = {side: {"p50_ms": 1.0, "broker_cpu": 1.0} for side in ("wakelog", "rocketmq")}
    shown = {side: {**point[side], "us_each": 1.0, "per_second": 1.0} for side in point}
    held = {**head, "machine": machine, "points": {"1": [point]}}
    queues = {**head, "machine": machine, "points": {"1": [shown]}}
    curves.write({"held": held}, tmp_path)
    curves.write({"queues": queues}, tmp_path)
    curves.write({"held": {**held, "measured": "tomorrow"}}, tmp_path)
    found = curves.read(tmp_path)
    assert list(found) == ["queues", "held"]
    assert [each["measured"] for each in found.values()] == ["today", "tomorrow"]
    page = (tmp_path / curves.PAGE_NAME).read_text()
    assert "## queues" in page and "## held" in page
    assert (tmp_path / "curves.svg").read_text().startswith("<svg")


def test_points_keep_what_their_curve_says() -> None:
    assert [row_of(curve_named("connections"), size).workers for size in (1, 1_000)] == [1, 1]
    spread = [row_of(curve_named("spread"), size) for size in curve_named("spread").sizes]
    assert {row.connections * row.workers for row in spread} == {1_000}
    bodies = [row_of(curve_named("bodies"), size) for size in curve_named("bodies").sizes]
    assert all(row.messages * row.body_bytes <= BODIES_BYTES_MAX for row in bodies)
    queues = [row_of(curve_named("queues"), size) for size in curve_named("queues").sizes]
    assert [row.topics * row.queues for row in queues] == list(curve_named("queues").sizes)
    assert all(row.warmup >= row.topics * row.queues for row in queues)


def test_a_linked_store_shares_full_segments_alone(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / LOG_FOLDER).mkdir(parents=True)
    (source / "config").mkdir()
    (source / "config" / "topics.json").write_text("{}")
    for number in range(3):
        (source / LOG_FOLDER / f"{number:020}").write_bytes(b"%d" % number)
    link_store(source, target)
    shared = [path.samefile(target / LOG_FOLDER / path.name) for path in log_of(source)]
    assert shared == [True, True, False]
    assert [path.read_bytes() for path in log_of(target)] == [b"0", b"1", b"2"]
    assert not (target / "config" / "topics.json").samefile(source / "config" / "topics.json")


def test_logs_of_all_sizes_are_sound_and_share_segments(tmp_path: Path) -> None:
    segments = Segments(segment_bytes=1 << 16)
    said: list[str] = []
    logs = SegmentedLogs(tmp_path / "logs", [3, 1], said.append, segments)
    assert said == ["a log of 1 GiB is written", "a log of 3 GiB is written"]
    for size in (1, 3):
        logs.copy_into(size, tmp_path / f"{size}")
        links = [path.stat().st_nlink for path in log_of(tmp_path / f"{size}")]
        assert links == [2] * (size - 1) + [1]
    config = StoreConfig(store_path_root=str(tmp_path / "3"), commit_log_file_bytes=1 << 16)
    report = verify(config, scratch=str(tmp_path))
    assert report.findings.is_sound, report.findings.kept
    count = segments.records_count
    assert report.entries_count == 2 * count + int(count * LAST_SHARE)
    assert report.keys_count == 2 * report.entries_count


def log_of(store: Path) -> list[Path]:
    return sorted((store / LOG_FOLDER).iterdir())


def test_logs_that_the_disk_has_no_room_for_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert disk_bytes_needed([1, 4, 16]) > disk_bytes_needed([1, 16]) > 16 * SEGMENT_BYTES
    with pytest.raises(SystemExit):
        curves.main(["--curve", "log", "--log-gib", "100000"])
    assert "give less by --log-gib" in capsys.readouterr().err
