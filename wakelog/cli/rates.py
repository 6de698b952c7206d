"""Rates of brokers for `wakelog up`, from the statistics of a deployment.

Counters only grow while a broker lives. A rate is their growth between two measurements. A broker
that was restarted counts from 0 again, so its first measurement has no rates. A broker that does
not answer has a row too.
"""

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import getitem
from typing import Any

import msgspec

_PATHS = (
    ("store", "put_count"),
    ("store", "get_message_count"),
    ("broker", "held_count"),
    ("watermarks", "readable"),
    ("watermarks", "dispatched"),
)
"""Where the values are in the statistics of a broker."""

Sample = tuple[int, int, int, int]
"""Of one broker: messages in, messages out, held pulls, bytes to dispatch."""


class BrokerRates(msgspec.Struct, frozen=True):
    """One broker as it is shown; None for a value that is not known yet."""

    name: str
    in_per_second: float | None = None
    out_per_second: float | None = None
    held_count: int | None = None
    lag_bytes: int | None = None

    @property
    def answers(self) -> bool:
        """Whether the broker has answered."""
        return self.held_count is not None


class RateWatch:
    """Keeps the last sample of each broker."""

    def __init__(self, names: Iterable[str]) -> None:
        """Show brokers of these names, in this order."""
        self._last: dict[str, Sample | None] = dict.fromkeys(names)
        self._last_seconds = 0.0
        self.changed = False

    def measure(self, statistics: Mapping[str, Any], now_seconds: float) -> list[BrokerRates]:
        """Return the rates since the last call; `changed` is whether a value differs since then."""
        elapsed_seconds = now_seconds - self._last_seconds
        brokers = statistics.get("brokers", {})
        found = {name: _sample(brokers.get(name)) for name in self._last}
        rows = [_rates(name, self._last[name], found[name], elapsed_seconds) for name in found]
        self.changed = found != self._last
        self._last, self._last_seconds = found, now_seconds
        return rows


def _sample(values: Any) -> Sample | None:
    try:
        found = [reduce(getitem, path, values) for path in _PATHS]
    except (KeyError, TypeError):
        return None
    put_count, get_count, held_count, readable, dispatched = found
    # The watermarks are read one after the other: `dispatched` may have overtaken `readable`.
    return put_count, get_count, held_count, max(0, readable - dispatched)


def _rates(
    name: str, last: Sample | None, sample: Sample | None, elapsed_seconds: float
) -> BrokerRates:
    if sample is None:
        return BrokerRates(name)
    puts, gets, held_count, lag_bytes = sample
    if last is None or puts < last[0] or gets < last[1] or elapsed_seconds <= 0:
        return BrokerRates(name, held_count=held_count, lag_bytes=lag_bytes)
    incoming, outgoing = (puts - last[0]) / elapsed_seconds, (gets - last[1]) / elapsed_seconds
    return BrokerRates(name, incoming, outgoing, held_count, lag_bytes)
