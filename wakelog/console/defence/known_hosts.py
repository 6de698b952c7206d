"""Only name servers, and brokers that they know, are asked: whatever a request names.

An id of a message has a host and a port in it, a form may name a broker, and a message says where
it is stored. None of them may lead the console to another host. So it is checked where every
request of the console passes, and not where one is made.

Invariants: nothing is sent to, and no connection made with, an address that is neither a name
server nor of a broker in the newest answer of one.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from wakelog.client.admin import Admin, connections_of
from wakelog.client.errors import ClientError
from wakelog.client.options import ClientOptions
from wakelog.client.route import Connections
from wakelog.network.errors import ConnectFailed
from wakelog.protocol.bodies import ClusterInfo
from wakelog.protocol.body_codec import decode_response
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.errors import ProtocolError

RESOLVE_SECONDS_MAX: Final = 2.0
"""How long names of brokers may take to become addresses."""
NAMES_MAX: Final = 64
"""Brokers whose names are resolved for one address that is not known."""
UNKNOWN: Final = "no name server knows a broker there, so the console does not ask it"


class KnownHosts:
    """Connections to what name servers know. One loop."""

    def __init__(self, connections: Connections, options: ClientOptions) -> None:
        """Know the name servers alone."""
        self._connections = connections
        self._options = options
        self._name_servers = frozenset(options.name_servers)
        self._brokers: frozenset[str] = frozenset()
        self._asking = asyncio.Lock()

    async def invoke(
        self, address: str, command: RemotingCommand, *, timeout_ms: int
    ) -> RemotingCommand:
        """Send a request and return its response. Raises: RemotingError, ConnectFailed if unknown.

        The answer of a name server to GET_BROKER_CLUSTER_INFO says which brokers are known.
        """
        await self._check(address)
        response = await self._connections.invoke(address, command, timeout_ms=timeout_ms)
        if command.code == Code.GET_BROKER_CLUSTER_INFO and address in self._name_servers:
            self._learn(response)
        return response

    async def invoke_oneway(self, address: str, command: RemotingCommand) -> None:
        """Send a request that gets no response. Raises: RemotingError, ConnectFailed if unknown."""
        await self._check(address)
        await self._connections.invoke_oneway(address, command)

    async def _check(self, address: str) -> None:
        if address in self._name_servers or address in self._brokers:
            return
        async with self._asking:
            if address not in self._brokers:
                with suppress(ClientError):  # it is not known then
                    await Admin(self, self._options).cluster()
        if address not in self._brokers and not await _is_any_of(address, self._brokers):
            raise ConnectFailed(address, UNKNOWN)

    def _learn(self, response: RemotingCommand) -> None:
        if response.code != ResponseCode.SUCCESS:
            return
        try:
            info = decode_response(ClusterInfo, response.body)
        except ProtocolError:
            return
        self._brokers = frozenset(
            address
            for data in info.broker_addr_table.values()
            for address in data.broker_addrs.values()
        )


async def _is_any_of(address: str, brokers: Iterable[str]) -> bool:
    """Return whether an address with an IP is that of a broker that is known by a host's name."""
    host, _, port = address.rpartition(":")
    if not _is_ip(host):
        return False
    named = [
        x for x in brokers if x.rpartition(":")[2] == port and not _is_ip(x.rpartition(":")[0])
    ]
    loop, found = asyncio.get_running_loop(), set[str]()
    with suppress(TimeoutError):
        async with asyncio.timeout(RESOLVE_SECONDS_MAX):
            for each in sorted(named)[:NAMES_MAX]:
                with suppress(OSError):
                    name = each.rpartition(":")[0]
                    resolved = await loop.getaddrinfo(name, None, type=socket.SOCK_STREAM)
                    found.update(str(entry[4][0]) for entry in resolved)
    return host.strip("[]") in found


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def limited(admin: Admin) -> Admin:
    """Return an admin of the same cluster that asks known hosts alone."""
    connections = connections_of(admin)
    if isinstance(connections, KnownHosts):
        return admin
    return Admin(KnownHosts(connections, admin.options), admin.options)
