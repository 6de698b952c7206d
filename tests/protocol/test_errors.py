"""Tests of the tree of errors."""

import pytest

from wakelog.protocol.errors import LocalProtocolError, ProtocolError, RemoteProtocolError


def test_the_abstract_error_refuses_to_be_raised() -> None:
    with pytest.raises(TypeError):
        raise ProtocolError("whose fault?")


def test_both_kinds_are_protocol_errors_and_not_each_other() -> None:
    assert issubclass(LocalProtocolError, ProtocolError)
    assert issubclass(RemoteProtocolError, ProtocolError)
    assert not issubclass(RemoteProtocolError, LocalProtocolError)


def test_a_remote_error_carries_the_answer() -> None:
    error = RemoteProtocolError(1, "the custom field <topic> is null")
    assert (error.code, error.remark) == (1, "the custom field <topic> is null")
    assert str(error) == "the custom field <topic> is null (response code 1)"
