"""How many of something there may be: of all, and of each holder."""

import ipaddress
from collections import Counter
from typing import Final

ALL: Final = "all"
IPV6_PREFIX: Final = 64
"""What one host commonly has of IPv6."""


class Places:
    """Counts what is held. A holder is of a kind, and each kind has its bound.

    Invariants: what holds nothing is not counted, so the table is as large as what is held.
    """

    def __init__(self, all_max: int, **each_max: int) -> None:
        """Let nothing be held yet. each_max: by the kinds of holders."""
        self._all_max, self._each_max = all_max, each_max
        self._held: Counter[tuple[str, str]] = Counter()
        self.count = 0

    def take(self, **holders: str) -> str:
        """Hold one more; return "", or which bound is reached: ALL, or a kind of holder."""
        for each in holders.items():
            if self._held[each] >= self._each_max[each[0]]:
                return each[0]
        if self.count >= self._all_max:
            return ALL
        self.count += 1
        self._held.update(holders.items())
        return ""

    def free(self, **holders: str) -> None:
        """Hold one less."""
        self.count -= 1
        for each in holders.items():
            self._held[each] -= 1
            assert self._held[each] >= 0 <= self.count, holders
            if not self._held[each]:
                del self._held[each]


def host_of(address: str) -> str:
    """Return what counts as one host: an address of IPv4, a network of IPv6."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((int(found), IPV6_PREFIX), strict=False))
