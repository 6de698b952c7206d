"""Pairs: turns change, a pair with an error is void and repeated, up to a limit."""

from collections.abc import Iterable, Mapping
from unittest.mock import Mock

import pytest

from benchmarks.load import Run
from benchmarks.pairs import VOID_MAX, Measured, measure
from benchmarks.rows import Figure

FIGURE = Figure("per_second", "messages/s")


class Sides:
    """Two sides whose runs have the errors that are listed, in the order of running."""

    def __init__(self, errors: Iterable[int | Exception]) -> None:
        self._errors = iter(errors)
        self.asked: list[str] = []

    def run(self, name: str) -> tuple[Run, Mapping[str, object]]:
        self.asked.append(name)
        errors = next(self._errors, 0)
        if isinstance(errors, Exception):
            raise errors
        return {"errors": errors, "per_second": len(self.asked)}, {"side": name}


def measured(sides: Sides, pairs_count: int) -> tuple[Measured, list[str]]:
    said: list[str] = []
    return measure(FIGURE, sides.run, pairs_count, said.append, other_name="rocketmq"), said


def test_the_order_changes_with_each_pair() -> None:
    sides = Sides([])
    found, said = measured(sides, 3)
    assert said[3] == "pair 2 of 3, wakelog: messages/s 4, took 0 s"
    assert sides.asked == ["wakelog", "rocketmq", "rocketmq", "wakelog", "wakelog", "rocketmq"]
    assert [pair["wakelog"]["turn"] for pair in found.pairs] == [1, 2, 1]
    assert found.configurations == {name: {"side": name} for name in ("wakelog", "rocketmq")}


def test_a_void_pair_is_repeated_and_its_reason_kept() -> None:
    found, said = measured(Sides([0, 2, 0, 0, RuntimeError("no figures")]), 2)
    assert found.voids == ["rocketmq: 2 client errors", "wakelog: no figures"]
    assert len(found.pairs) == 2
    assert all(not run["errors"] for pair in found.pairs for run in pair.values())
    assert [line for line in said if "void" in line] == [
        "pair 1 of 2 is void, rocketmq: 2 client errors",
        "pair 2 of 2 is void, wakelog: no figures",
    ]


def test_a_pair_in_which_the_clock_is_set_is_void(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Mock(side_effect=[1000.0, 1000.0, 2000.0, 1989.0] + [3000.0] * 4)
    monkeypatch.setattr("benchmarks.pairs.time", Mock(time=clock, monotonic=Mock(return_value=7.0)))
    found, _ = measured(Sides([]), 1)
    assert found.voids == ["rocketmq: the clock was set by -11.0 s meanwhile"]
    assert len(found.pairs) == 1


def test_more_void_pairs_than_the_limit_end_the_row() -> None:
    sides = Sides([OSError("gone")] * 100)
    found, _ = measured(sides, 5)
    assert (len(found.pairs), len(found.voids)) == (0, VOID_MAX + 1)
