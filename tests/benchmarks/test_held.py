"""What a busy broker refuses of a client that sends one at a time, and of pulls, comes again."""

from itertools import islice
from typing import Any, cast

import pytest

from benchmarks.held import REFUSALS_MAX, hold_on, pull_requests, send_in_turns
from benchmarks.paced import OPAQUE_FIRST, Template
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand

BUSY, FULL = ResponseCode.SYSTEM_BUSY, ResponseCode.SYSTEM_ERROR


class FakeConnection:
    """Answers sends with the codes that are left, and then with success."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)
        self.sent: list[int] = []

    def send(self, request: Template, number: int) -> None:
        self.sent.append(number)

    def answers(self, wait_seconds: float) -> list[RemotingCommand]:
        code = self.codes.pop(0) if self.codes else 0
        return [RemotingCommand(code, OPAQUE_FIRST + self.sent[-1], remark="why")]


def send(*connections: FakeConnection, count: int = 3) -> list[list[float]]:
    return send_in_turns(cast(Any, [*connections]), count)


def test_what_a_busy_broker_refused_is_sent_again() -> None:
    first, second = FakeConnection(0, BUSY, BUSY), FakeConnection()
    found = send(first, second)
    assert [len(each) for each in found] == [3, 3]
    assert (first.sent, second.sent) == ([0, 1, 1, 1, 2], [0, 1, 2])


def test_a_broker_that_is_always_busy_is_given_up() -> None:
    connection = FakeConnection(*[BUSY] * REFUSALS_MAX)
    with pytest.raises(RuntimeError, match=f"busy {REFUSALS_MAX} times: why"):
        send(connection)
    assert connection.sent == [0] * REFUSALS_MAX
    assert len(send(FakeConnection(*[BUSY] * (REFUSALS_MAX - 1)), count=1)[0]) == 1


def test_another_refusal_ends_the_run() -> None:
    connection = FakeConnection(0, FULL)
    with pytest.raises(RuntimeError, match="code 1: why"):
        send(connection)
    assert connection.sent == [0, 1]


class FakeHolder:
    """Holds pulls, answers the one behind them, and refuses first what it is told to."""

    def __init__(self, *refused: tuple[int, int]) -> None:
        self.refused = list(refused)
        self.held: list[int] = []
        self.come: list[RemotingCommand] = []

    def send(self, request: Template, number: int) -> None:
        code = 0
        if self.refused and self.refused[0][0] == number:
            code = self.refused.pop(0)[1]
        elif number < PULLS_COUNT:
            self.held.append(number)
            return
        self.come.append(RemotingCommand(code, OPAQUE_FIRST + number, remark="why"))

    def answers(self, wait_seconds: float) -> list[RemotingCommand]:
        come, self.come = self.come, []
        return come


PULLS_COUNT = 4


def hold(holder: FakeHolder) -> list[int]:
    hold_on(cast(Any, holder), list(islice(pull_requests(2, 2), PULLS_COUNT)))
    assert not holder.refused and not holder.come
    return holder.held


@pytest.mark.parametrize(
    ("refused", "held"),
    [
        ((), [0, 1, 2, 3]),
        (((1, BUSY), (3, BUSY), (1, BUSY)), [0, 2, 3, 1]),
        (((PULLS_COUNT, BUSY),), [0, 1, 2, 3]),
    ],
)
def test_pulls_are_sent_until_all_wait(refused: tuple[Any, ...], held: list[int]) -> None:
    assert hold(FakeHolder(*refused)) == held


@pytest.mark.parametrize(
    "refused", [((2, 0),), ((2, FULL),), ((PULLS_COUNT, BUSY),) * REFUSALS_MAX]
)
def test_pulls_that_do_not_wait_end_the_run(refused: tuple[Any, ...]) -> None:
    with pytest.raises(RuntimeError, match=r"a pull got code|busy 20 times"):
        hold(FakeHolder(*refused))
