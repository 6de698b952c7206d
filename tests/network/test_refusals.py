"""The texts that clients and operators know."""

import pytest

from wakelog.network import refusals
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.errors import RemoteProtocolError

REQUEST = RemotingCommand(310, opaque=-7)


@pytest.mark.parametrize(
    ("response", "code", "remark"),
    [
        (
            refusals.overloaded(REQUEST, waited_ms=3, waiting_count=10_000),
            2,
            "[OVERLOAD]system busy, start flow control for a while, "
            "period in queue: 3ms, size of queue: 10000",
        ),
        (
            refusals.waited_too_long(REQUEST, waited_ms=201, waiting_count=5),
            2,
            "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, "
            "period in queue: 201ms, size of queue: 5",
        ),
        (refusals.unsupported(REQUEST), 3, " request type 310 not supported"),
        (refusals.failed(REQUEST, RemoteProtocolError(26, "no such group")), 26, "no such group"),
        (refusals.failed(REQUEST, KeyError("t")), 1, "builtins.KeyError: 't'"),
    ],
)
def test_code_and_remark(response: RemotingCommand, code: int, remark: str) -> None:
    assert (response.code, response.remark) == (code, remark)
    assert response.opaque == -7
    assert response.is_response


def test_a_long_exception_text_is_cut() -> None:
    response = refusals.failed(REQUEST, ValueError("x" * 100_000))
    assert len(response.remark or "") == refusals.REMARK_CHARACTERS_MAX
