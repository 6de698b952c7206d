"""No attack costs much in one piece. What is counted are calls, not time: they are always the same.

Work for the pool is not counted: it runs beside the loop.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from types import GeneratorType
from typing import Any

import pytest

from tests.broker.access.requests import LOW, access_control
from tests.broker.attacks import Attack, attacks
from tests.broker.harness import Harness, subscription
from tests.calls import calls_of_steps, counted
from wakelog.broker.decision import AwaitSave, RunInPool
from wakelog.filter.sql92 import compile_filter
from wakelog.network.signing import Credentials, sign
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.steps import InOrder

CALLS_MAX = 40_000
"""Calls of functions in one piece: some 6 ms. Nearly all pieces have some hundreds."""

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
        while True:
            if isinstance(outcome, RunInPool):
                outcome = self.piece(outcome.finish, outcome.work(), harness.now_ms)
            elif isinstance(outcome, GeneratorType):
                calls, outcome = calls_of_steps(outcome)
                self.pieces += calls
            elif isinstance(outcome, InOrder):
                calls, result = calls_of_steps(outcome.steps)
                self.pieces += calls
                outcome = self.piece(outcome.finish, result, harness.now_ms)
            elif isinstance(outcome, AwaitSave):
                outcome = self.piece(outcome.finish, "", harness.now_ms)
            else:
                harness.instructions()
                return


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
@pytest.mark.parametrize("is_signed", [False, True], ids=["", "by a limited account"])
def test_no_attack_makes_many_calls_in_one_piece(
    is_signed: bool,
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
    for attack in chain(named_heartbeats(), heartbeats if is_signed else attacks()):
        counted = Counted(harness, LOW if is_signed else Credentials())
        counted.run(attack)
        count += 1
        name = f"{attack.code} {attack.name}"
        longest = max(longest, (max(counted.pieces), name))
        if max(counted.pieces) > CALLS_MAX or len(counted.pieces) > PIECES_MAX:
            too_long.append(f"{name}: {max(counted.pieces)} calls, {len(counted.pieces)} pieces")
    assert not too_long, "\n".join(too_long)
    assert count > (20 if is_signed else 900)
    harness.validate()
    calls, name = longest
    record_property("said", f"{count} attacks, at most {calls} calls in one piece: {name}")
