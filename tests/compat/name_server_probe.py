"""Tells whether a broker is there for clients; the tests wait with this for one to be ready."""

import socket

from tests.compat.frames import RawConnection

GET_BROKER_CLUSTER_INFO = 106
TIMEOUT_SECONDS = 2.0


def serves(name_server: str, broker: str) -> bool:
    """Tell whether a broker at this address is registered and accepts connections.

    Both: wakelog opens its port only when it is in the route, 4.9.3 the other way round.
    """
    return f'"{broker}"'.encode() in _cluster_info(name_server) and _accepts(broker)


def answers(name_server: str) -> bool:
    """Tell whether a name server answers at this address."""
    return bool(_cluster_info(name_server))


def _accepts(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), TIMEOUT_SECONDS).close()
    except OSError:
        return False
    return True


def _cluster_info(name_server: str) -> bytes:
    try:
        with RawConnection(name_server, seconds_max=TIMEOUT_SECONDS) as connection:
            return connection.ask(GET_BROKER_CLUSTER_INFO).body
    except OSError:
        return b""
