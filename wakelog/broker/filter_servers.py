"""FilterServers: the addresses that filter servers have registered, one for each connection.

A filter server of 4.9.3 is a program beside a broker that runs Java classes of consumers. wakelog
starts none. One that registers is announced to the name servers, and consumers find it in routes.
It registers again at least every 30 s, else its connection is closed.

Invariants: at most FILTER_SERVERS_MAX addresses, of at most ADDRESS_LENGTH_MAX characters each.

Source: org.apache.rocketmq.broker.filtersrv.FilterServerManager (4.9.3).
"""

from wakelog.broker.error_response import LimitReached
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import RemoteProtocolError

FILTER_SERVERS_MAX = 128
ADDRESS_LENGTH_MAX = 255
EXPIRED_MS = 30_000


class FilterServers:
    """Address and time of the last registration by channel id."""

    def __init__(self) -> None:
        self._servers: dict[int, tuple[str, int]] = {}

    def register(self, channel_id: int, address: str, now_ms: int) -> None:
        """Add a connection, or renew it; its first address stays, as in 4.9.3.

        Raises: RemoteProtocolError for a long address; LimitReached.
        """
        known = self._servers.get(channel_id)
        if known is None and len(address) > ADDRESS_LENGTH_MAX:
            remark = f"the address is longer than {ADDRESS_LENGTH_MAX} characters"
            raise RemoteProtocolError(ResponseCode.SYSTEM_ERROR, remark)
        if known is None and len(self._servers) >= FILTER_SERVERS_MAX:
            raise LimitReached("filter servers", FILTER_SERVERS_MAX)
        self._servers[channel_id] = (address if known is None else known[0], now_ms)

    def remove(self, channel_id: int) -> None:
        """Forget a connection that was closed."""
        self._servers.pop(channel_id, None)

    def expired(self, now_ms: int) -> list[int]:
        """Return the connections that have not registered in time, and forget them."""
        found = [
            channel_id
            for channel_id, (_, registered_ms) in self._servers.items()
            if now_ms - registered_ms > EXPIRED_MS
        ]
        for channel_id in found:
            del self._servers[channel_id]
        return found

    def addresses(self) -> list[str]:
        """Return the addresses, for the registration with name servers."""
        return [address for address, _ in self._servers.values()]

    def validate(self) -> None:
        """Assert the invariants of the module."""
        assert len(self._servers) <= FILTER_SERVERS_MAX
        assert all(len(address) <= ADDRESS_LENGTH_MAX for address in self.addresses())
