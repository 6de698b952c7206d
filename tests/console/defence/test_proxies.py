"""What is believed of headers: only what a trusted proxy says."""

import pytest

from wakelog.console.defence.proxies import HOPS_MAX, Proxies, RequestSource

FORGED = [(b"x-forwarded-for", b"1.2.3.4"), (b"x-forwarded-proto", b"https")]
PROXIES = Proxies(["127.0.0.1", "10.0.0.0/24", "::1"])


def of(for_text: str, proto: str = "https", address: str = "127.0.0.1") -> RequestSource:
    headers = [(b"x-forwarded-for", for_text.encode()), (b"x-forwarded-proto", proto.encode())]
    return PROXIES.peer(address, "http", headers)


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.9", "::1", "::ffff:127.0.0.1"])
def test_without_trust_headers_mean_nothing(address: str) -> None:
    assert Proxies().peer(address, "http", FORGED) == RequestSource(address, "http")
    assert not Proxies().are_trusted


@pytest.mark.parametrize("address", ["10.0.1.1", "127.0.0.2", "", "testclient", "::2"])
def test_another_peer_is_not_believed(address: str) -> None:
    assert PROXIES.peer(address, "http", FORGED) == RequestSource(address, "http")


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.9", "::1", "::ffff:10.0.0.9"])
def test_a_trusted_proxy_says_where_from_and_by_which_scheme(address: str) -> None:
    assert PROXIES.peer(address, "http", FORGED) == RequestSource("1.2.3.4", "https")


@pytest.mark.parametrize(
    ("for_text", "address"),
    [
        ("6.6.6.6, 1.2.3.4", "1.2.3.4"),
        ("6.6.6.6, 1.2.3.4, 10.0.0.5", "1.2.3.4"),
        ("10.0.0.5", "10.0.0.5"),
        ("6.6.6.6, unknown", "127.0.0.1"),
        ("6.6.6.6, <script>, 10.0.0.5", "10.0.0.5"),
        ("2001:db8::1", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("::ffff:6.6.6.6", "6.6.6.6"),
        ("", "127.0.0.1"),
        (", ,", "127.0.0.1"),
    ],
)
def test_the_last_address_that_is_no_proxy_counts(for_text: str, address: str) -> None:
    assert of(for_text) == RequestSource(address, "https")


def test_hops_and_bytes_of_a_header_are_bounded() -> None:
    assert of("6.6.6.6, " + ", ".join(["10.0.0.5"] * HOPS_MAX)).address == "10.0.0.5"
    assert of("6.6.6.6, " + "," * 100_000 + "1.2.3.4").address == "1.2.3.4"


@pytest.mark.parametrize(
    ("proto", "scheme"), [("http", "http"), ("http, https", "https"), ("ftp", "http"), ("", "http")]
)
def test_a_scheme_is_http_or_https(proto: str, scheme: str) -> None:
    assert of("1.2.3.4", proto).scheme == scheme


@pytest.mark.parametrize("trusted", ["proxy", "10.0.0.1/24", "10.0.0.0/33"])
def test_what_is_no_network_is_refused(trusted: str) -> None:
    with pytest.raises(ValueError, match=trusted):
        Proxies([trusted])
