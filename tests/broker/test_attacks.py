"""No attack costs much in one piece. What is counted are calls, not time: they are always the same.

Work for the pool is not counted: it runs beside the loop.
"""

from collections.abc import Callable
from functools import partial
from types import GeneratorType
from typing import Any

import pytest

from tests.broker.attacks import Attack, attacks
from tests.broker.harness import Harness, subscription
from tests.calls import calls_of_steps, counted
from wakelog.broker.decision import RunInPool
from wakelog.filter.sql92 import compile_filter

CALLS_MAX = 40_000
"""Calls of functions in one piece: some 6 ms. Nearly all pieces have some hundreds."""

PIECES_MAX = 30_000


class Counted:
    """The calls that a broker makes for one request, piece by piece."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.pieces: list[int] = []

    def piece(self, work: Callable[..., Any], *arguments: Any) -> Any:
        calls, result = counted(partial(work, *arguments))
        self.pieces.append(calls)
        return result

    def run(self, attack: Attack) -> None:
        """Give the broker a request, and do what its shell would do."""
        harness = self.harness
        request = harness.request(attack.code, attack.fields, attack.body)
        outcome = self.piece(harness.broker.process, request, harness.channel, harness.now_ms)
        while True:
            if isinstance(outcome, RunInPool):
                outcome = self.piece(outcome.finish, outcome.work(), harness.now_ms)
            elif isinstance(outcome, GeneratorType):
                calls, outcome = calls_of_steps(outcome)
                self.pieces += calls
            else:
                harness.instructions()
                return


@pytest.mark.slow
def test_no_attack_makes_many_calls_in_one_piece(
    record_property: Callable[[str, object], None],
) -> None:
    compile_filter("a = 1")  # the first makes the parser; a broker has done so when it starts
    harness = Harness(enablePropertyFilter="true")
    harness.send("T")
    harness.beat("g", subscription())
    count, longest, too_long = 0, (0, ""), []
    for attack in attacks():
        counted = Counted(harness)
        counted.run(attack)
        count += 1
        name = f"{attack.code} {attack.name}"
        longest = max(longest, (max(counted.pieces), name))
        if max(counted.pieces) > CALLS_MAX or len(counted.pieces) > PIECES_MAX:
            too_long.append(f"{name}: {max(counted.pieces)} calls, {len(counted.pieces)} pieces")
    assert not too_long, "\n".join(too_long)
    assert count > 900
    harness.validate()
    calls, name = longest
    record_property("said", f"{count} attacks, at most {calls} calls in one piece: {name}")
