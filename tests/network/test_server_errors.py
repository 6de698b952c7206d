"""Errors of ports say why and what to do."""

import errno

import pytest

from wakelog.network.server_errors import PortUnavailable


@pytest.mark.parametrize(
    ("number", "cause"),
    [
        (errno.EADDRINUSE, "another process uses this port"),
        (errno.EACCES, "this user may not use this port"),
        (errno.EADDRNOTAVAIL, "this machine has no such address"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_cause_and_remedy(number: int, cause: str) -> None:
    error = PortUnavailable("127.0.0.1", 10911, OSError(number, "Input/output error"))
    assert error.cause == cause
    assert error.remedy
    assert str(error).startswith(f"cannot listen on 127.0.0.1:10911: {cause}; ")
