"""Bounds of all, and of each holder."""

import pytest

from wakelog.console.defence.places import ALL, Places, host_of


def test_each_holder_and_all_of_them_are_bounded() -> None:
    places = Places(4, address=2, session=3)
    assert [places.take(address="a", session="s") for _ in range(3)] == ["", "", "address"]
    assert [places.take(address="b", session="s") for _ in range(2)] == ["", "session"]
    assert [places.take(address=x) for x in "bc"] == ["", ALL]
    places.free(address="a", session="s")
    assert places.take(address="c", session="s") == ""


def test_what_is_refused_holds_nothing() -> None:
    places = Places(1, address=1)
    for _ in range(3):
        assert places.take(address="a") == ""
        assert places.take(address="a") == "address"
        assert places.take(address="b") == ALL
        places.free(address="a")
    assert places.count == 0
    assert not places._held


def test_more_is_not_freed_than_was_held() -> None:
    with pytest.raises(AssertionError):
        Places(1, address=1).free(address="a")


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8:0:0:ffff::9", "2001:db8::/64"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("testclient", "testclient"),
    ],
)
def test_a_host_is_an_address_or_a_network_of_ipv6(address: str, host: str) -> None:
    assert host_of(address) == host
