"""Which address and scheme a request came by, also through a proxy that ends TLS.

Only a proxy that is trusted is believed. It writes `X-Forwarded-For` and `X-Forwarded-Proto`; from
anyone else these headers mean nothing.

    X-Forwarded-For: 203.0.113.9, 10.0.0.2    the last one that is no proxy asked
    X-Forwarded-Proto: https                  the last one counts
"""

import ipaddress
from collections.abc import Iterable
from typing import Final, NamedTuple

HOPS_MAX: Final = 16
"""Proxies behind each other."""
HEADER_BYTES_MAX: Final = 1_024

Headers = Iterable[tuple[bytes, bytes]]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class RequestSource(NamedTuple):
    """Where a request came from, and by which scheme: http or https."""

    address: str
    scheme: str


class Proxies:
    """The proxies that are trusted; none by default."""

    def __init__(self, trusted: Iterable[str] = ()) -> None:
        """Trust addresses, and networks such as 10.0.0.0/24. Raises: ValueError."""
        self._networks: list[Network] = [ipaddress.ip_network(x) for x in trusted]

    def __contains__(self, address: str) -> bool:
        """Return whether a peer with this address is trusted."""
        found = _address(address)
        return found is not None and any(found in each for each in self._networks)

    @property
    def are_trusted(self) -> bool:
        """Whether there is any."""
        return bool(self._networks)

    def peer(self, address: str, scheme: str, headers: Headers) -> RequestSource:
        """Return where a request came from. address, scheme: of its connection."""
        if address not in self:
            return RequestSource(address, scheme)
        for_values, proto_values = [], []
        for name, value in headers:
            if name == b"x-forwarded-for":
                for_values.append(value)
            elif name == b"x-forwarded-proto":
                proto_values.append(value)
        proto = _parts(proto_values)[-1:]
        if proto in (["http"], ["https"]):
            scheme = proto[0]
        for text in reversed(_parts(for_values)[-HOPS_MAX:]):
            found = _address(text)
            if found is None:
                break
            address = str(found)
            if address not in self:
                break
        return RequestSource(address, scheme)


def _parts(values: Iterable[bytes]) -> list[str]:
    text = b",".join(values)[-HEADER_BYTES_MAX:].decode("latin-1")
    return [each.strip() for each in text.split(",") if each.strip()]


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found
