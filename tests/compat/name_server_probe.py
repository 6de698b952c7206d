"""Asks a name server which brokers it knows; the tests wait with this for one to be registered."""

from tests.compat.frames import RawConnection

GET_BROKER_CLUSTER_INFO = 106
TIMEOUT_SECONDS = 2.0


def knows_broker(name_server: str, broker: str) -> bool:
    """Tell whether a broker at this address is registered; False also if nobody answers."""
    return f'"{broker}"'.encode() in _cluster_info(name_server)


def answers(name_server: str) -> bool:
    """Tell whether a name server answers at this address."""
    return bool(_cluster_info(name_server))


def _cluster_info(name_server: str) -> bytes:
    try:
        with RawConnection(name_server, seconds_max=TIMEOUT_SECONDS) as connection:
            return connection.ask(GET_BROKER_CLUSTER_INFO).body
    except OSError:
        return b""
