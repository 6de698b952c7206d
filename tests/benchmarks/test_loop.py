"""What the loop's measurement makes of samples, and how it knows what is in the page cache."""

import os
import random
from pathlib import Path

from benchmarks.loop import (
    RATIO_MAX,
    around,
    compare,
    evict,
    figures_of,
    is_missed,
    residency,
    rolls_in,
    table,
)

MIB = 1 << 20


def test_percentiles_are_of_latencies_and_refusals_are_counted() -> None:
    samples = [(0.0, latency / 10, -1 if latency > 998 else 5) for latency in range(1000)]
    random.Random(1).shuffle(samples)
    figures = figures_of(samples)
    assert figures == {
        "count": 1000,
        "refused": 1,
        "p50_ms": 50.0,
        "p99_ms": 99.0,
        "p999_ms": 99.9,
        "max_ms": 99.9,
    }


def test_a_roll_is_seen_where_sends_come_to_lie_and_its_window_is_apart() -> None:
    samples = [(second / 10, 1.0, int(second * MIB / 40)) for second in range(100)]
    moments = rolls_in(samples, MIB)
    assert moments == [4.0, 8.0]
    far, near = around(samples, moments)
    assert len(far) + len(near) == 100
    assert {sample[0] for sample in near} == {
        second / 10 for second in [*range(40, 50), *range(80, 90)]
    }


def test_a_broker_that_holds_up_its_sender_misses_the_bound() -> None:
    quiet = figures_of([(0.0, 1.0, 0)] * 200)
    for latency_ms, missed in ((RATIO_MAX, False), (RATIO_MAX + 0.1, True)):
        loaded = figures_of([(0.0, latency_ms, 0)] * 200)
        results = {"roll": {"wakelog": compare([quiet], [loaded]) | {"moments": 2}}}
        assert any(is_missed(results)) is missed
        assert f"| {latency_ms:.2f} |" in table(results)
    assert any(is_missed({"dispatch": {"first_ms": [1.0, 51.0]}}))


def test_the_page_cache_is_reported_page_by_page(tmp_path: Path) -> None:
    paths = [tmp_path / kind / "file" for kind in ("commitlog", "consumequeue")]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes(bytes(range(256)) * 4096)
    with open(paths[0], "rb+") as file:
        assert sum(residency(file.fileno())) * os.sysconf("SC_PAGE_SIZE") == MIB
    stayed_share = evict(tmp_path)  # 0 on a disk, 1 on a file system in memory
    assert 0.0 <= stayed_share <= 1.0
    assert all(path.read_bytes() == bytes(range(256)) * 4096 for path in paths)
