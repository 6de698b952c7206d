"""Who is an administrator without access control, and at a name server."""

import pytest

from tests.broker.access.requests import ADMIN, LOW, UNSIGNED, access_control, signed
from tests.broker.harness import FakeChannel
from wakelog.broker.access.administrators import (
    AdministrationRefused,
    Administrators,
    read_trusted,
)
from wakelog.network.signing import Credentials
from wakelog.protocol.codes import ResponseCode

NOW_MS = 1_700_000_000_000
GUESSED = Credentials("admin-key", "guessed")


def passes(
    administrators: Administrators, host: str, by: Credentials = UNSIGNED, local_host: str = ""
) -> bool:
    try:
        administrators.check(signed(103, by), FakeChannel(1, host, local_host=local_host), NOW_MS)
    except AdministrationRefused as error:
        assert error.code == ResponseCode.NO_PERMISSION and host in error.remark
        return False
    return True


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *(("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("::ffff:127.0.0.1", True)),
        *(("10.0.0.9", False), ("fe80::1", False), ("0.0.0.0", False), ("nowhere", False)),
    ],
)
def test_a_peer_on_this_host_is_one(host: str, expected: bool) -> None:
    assert passes(Administrators(), host) is expected


@pytest.mark.parametrize(
    ("host", "local_host", "expected"),
    [("10.0.0.9", "10.0.0.9", True), ("10.0.0.8", "10.0.0.9", False), ("", "", False)],
)
def test_a_peer_that_connects_to_its_own_address_is_on_this_host(
    host: str, local_host: str, expected: bool
) -> None:
    assert passes(Administrators(), host, local_host=local_host) is expected


def test_trusted_addresses_are() -> None:
    administrators = Administrators(read_trusted("10.0.0.*; 10.1.0.1;fe80::1-f:*"))
    assert passes(administrators, "10.0.0.9") and passes(administrators, "10.1.0.1")
    assert not passes(administrators, "10.1.0.2")
    assert passes(Administrators(read_trusted("*")), "203.0.113.1")
    with pytest.raises(ValueError, match="is no address"):
        read_trusted("10.0.0.0/8")


@pytest.mark.parametrize(
    ("by", "expected"), [(ADMIN, True), (LOW, False), (GUESSED, False), (UNSIGNED, False)]
)
def test_a_peer_that_signs_as_an_admin_account_is_one(by: Credentials, expected: bool) -> None:
    assert passes(Administrators(access=access_control()), "10.0.0.9", by) is expected
    assert not passes(Administrators(), "10.0.0.9", by)


def test_refusals_are_counted() -> None:
    administrators = Administrators()
    assert [passes(administrators, host) for host in ("10.0.0.9", "127.0.0.1")] == [False, True]
    assert administrators.statistics()["refused_count"] == 1
