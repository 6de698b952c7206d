"""The driver: whose piece is next, how long a turn spends on it, and what effects come to."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from tests.network.fakes import FakeClock
from wakelog.network import driver
from wakelog.network.connection import Connection
from wakelog.network.driver import (
    LARGE_BODY_BYTES,
    LARGE_MAX,
    NOW,
    RESULTS_SECONDS,
    STEPS_SECONDS,
    Driver,
    Task,
    Work,
)
from wakelog.network.time_share import run_for_a_share
from wakelog.protocol.command import RemotingCommand


class Fetch:
    """An effect whose executor keeps the task."""


class Refuse:
    """An effect whose executor refuses."""


class Bench:
    """A driver whose pieces take a quarter of the time that a turn has for them."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.pieces_of: list[str] = []
        self.ended: list[tuple[Any, BaseException | None]] = []
        self.counted: list[str] = []
        self.fetching: list[Task] = []
        self.turns_asked = 0
        self.over: set[Task] = set()
        self.driver = Driver(
            self,
            {Fetch: lambda _, task: self.fetching.append(task), Refuse: self.refuse},
            self.clock,
            self.clock.wall_ms,
        )

    def refuse(self, effect: Refuse, task: Task) -> None:
        raise ValueError("full")

    # The turn.

    def schedule(self) -> None:
        self.turns_asked += 1

    def task_paused(self, task: Task) -> None:
        self.counted.append("paused")

    def task_left(self, task: Task) -> None:
        self.counted.append("left")

    def task_ended(self, task: Task, outcome: Any, error: BaseException | None) -> None:
        self.ended.append((outcome, error))

    def task_refused(self, task: Task) -> None:
        self.ended.append(("refused", None))

    # Work.

    def pieces(self, name: str, count: int) -> Work:
        for _ in range(count):
            self.clock.seconds += STEPS_SECONDS / 4
            self.pieces_of.append(name)
            yield
        if name == "bad":
            raise ValueError(name)
        return name

    def start(self, work: Work, *, body_bytes: int = 0, in_order: bool = False) -> Task:
        request = RemotingCommand(10, 1, body=bytes(body_bytes))
        task = OverTask(self, request, work, is_in_order=in_order)
        self.driver.start(task)
        return task

    def run_all(self, each: Callable[[], None] = lambda: None) -> None:
        while self.driver:
            self.driver.run()
            each()


class OverTask(Task):
    """A task whose connection is closed once the bench says so."""

    def __init__(self, bench: Bench, request: RemotingCommand, work: Work, **options: bool) -> None:
        super().__init__(bench.driver, cast(Connection, None), request, work, **options)
        self._bench = bench

    @property
    def is_over(self) -> bool:
        return self in self._bench.over and self.is_new and not self.is_in_order


def test_each_has_a_piece_in_turn_until_the_time_is_spent() -> None:
    bench = Bench()
    bench.start(bench.pieces("a", 8))
    bench.start(bench.pieces("b", 3))
    assert bench.pieces_of == ["a", "b"], "the first piece comes at once"
    bench.driver.run()
    assert "".join(bench.pieces_of) == "ab" + "abab"
    assert not bench.ended
    bench.run_all()
    assert "".join(bench.pieces_of) == "ababab" + "a" * 5
    assert bench.ended == [("b", None), ("a", None)]
    assert bench.counted == ["paused", "paused", "left", "left"]
    bench.driver.run()


def test_work_of_one_piece_is_never_counted() -> None:
    bench = Bench()
    bench.start(bench.pieces("a", 0))
    assert bench.ended == [("a", None)]
    assert not bench.counted and not bench.driver


def test_an_error_is_an_end_and_new_work_without_a_client_is_dropped() -> None:
    bench = Bench()
    bench.start(bench.pieces("bad", 1))
    closed = bench.start(bench.pieces("closed", 9))
    ordered = bench.start(bench.pieces("ordered", 2), in_order=True)
    bench.over |= {closed, ordered}
    bench.run_all()
    (bad, dropped, done) = bench.ended
    assert isinstance(bad[1], ValueError)
    assert dropped == (None, None) and bench.pieces_of.count("closed") == 1
    assert done == ("ordered", None)
    assert bench.driver.dropped_count == 1
    assert bench.counted.count("left") == 3


def test_no_more_than_the_limit_are_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "NEW_TASKS_MAX", 2)
    bench = Bench()
    for name in "abc":
        bench.start(bench.pieces(name, 3))
    assert bench.ended == [("refused", None)]
    assert len(bench.driver) == 2
    bench.run_all()
    assert not bench.driver.is_full


