"""Addresses of this host: the one by which others reach it, and whether an address is its own.

Source: org.apache.rocketmq.remoting.common.RemotingUtil.getLocalAddress (4.9.3). That walks through
the network interfaces; here the routing table names the one that leads out.
"""

import ipaddress
import socket

LOOPBACK = "127.0.0.1"

# Documentation addresses of RFC 5737 and RFC 3849. Nothing is sent: to connect a datagram socket
# only finds the route.
_FAR_AWAY = ((socket.AF_INET, "203.0.113.1"), (socket.AF_INET6, "2001:db8::1"))
_ANY_PORT = 9


class HostAddresses:
    """Names and addresses as the operating system has them. Holds no state."""

    def resolve(self, host: str) -> str:
        """Return the address of a name, IPv4 if it has one. Raises: OSError."""
        found = socket.getaddrinfo(host or None, None, type=socket.SOCK_STREAM)
        by_family = sorted(found, key=lambda info: info[0] != socket.AF_INET)
        return str(by_family[0][4][0])

    def is_own(self, address: str) -> bool:
        """Return whether this host has the address: whether it can be bound."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((address, 0))
            except OSError:
                return False
        return True

    def outward(self) -> str:
        """Return the address that other machines most likely see, else the loopback address."""
        for family, far_away in _FAR_AWAY:
            try:
                with socket.socket(family, socket.SOCK_DGRAM) as probe:
                    probe.connect((far_away, _ANY_PORT))
                    address = str(probe.getsockname()[0])
            except OSError:
                continue
            if not is_wildcard(address):
                return address
        return LOOPBACK


def is_wildcard(address: str) -> bool:
    """Return whether an address means every interface."""
    try:
        return ipaddress.ip_address(address).is_unspecified
    except ValueError:
        return False


def reachable_from_here(bound_address: str) -> str:
    """Return the address by which this host reaches what is bound to `bound_address`."""
    if not is_wildcard(bound_address):
        return bound_address
    return "::1" if ":" in bound_address else LOOPBACK
