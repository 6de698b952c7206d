"""Errors name the address, the reason, and for ports what to do."""

import errno

import pytest

from wakelog.network.errors import CallTimeout, ConnectFailed, PortUnavailable, RemotingError


def test_an_error_names_the_address_and_the_reason() -> None:
    error = ConnectFailed("10.0.0.1:9876", "refused")
    assert str(error) == "10.0.0.1:9876: refused"
    assert (error.address, error.reason) == ("10.0.0.1:9876", "refused")


def test_remoting_error_is_the_root_of_failed_requests() -> None:
    assert issubclass(ConnectFailed, RemotingError)
    assert issubclass(CallTimeout, RemotingError)


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
