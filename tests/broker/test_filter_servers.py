"""FilterServers: one address for each connection, bounded, and forgotten after 30 s of silence."""

import pytest

from wakelog.broker import filter_servers
from wakelog.broker.error_response import LimitReached
from wakelog.broker.filter_servers import EXPIRED_MS, FilterServers
from wakelog.protocol.errors import RemoteProtocolError


def test_the_first_address_of_a_connection_stays() -> None:
    servers = FilterServers()
    servers.register(1, "a:1", 0)
    servers.register(1, "b:1", EXPIRED_MS)
    assert servers.addresses() == ["a:1"]
    assert servers.expired(2 * EXPIRED_MS) == []
    assert servers.expired(2 * EXPIRED_MS + 1) == [1]
    assert servers.addresses() == []
    servers.validate()


def test_what_is_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_servers, "FILTER_SERVERS_MAX", 1)
    servers = FilterServers()
    with pytest.raises(RemoteProtocolError):
        servers.register(1, "x" * 256, 0)
    servers.register(1, "a:1", 0)
    with pytest.raises(LimitReached):
        servers.register(2, "b:1", 0)
    servers.remove(1)
    servers.register(2, "b:1", 0)
    assert servers.addresses() == ["b:1"]
    servers.validate()
