"""Patterns of addresses: what each matches, and what is none."""

import pytest

from tests.calls import count_calls
from wakelog.broker.access import addresses
from wakelog.broker.access.addresses import (
    AddressPatterns,
    is_loopback,
    is_this_host,
    network_of,
)

MATCHES = [
    ("", "10.0.0.1", False),
    (" ", "10.0.0.1", False),
    ("*", "10.0.0.1", True),
    ("*", "fe80::1", True),
    ("*", "no address", False),
    ("*.*.*.*", "10.0.0.1", True),
    ("*:*:*:*:*:*:*:*", "10.0.0.1", True),  # as in 4.9.3: all three let everyone in
    ("10.0.0.1", "10.0.0.1", True),
    ("10.0.0.1", "10.0.0.10", False),
    ("10.0.0.1", "::ffff:10.0.0.1", True),
    ("10.0.0.{1,7}", "10.0.0.7", True),
    ("10.0.0.{1,7}", "10.0.0.2", False),
    ("10.0.0.1,10.0.0.7", "10.0.0.7", True),
    ("10.0.0.1,10.0.0.7", "10.0.0.2", False),
    ("10.0.0.*", "10.0.0.255", True),
    ("10.0.0.*", "10.0.1.1", False),
    ("10.0.0.*", "110.0.0.1", False),
    ("10.0.1-100.*", "10.0.100.9", True),
    ("10.0.1-100.*", "10.0.101.9", False),
    ("10.0.0.0-0", "10.0.0.0", True),
    ("10.*.0.1", "10.9.0.1", True),
    ("10.*.0.1", "10.9.0.2", False),  # 4.9.3 lets it in
    ("*.0.0.1", "127.0.0.1", True),
    ("fe80::1", "FE80:0:0:0:0:0:0:1", True),
    ("fe80::1", "fe80::1%eth0", True),
    ("fe80::1", "fe80::2", False),
    ("fe80::{a,1b}", "fe80::1b", True),
    ("fe80::{a,1b}", "fe80::c", False),
    ("fe80::1,10.0.0.1", "10.0.0.1", True),
    ("1050:0:0:0:5:600:300c:*", "1050::5:600:300c:7", True),
    ("1050:0:0:0:5:600:300c:*", "1050::5:600:300d:7", False),
    ("2::ac5:78:1-200:*", "2::ac5:78:200:1", True),
    ("2::ac5:78:1-200:*", "2::ac5:78:201:1", False),
    ("2::ac5:78:1-200", "2::ac5:78:10", True),
    ("2001:db8:*", "2001:db8:1::1", True),
    ("2001:db8:*", "2001:db9::1", False),
    ("fe80::*", "10.0.0.1", False),
    ("1:2:3:4::5:6:7-9", "1:2:3:4:0:5:6:9", True),
    ("1:2:3:4::5:6:7-9", "1:2:3:4:1:5:6:9", False),
    ("::7-9", "::9", True),
    ("7-9::", "9::", True),
    ("1:2:3:4:5:6:7:8-ffff", "1:2:3:4:5:6:7:ffff", True),
    ("1:2:3:4:5:6:7:*", "1:2:3:4:5:6:7:ffff", True),
    ("0-255.0.0.1", "255.0.0.1", True),
    # The numbers of one family are no beginning of an address of the other.
    ("32.1.13.184", "20:1:d:b8::1", False),
    ("32.1.13-14.*", "20:1:d:b8::1", False),
    ("*.*.*.0-255", "20:1:d:b8::1", False),
    ("20:1:d:b8:*", "32.1.13.184", False),
    ("20:1:d:b8:0:0:0:0", "32.1.13.184", False),
]


@pytest.mark.parametrize(("pattern", "host", "matches"), MATCHES)
def test_a_pattern_matches(pattern: str, host: str, matches: bool) -> None:
    assert AddressPatterns([pattern]).match(host) is matches
    many = [pattern, *["192.0.2.1"] * addresses.REMEMBERED_MIN]
    assert AddressPatterns(many).match(host) is matches


def test_one_of_several_patterns_is_enough() -> None:
    patterns = AddressPatterns(["10.0.0.1", "", "fe80::*"])
    assert patterns.match("fe80::9") and patterns.match("10.0.0.1")
    assert not patterns.match("10.0.0.2")
    assert not AddressPatterns().match("10.0.0.1")


def test_many_patterns_are_gone_through_once_for_a_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 took 8 ms at each request."""
    monkeypatch.setattr(addresses, "HOSTS_MAX", 2)
    patterns = AddressPatterns(f"10.0.{number}.*" for number in range(200))
    first, again = (count_calls(lambda: patterns.match("10.1.0.1")) for _ in range(2))
    assert first > 20 * again
    for number in range(100, 300):
        assert patterns.match(f"10.0.{number}.1") is (number < 200)
        assert not patterns.match("10.1.0.1")
    assert len(patterns._remembered) <= 2


REFUSED = [
    *("host", "10.0.0", "10.0.0.256", "10.0.0.1,x", "10.0.{1}", "10.0.0.{256}", "{1}", "10.0.0.{}"),
    *(
        "10.0.0.-1",
        "10.0.0.9-1",
        "10.0.0.1-256",
        "10.0.*",
        "10.0.0.0.*",
        "10.0.0.1-2-3",
        "10.0.a.*",
    ),
    *("1:2:3:4::5:6:7:8-9", "1:2:3:4:5:6:7-8", "*:2-3", "1:2:3:4:5:6:7:8:9-10", "1:2-1000f:*"),
    *("1:2:3:4:5:6:7:8:*", "fe80::1::*", "1:2-1ffff:*", "10.0.0.0/8", "fe80{1}", "-"),
]


@pytest.mark.parametrize("pattern", REFUSED)
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"is no|has not"):
        AddressPatterns([pattern])


@pytest.mark.parametrize(
    ("host", "is_here"),
    [
        *(("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("::ffff:127.0.0.1", True)),
        *(("10.0.0.1", False), ("::2", False), ("", False), ("localhost", False)),
    ],
)
def test_loopback(host: str, is_here: bool) -> None:
    assert is_loopback(host) is is_here


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("10.0.0.1", (10, 0, 0, 1)),
        ("::ffff:10.0.0.1", (10, 0, 0, 1)),
        ("2001:db8:1:2:3:4:5:6", (0x2001, 0xDB8, 1, 2)),
        ("fe80::1%eth0", (0xFE80, 0, 0, 0)),
        ("", ()),
        ("localhost", ()),
    ],
)
def test_an_owner_has_an_address_or_half_of_a_long_one(host: str, network: tuple[int, ...]) -> None:
    assert network_of(host) == network


@pytest.mark.parametrize(
    ("host", "local_host", "is_here"),
    [
        ("127.0.0.1", "", True),
        ("::1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("10.0.0.1", "", False),
        ("", "", False),
        ("", "10.0.0.1", False),
    ],
)
def test_what_connects_from_the_address_that_it_connects_to_is_on_its_host(
    host: str, local_host: str, is_here: bool
) -> None:
    assert is_this_host(host, local_host) is is_here
