"""AuthenticationFailures: how often each address has failed to show who it is.

The refusal that goes beyond the limit closes its connection, and so does each one after it until
the minute is over. So a guess costs a connection. Other connections from that address go on: an
honest client may share it.

Invariant: at most ADDRESSES_MAX addresses are remembered. The one remembered longest is forgotten.
"""

from typing import Final

from wakelog.broker.access.addresses import network_of

FAILURES_MAX: Final = 100
"""A client without credentials fails some ten times a minute for each queue that it consumes."""

WINDOW_MS: Final = 60_000
ADDRESSES_MAX: Final = 10_000


class AuthenticationFailures:
    """Counts of one minute, by address."""

    def __init__(self) -> None:
        self._counts: dict[tuple[int, ...], tuple[int, int]] = {}

    def __len__(self) -> int:
        """Return how many addresses are remembered."""
        return len(self._counts)

    def add(self, host: str, now_ms: int) -> bool:
        """Count one failure; return whether it is beyond the limit."""
        network = network_of(host)
        began_ms, count = self._counts.get(network, (now_ms, 0))
        if not 0 <= now_ms - began_ms < WINDOW_MS:
            began_ms, count = now_ms, 0
        if network not in self._counts and len(self._counts) >= ADDRESSES_MAX:
            del self._counts[next(iter(self._counts))]
        self._counts[network] = (began_ms, count + 1)
        return count >= FAILURES_MAX
