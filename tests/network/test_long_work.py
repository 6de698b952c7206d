"""Long work: whose step is next, and how long a turn spends on it."""

from typing import Any

import pytest

from tests.network.fakes import FakeClock
from wakelog.network import long_work
from wakelog.network.long_work import LARGE_BODY_BYTES, LARGE_MAX, STEPS_SECONDS, LongWork
from wakelog.protocol.steps import Steps


class Bench:
    """Long work whose steps take a quarter of the time that a turn has for them."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.work = LongWork(self.clock)
        self.steps_of: list[str] = []
        self.results: list[tuple[Any, Exception | None]] = []

    def steps(self, name: str, count: int) -> Steps[str]:
        for _ in range(count):
            self.clock.seconds += STEPS_SECONDS / 4
            self.steps_of.append(name)
            yield
        if name == "bad":
            raise ValueError(name)
        return name

    def add(self, name: str, count: int, *, is_over: bool = False, body_bytes: int = 0) -> bool:
        def done(result: Any, error: Exception | None) -> None:
            self.results.append((result, error))

        return self.work.add(self.steps(name, count), done, lambda: is_over, body_bytes=body_bytes)


def test_each_has_a_step_in_turn_until_the_time_is_spent() -> None:
    bench = Bench()
    bench.add("a", 8)
    bench.add("b", 3)
    bench.work.run()
    assert bench.steps_of == ["a", "b", "a", "b"]
    assert not bench.results
    while bench.work:
        bench.work.run()
    assert "".join(bench.steps_of) == "ababab" + "a" * 5
    assert bench.results == [("b", None), ("a", None)]
    bench.work.run()


def test_an_error_is_a_result_and_work_without_a_client_is_dropped() -> None:
    bench = Bench()
    bench.add("bad", 1)
    bench.add("closed", 9, is_over=True)
    while bench.work:
        bench.work.run()
    assert bench.steps_of == ["bad"]
    (first, second) = bench.results
    assert first == (None, None)
    assert isinstance(second[1], ValueError)
    assert bench.work.dropped_count == 1


def test_no_more_than_the_limit_are_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_work, "REQUESTS_MAX", 2)
    bench = Bench()
    assert [bench.add("a", 3), bench.add("b", 3), bench.add("c", 3)] == [True, True, False]
    assert len(bench.work) == 2


def test_few_large_requests_are_begun_and_small_ones_do_not_wait_for_them() -> None:
    bench = Bench()
    large = "ABCDE"
    for number, name in enumerate(large):
        bench.add(name, 6, is_over=name == "D", body_bytes=LARGE_BODY_BYTES + number)
    bench.add("s", 2, body_bytes=LARGE_BODY_BYTES - 1)
    assert len(bench.work) == 6
    begun: set[str] = set()
    while bench.work:
        bench.work.run()
        begun.update(bench.steps_of)
        open_count = len(begun.intersection(large)) - sum(
            result in tuple(large) for result, _ in bench.results
        )
        assert open_count <= LARGE_MAX
    assert [result for result, _ in bench.results] == ["s", "A", "B", None, "C", "E"]
    assert bench.work.dropped_count == 1
