"""Errors of calls say whom they were for and why."""

from wakelog.network.call_errors import CallTimeout, ConnectFailed, RemotingError


def test_an_error_names_the_address_and_the_reason() -> None:
    error = ConnectFailed("10.0.0.1:9876", "refused")
    assert str(error) == "10.0.0.1:9876: refused"
    assert (error.address, error.reason) == ("10.0.0.1:9876", "refused")


def test_whoever_catches_a_remoting_error_catches_them_all() -> None:
    assert issubclass(ConnectFailed, RemotingError)
    assert issubclass(CallTimeout, RemotingError)
