"""Rates: from what a deployment says of itself to what a person watches.

Counters only grow while a broker lives; the rate is their growth between two looks. A broker that
was restarted counts from 0 again, and its first look says nothing of rates. One that does not
answer has a row all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

# Where each value stands in what a broker says of itself.
_PUT_COUNT = ("store", "put_count")
_GET_COUNT = ("store", "get_message_count")
_HELD_COUNT = ("broker", "held_count")
_READABLE = ("watermarks", "readable")
_DISPATCHED = ("watermarks", "dispatched")


class BrokerLook(msgspec.Struct, frozen=True):
    """What a look at one broker found."""

    put_count: int
    get_count: int
    held_count: int
    lag_bytes: int


class BrokerRates(msgspec.Struct, frozen=True):
    """One broker as it is shown; None where there is nothing to say yet."""

    name: str
    in_per_second: float | None = None
    out_per_second: float | None = None
    held_count: int | None = None
    lag_bytes: int | None = None

    @property
    def answers(self) -> bool:
        """Whether the broker said anything at this look."""
        return self.held_count is not None


class RateWatch:
    """Remembers the last look at each broker."""

    def __init__(self, names: Iterable[str]) -> None:
        """Show brokers of these names, in this order."""
        self._last: dict[str, BrokerLook | None] = dict.fromkeys(names)
        self._last_seconds = 0.0
        self.changed = False

    def look(self, statistics: Mapping[str, Any], now_seconds: float) -> list[BrokerRates]:
        """Return the rates since the last look; `changed` says if anything moved since then."""
        elapsed_seconds = now_seconds - self._last_seconds
        rows = []
        self.changed = False
        for name, last in self._last.items():
            look = _look(statistics.get("brokers", {}).get(name))
            self.changed = self.changed or look != last
            rows.append(_rates(name, last, look, elapsed_seconds))
            self._last[name] = look
        self._last_seconds = now_seconds
        return rows


def _look(values: Mapping[str, Any] | None) -> BrokerLook | None:
    found = [_at(values, path) for path in (_PUT_COUNT, _GET_COUNT, _HELD_COUNT)]
    readable, dispatched = _at(values, _READABLE), _at(values, _DISPATCHED)
    if any(value is None for value in (*found, readable, dispatched)):
        return None
    put_count, get_count, held_count = found
    # The two words are read one after the other, so the later may have overtaken the earlier.
    return BrokerLook(put_count, get_count, held_count, max(0, readable - dispatched))


def _at(values: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        if not isinstance(values, Mapping):
            return None
        values = values.get(part)
    return values


def _rates(
    name: str, last: BrokerLook | None, look: BrokerLook | None, elapsed_seconds: float
) -> BrokerRates:
    if look is None:
        return BrokerRates(name)
    restarted = last is None or look.put_count < last.put_count or look.get_count < last.get_count
    if last is None or restarted or elapsed_seconds <= 0:
        return BrokerRates(name, held_count=look.held_count, lag_bytes=look.lag_bytes)
    return BrokerRates(
        name,
        in_per_second=(look.put_count - last.put_count) / elapsed_seconds,
        out_per_second=(look.get_count - last.get_count) / elapsed_seconds,
        held_count=look.held_count,
        lag_bytes=look.lag_bytes,
    )
