"""No attack costs much in one piece. What is counted are calls, not time: they are always the same.

Work for the pool is not counted: it runs beside the loop.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice
from types import GeneratorType
from typing import Any

import pytest

from tests.broker.access.requests import LOW, access_control
from tests.broker.attacks import Attack, attacks
from tests.broker.harness import Harness, Waiting, subscription
from tests.calls import counted
from wakelog.broker.effects import FilterPlace, InPool, Saved
from wakelog.filter.sql92 import compile_filter
from wakelog.network.driver import NOW
from wakelog.network.signing import Credentials, sign
from wakelog.protocol.codes import RequestCode as Code
from wakelog.storage.errors import LacksVerdicts, StoreError

CALLS_MAX = 40_000
"""Calls of functions in one piece: some 6 ms. Nearly all pieces have some hundreds."""
ATTACKS_APART = 3
"""Every such attack is made in a daily run, each in a long one. No divisor of those of a code."""

PIECES_MAX = 30_000


class Counted:
    """The calls that a broker makes for one request, piece by piece."""

    def __init__(self, harness: Harness, by: Credentials) -> None:
        self.harness = harness
        self.by = by
        self.pieces: list[int] = []

    def piece(self, work: Callable[..., Any], *arguments: Any) -> Any:
        calls, result = counted(partial(work, *arguments))
        self.pieces.append(calls)
        return result

    def run(self, attack: Attack) -> None:
        """Give the broker a request, and do what its shell would do."""
        harness = self.harness
        request = sign(harness.request(attack.code, attack.fields, attack.body), self.by)
        outcome = self.piece(harness.broker.process, request, harness.channel, harness.now_ms)
        if isinstance(outcome, GeneratorType):
            outcome = Waiting(None, outcome)
        while isinstance(outcome, Waiting):
            effect, result, error = outcome.effect, None, None
            if isinstance(effect, InPool):
                try:
                    result = effect.work()
                except (StoreError, LacksVerdicts) as raised:
                    error = raised
            elif effect is NOW:
                result = harness.now_ms
            elif isinstance(effect, Saved):
                result = ""
            elif isinstance(effect, FilterPlace):
                result = int
            elif effect is not None:
                break
            outcome = self.piece(outcome.resume, result, error)
        harness.instructions()


ACCOUNTS = """
accounts:
- {accessKey: low-key, secretKey: low-secret, defaultTopicPerm: PUB|SUB, defaultGroupPerm: SUB}
"""


def named_heartbeats() -> Iterator[Attack]:
    """Yield heartbeats whose names are checked against an account, or that are odd JSON."""
    subscriptions = [{"topic": f"t{number}"} for number in range(30_000)]
    group = {"groupName": "g", "subscriptionDataSet": subscriptions}
    body = json.dumps({"clientID": "c", "consumerDataSet": [group]})
    yield Attack("many topics", Code.HEART_BEAT, {}, body.encode())
    yield Attack("many topics in odd JSON", Code.HEART_BEAT, {}, body.replace('"', "'").encode())
    yield Attack("odd text in JSON", Code.HEART_BEAT, {}, body.encode()[:-2] + b",{]}")


@pytest.mark.slow
@pytest.mark.parametrize("apart", [ATTACKS_APART, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("is_signed", [False, True], ids=["", "by a limited account"])
def test_no_attack_makes_many_calls_in_one_piece(
    is_signed: bool,
    apart: int,
    record_property: Callable[[str, object], None],
) -> None:
    compile_filter("a = 1")  # the first makes the parser; a broker has done so when it starts
    harness = Harness(enablePropertyFilter="true")
    harness.send("T")
    harness.beat("g", subscription())
    if is_signed:
        harness.broker.state.access = access_control(ACCOUNTS)
    count, longest, too_long = 0, (0, ""), []
    heartbeats = (attack for attack in attacks() if attack.code == Code.HEART_BEAT)
    made = chain(named_heartbeats(), heartbeats if is_signed else attacks())
    for attack in islice(made, None, None, apart):
        counted = Counted(harness, LOW if is_signed else Credentials())
        counted.run(attack)
        count += 1
        name = f"{attack.code} {attack.name}"
        longest = max(longest, (max(counted.pieces), name))
        if max(counted.pieces) > CALLS_MAX or len(counted.pieces) > PIECES_MAX:
            too_long.append(f"{name}: {max(counted.pieces)} calls, {len(counted.pieces)} pieces")
    assert not too_long, "\n".join(too_long)
    assert count > (20 if is_signed else 900) // apart
    harness.validate()
    calls, name = longest
    record_property("said", f"{count} attacks, at most {calls} calls in one piece: {name}")
