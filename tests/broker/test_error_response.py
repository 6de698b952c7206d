"""Errors to response codes."""

import errno

import pytest

from wakelog.broker.error_response import error_response
from wakelog.network.refusals import REMARK_CHARACTERS_MAX
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import make_request
from wakelog.protocol.errors import LocalProtocolError, RemoteProtocolError
from wakelog.storage.errors import IllegalName, NotWriteable, store_failure

ROWS = [
    (RemoteProtocolError(17, "no such topic"), 17, "no such topic"),
    (NotWriteable("EIO"), ResponseCode.SERVICE_NOT_AVAILABLE, "takes no messages"),
    (
        store_failure("/s/x", "pwrite", OSError(errno.ENOSPC, "No space left on device")),
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "No space left",
    ),
    (
        store_failure("/s/x", "pread", OSError(errno.EIO, "Input/output error")),
        ResponseCode.SYSTEM_ERROR,
        "Input/output error",
    ),
    (IllegalName("topic", "../x"), ResponseCode.SYSTEM_ERROR, "illegal topic name"),
    (LocalProtocolError("too long"), ResponseCode.SYSTEM_ERROR, "LocalProtocolError: too long"),
    (
        ZeroDivisionError("division"),
        ResponseCode.SYSTEM_ERROR,
        "builtins.ZeroDivisionError: division",
    ),
]


@pytest.mark.parametrize(("error", "code", "remark"), ROWS, ids=[type(r[0]).__name__ for r in ROWS])
def test_an_error_becomes_an_answer(error: Exception, code: int, remark: str) -> None:
    response = error_response(make_request(310, opaque=8), error)
    assert (response.code, response.opaque, response.is_response) == (code, 8, True)
    assert remark in (response.remark or "")


@pytest.mark.parametrize("kind", [ValueError, NotWriteable])
def test_a_remark_is_not_as_long_as_what_a_peer_sends(kind: type[Exception]) -> None:
    response = error_response(make_request(310, opaque=8), kind("x" * 100_000))
    assert len(response.remark or "") == REMARK_CHARACTERS_MAX
