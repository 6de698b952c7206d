"""A client that sends one message at a time: what a busy broker refuses is sent again."""

from typing import Any, cast

import pytest

from benchmarks.held import REFUSALS_MAX, send_in_turns
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