def test_few_large_requests_are_begun_and_small_ones_do_not_wait_for_them() -> None:
    bench = Bench()
    large = "ABCDE"
    for number, name in enumerate(large):
        task = bench.start(bench.pieces(name, 6), body_bytes=LARGE_BODY_BYTES + number)
        if name == "D":
            bench.over.add(task)
    assert bench.pieces_of == [], "a large body is not parsed in the turn in which it comes"
    bench.start(bench.pieces("s", 2), body_bytes=LARGE_BODY_BYTES - 1)
    assert len(bench.driver) == 6

    def few_are_open() -> None:
        ended = {outcome for outcome, _ in bench.ended}
        assert len(set(bench.pieces_of) & set(large) - ended) <= LARGE_MAX

    bench.run_all(few_are_open)
    assert [outcome for outcome, _ in bench.ended] == ["s", "A", "B", None, "C", "E"]
    assert bench.driver.dropped_count == 1


def test_the_clock_is_an_effect_that_costs_no_turn() -> None:
    def work() -> Work:
        first = yield NOW
        bench.clock.seconds += 0.05
        second = yield NOW
        return second - first

    bench = Bench()
    bench.start(work())
    assert bench.ended == [(50, None)]


def test_an_effect_ends_in_the_next_turn_with_its_result_or_its_error() -> None:
    def work() -> Work:
        found = yield Fetch()
        try:
            yield Fetch()
        except OSError as error:
            found += f" {error}"
        return found

    bench = Bench()
    bench.start(work())
    bench.fetching.pop().resume("found")
    assert bench.turns_asked == 1 and not bench.fetching, "not before the turn"
    bench.driver.run()
    bench.fetching.pop().resume(error=OSError("late"))
    bench.driver.run()
    assert bench.ended == [("found late", None)]
    assert not bench.counted, "a connection's end does not wait for an effect"


@pytest.mark.parametrize(("tasks_max", "bytes_max"), [(1, 1_000), (9, 100)])
def test_what_waits_for_effects_is_counted_until_it_ends(
    monkeypatch: pytest.MonkeyPatch, tasks_max: int, bytes_max: int
) -> None:
    def work() -> Work:
        yield Fetch()
        yield Refuse()

    monkeypatch.setattr(driver, "WAITING_TASKS_MAX", tasks_max)
    monkeypatch.setattr(driver, "WAITING_BYTES_MAX", bytes_max)
    bench = Bench()
    first = bench.start(work(), body_bytes=60)
    assert not bench.driver.is_crowded
    bench.start(work(), body_bytes=60)
    assert bench.driver.is_crowded
    first.request.body = b""  # it counts as long as it was when its effect began
    for task in bench.fetching:
        task.resume()
    assert not bench.driver.is_crowded
    bench.run_all()
    assert (bench.driver.waiting_count, bench.driver.waiting_bytes) == (0, 0)


def test_what_an_executor_raises_is_raised_where_the_effect_was_yielded() -> None:
    def work() -> Work:
        try:
            yield Refuse()
        except ValueError as error:
            return str(error)

    bench = Bench()
    bench.start(work())
    bench.run_all()
    assert bench.ended == [("full", None)]


def test_work_that_had_an_effect_done_is_finished_without_a_client_too() -> None:
    def work() -> Work:
        yield
        yield Fetch()
        yield
        return "done"

    bench = Bench()
    task = bench.start(work())
    bench.driver.run()
    assert bench.counted == ["paused", "left"]
    bench.over.add(task)
    bench.fetching.pop().resume()
    bench.run_all()
    assert bench.ended == [("done", None)]
    assert bench.counted == ["paused", "left"]


def test_results_are_taken_in_a_few_at_a_time_and_hold_up_no_pieces() -> None:
    def work(name: str) -> Work:
        yield Fetch()
        bench.clock.seconds += RESULTS_SECONDS
        bench.pieces_of.append(name)
        return name

    bench = Bench()
    for name in "xyz":
        bench.start(work(name))
    bench.start(bench.pieces("p", 9))
    for task in bench.fetching:
        task.resume()
    bench.driver.run()
    assert "".join(bench.pieces_of) == "p" + "x" + "pppp"
    bench.driver.run()
    assert "".join(bench.pieces_of) == "p" + "x" + "pppp" + "y" + "pppp"


def test_an_executor_hears_of_the_end() -> None:
    def work() -> Work:
        yield Fetch()
        return "done"

    bench, heard = Bench(), list[int]()
    bench.start(work())
    task = bench.fetching.pop()
    task.at_end = lambda: heard.append(len(bench.ended))
    task.resume()
    bench.run_all()
    assert heard == [0]


@pytest.mark.parametrize(
    ("pieces", "share_seconds", "done", "more"),
    [
        (3, 10.0, 3, False),
        (3, 2.0, 2, True),
        (3, 0.0, 1, True),
        (1, 0.0, 1, False),
        (5, 3.5, 4, True),
    ],
)
def test_pieces_of_a_second_are_done_until_the_share_is_spent(
    pieces: int, share_seconds: float, done: int, more: bool
) -> None:
    clock, left = FakeClock(), [pieces]

    def step() -> bool:
        clock.seconds += 1.0
        left[0] -= 1
        return left[0] > 0

    assert run_for_a_share(step, share_seconds, clock) is more
    assert pieces - left[0] == done
