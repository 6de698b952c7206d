"""Names and addresses as the operating system knows them."""

import socket

import pytest

from wakelog.actors.deploy.host_addresses import (
    HostAddresses,
    is_wildcard,
    reachable_from_here,
)

ADDRESSES = HostAddresses()


def test_a_name_is_resolved_and_an_address_is_left_alone() -> None:
    assert ADDRESSES.resolve("localhost") in ("127.0.0.1", "::1")
    assert ADDRESSES.resolve("203.0.113.7") == "203.0.113.7"


def test_an_unknown_name_is_an_os_error() -> None:
    with pytest.raises(OSError):
        ADDRESSES.resolve("no.such.host.invalid")


@pytest.mark.parametrize(
    ("address", "is_own"), [("127.0.0.1", True), ("0.0.0.0", True), ("203.0.113.1", False)]
)
def test_an_address_is_own_if_it_can_be_bound(address: str, is_own: bool) -> None:
    assert ADDRESSES.is_own(address) is is_own


def test_the_outward_address_is_one_of_this_hosts() -> None:
    outward = ADDRESSES.outward()
    assert not is_wildcard(outward)
    assert ADDRESSES.is_own(outward)


def test_without_a_way_out_the_outward_address_is_the_loopback_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(self: socket.socket, address: object) -> None:
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert ADDRESSES.outward() == "127.0.0.1"
    assert ADDRESSES.outward("::") == "::1"


def test_the_outward_address_leads_to_what_is_bound() -> None:
    """An address of the other family leads to no port that is bound to `::`."""
    assert ":" in ADDRESSES.outward("::")
    assert ":" not in ADDRESSES.outward("0.0.0.0")


@pytest.mark.parametrize(
    ("bound", "reached"),
    [
        ("0.0.0.0", "127.0.0.1"),
        ("::", "::1"),
        ("203.0.113.1", "203.0.113.1"),
        ("127.0.0.1", "127.0.0.1"),
    ],
)
def test_what_is_bound_everywhere_is_reached_over_the_loopback(bound: str, reached: str) -> None:
    assert reachable_from_here(bound) == reached
    assert is_wildcard(bound) is (bound != reached)
