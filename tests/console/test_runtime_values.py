"""What the texts of a broker mean."""

import pytest

from wakelog.console.runtime_values import capacity_bytes, clock_ms, runtime_number, size_bytes

GIB = 1 << 30


def test_a_value_that_is_no_number_is_none() -> None:
    assert runtime_number({"a": "x"}, "a") is runtime_number({}, "a") is None
    assert runtime_number({"a": "nan"}, "a") is runtime_number({"a": "inf"}, "a") is None
    assert runtime_number({"a": "1.5"}, "a") == 1.5


@pytest.mark.parametrize(
    ("text", "count"),
    [("512 B", 512), ("1.5 GiB", 1.5 * GIB), ("2.0 KiB", 2048), ("many", 0), ("1.2.3 GiB", 0)],
)
def test_a_size_is_bytes(text: str, count: float) -> None:
    assert size_bytes(text) == count


def test_the_capacity_of_a_disk_is_read() -> None:
    values = {"commitLogDirCapacity": "Total : 98.5 GiB, Free : 40.2 GiB."}
    assert capacity_bytes(values) == 98.5 * GIB
    assert capacity_bytes({"commitLogDirCapacity": "much"}) == capacity_bytes({}) == 0


@pytest.mark.parametrize(
    ("runtime", "later_ms"),
    [
        ("[ 0 days, 0 hours, 0 minutes, 7 seconds ]", 7_000),
        ("[ 1 days, 2 hours, 3 minutes, 4 seconds ]", 93_784_000),
        ("[ 1,000 days, 0 hours, 0 minutes, 0 seconds ]", 86_400_000_000),
        ("[ 1\u202f000 days, 0 hours, 0 minutes, 0 seconds ]", 86_400_000_000),
        ("for ever", None),
    ],
)
def test_the_clock_of_a_broker_follows_from_its_start(runtime: str, later_ms: int | None) -> None:
    found = clock_ms({"bootTimestamp": "5000", "runtime": runtime})
    assert found == (None if later_ms is None else 5_000 + later_ms)
    assert clock_ms({"runtime": runtime}) is None
