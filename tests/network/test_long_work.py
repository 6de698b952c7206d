"""Long work: whose step is next, and how long a turn spends on it."""

from typing import Any

import pytest

from tests.network.fakes import FakeClock
from wakelog.network import long_work
from wakelog.network.long_work import STEPS_SECONDS, LongWork
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

    def add(self, name: str, count: int, *, is_over: bool = False) -> bool:
        def done(result: Any, error: Exception | None) -> None:
            self.results.append((result, error))

        return self.work.add(self.steps(name, count), done, lambda: is_over)


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
