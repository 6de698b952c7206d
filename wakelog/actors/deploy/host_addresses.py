"""Addresses of this host: the one by which others reach it, and whether an address is its own.

Source: org.apache.rocketmq.remoting.common.RemotingUtil.getLocalAddress (4.9.3). That walks through
the network interfaces; here the routing table names the one that leads out.
"""

import ipaddress
import socket

LOOPBACK = "127.0.0.1"
LOOPBACK_6 = "::1"

# Documentation addresses of RFC 5737 and RFC 3849. Nothing is sent: to connect a datagram socket
# only finds the route.
_FAR_AWAY = {socket.AF_INET: "203.0.113.1", socket.AF_INET6: "2001:db8::1"}
_ANY_PORT = 9


class HostAddresses:
    """Names and addresses as the operating system has them. Holds no state."""

    def resolve(self, host: str) -> str:
        """Return the address of a name, IPv4 if it has one. Raises: OSError."""
        try:
            found = socket.getaddrinfo(host or None, None, type=socket.SOCK_STREAM)
        except UnicodeError:  # of a text that is no name of a host, such as one of 64 letters
            raise socket.gaierror("it is no name of a host") from None
        by_family = sorted(found, key=lambda info: info[0] != socket.AF_INET)
        return str(by_family[0][4][0])

    def is_own(self, address: str) -> bool:
        """Return whether this host has the address: whether it can be bound."""
        with socket.socket(family_of(address), socket.SOCK_STREAM) as probe:
            try:
                probe.bind((address, 0))
            except OSError:
                return False
        return True

    def outward(self, bound: str = "0.0.0.0") -> str:
        """Return the address that other machines most likely see, else the loopback address.

        bound: what the ports are bound to; the address is of the same family, so that it leads
            there.
        """
        family = family_of(bound)
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((_FAR_AWAY[family], _ANY_PORT))
                address = str(probe.getsockname()[0])
        except OSError:
            return reachable_from_here(bound)
        return reachable_from_here(bound) if is_wildcard(address) else address


def family_of(address: str) -> socket.AddressFamily:
    """Return the family of an address: IPv6 if it has a colon."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


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
    return LOOPBACK_6 if ":" in bound_address else LOOPBACK
