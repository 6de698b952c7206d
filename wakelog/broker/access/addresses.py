"""AddressPatterns: the white lists of plain_acl.yml.

    *                       every address; also *.*.*.* and *:*:*:*:*:*:*:*
    10.0.0.1    fe80::1     one address
    10.0.0.{1,7}  ::{a,b}   the last part is one of these
    10.0.0.1,10.0.0.7       one of these addresses
    10.0.1-9.*  fe80::1-f:* each part is a number, a range or *
    fe80:1:*                IPv6 only: a prefix, if no `::` says where zeros are

A blank pattern matches nothing. An IPv4 address within IPv6 (::ffff:10.0.0.1) counts as IPv4.

Differences from 4.9.3: there, parts after the first range or * are ignored, so 10.*.0.1 lets in all
of 10.0.0.0/8; here they count. Patterns at which 4.9.3 fails for every request (*.0.0.1) work.

Source: org.apache.rocketmq.acl.plain.RemoteAddressStrategyFactory, acl.common.AclUtils (4.9.3).
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TypeAlias

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""The lowest and the highest number of each part: 4 of an IPv4 address, 8 of an IPv6 address."""

_EVERY = (((0, 0xFF),) * 4, ((0, 0xFFFF),) * 8)
_EVERY_TEXTS = ("*", "*.*.*.*", "*:*:*:*:*:*:*:*")

REMEMBERED_MIN = 16
"""Patterns of which the answer for a host is remembered: 10,000 take 8 ms, at each request."""

HOSTS_MAX = 1_024

_DECIMAL = re.compile(r"[0-9]{1,3}", re.ASCII)
_HEXADECIMAL = re.compile(r"[0-9a-fA-F]{1,4}", re.ASCII)


class AddressPatterns:
    """Addresses that match one of some patterns."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        """Read the patterns. Raises: ValueError for one that is none."""
        self._patterns = [ranges for text in texts for ranges in _read_pattern(text)]
        self._remembered: dict[str, bool] = {}

    def __bool__(self) -> bool:
        """Whether there is a pattern."""
        return bool(self._patterns)

    def match(self, host: str) -> bool:
        """Whether a numeric address is one of these; False for what is no address."""
        if len(self._patterns) < REMEMBERED_MIN:
            return self._matches(host)
        found = self._remembered.get(host)
        if found is None:
            if len(self._remembered) >= HOSTS_MAX:
                self._remembered.clear()
            found = self._remembered[host] = self._matches(host)
        return found

    def _matches(self, host: str) -> bool:
        parts = _parts_of(host) if self._patterns else ()
        return any(
            len(ranges) == len(parts)
            and all(low <= part <= high for part, (low, high) in zip(parts, ranges, strict=True))
            for ranges in self._patterns
        )


def _read_pattern(text: str) -> list[Ranges]:
    text = text.strip()
    if not text:
        return []
    if text in _EVERY_TEXTS:
        return list(_EVERY)
    if text.endswith("}"):
        head, brace, last = text[:-1].partition("{")
        if not brace or head[-1:] not in (".", ":") or not last:
            raise ValueError(f"{text!r} is no pattern of addresses")
        return [_one_address(head + each) for each in last.split(",") if each]
    if "," in text:
        return [_one_address(each) for each in text.split(",") if each]
    if "*" in text or "-" in text:
        return [_read_ranges(text)]
    return [_one_address(text)]


def _one_address(text: str) -> Ranges:
    parts = _parts_of(text)
    if not parts:
        raise ValueError(f"{text!r} is no address")
    return tuple((part, part) for part in parts)


def _read_ranges(text: str) -> Ranges:
    if ":" not in text:
        ranges = [_read_range(part.strip(), 10, 0xFF) for part in text.split(".")]
        if len(ranges) == 4:
            return tuple(ranges)
        raise ValueError(f"{text!r} has not four parts")
    head, gap, tail = text.partition("::")
    before, after = (
        [_read_range(part.strip(), 16, 0xFFFF) for part in half.split(":")] if half else []
        for half in (head, tail)
    )
    missing = 8 - len(before) - len(after)
    if gap and missing > 0:
        return (*before, *[(0, 0)] * missing, *after)
    if not gap and (missing == 0 or (missing > 0 and text.endswith("*"))):
        return (*before, *[(0, 0xFFFF)] * missing)
    raise ValueError(f"{text!r} has not eight parts")


def _read_range(text: str, base: int, highest: int) -> tuple[int, int]:
    if text == "*":
        return (0, highest)
    number = _DECIMAL if base == 10 else _HEXADECIMAL
    ends = text.split("-")
    if len(ends) <= 2 and all(map(number.fullmatch, ends)):
        low, high = int(ends[0], base), int(ends[-1], base)
        if low <= high <= highest:
            return (low, high)
    raise ValueError(f"{text!r} is no part of an address")


@lru_cache(1_024)
def _parts_of(host: str) -> tuple[int, ...]:
    try:
        address: IPv4Address | IPv6Address | None = ip_address(host.partition("%")[0])
    except ValueError:
        return ()
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    if isinstance(address, IPv4Address):
        return tuple(address.packed)
    assert address is not None
    packed = address.packed
    return tuple(int.from_bytes(packed[at : at + 2]) for at in range(0, 16, 2))


def network_of(host: str) -> tuple[int, ...]:
    """Return what one owner of a numeric address surely has: the address, of IPv6 the /64."""
    return _parts_of(host)[:4]


def is_this_host(host: str, local_host: str) -> bool:
    """Whether a peer with this numeric address is on this host.

    local_host: the address of this end of its connection, "" if it is unknown. What connects from
        the very address that it connects to is on the host that has it.
    """
    return is_loopback(host) or (host == local_host and host != "")


def is_loopback(host: str) -> bool:
    """Whether this is an address that only this host can connect from."""
    parts = _parts_of(host)
    return parts[:1] == (127,) if len(parts) == 4 else parts == (0, 0, 0, 0, 0, 0, 0, 1)
