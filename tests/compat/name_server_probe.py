"""Asks a name server which brokers it knows, in bytes made by hand.

The tests wait with this for a broker to be registered. It shares no code with wakelog's protocol,
so that a mistake there cannot make a broker look ready, or a ready one look absent.
"""

import json
import socket
import struct

GET_BROKER_CLUSTER_INFO = 106
TIMEOUT_SECONDS = 2.0


def knows_broker(name_server: str, broker: str) -> bool:
    """Tell whether a broker at this address is registered; False also if nobody answers."""
    try:
        return f'"{broker}"'.encode() in _ask(name_server, GET_BROKER_CLUSTER_INFO)
    except (OSError, struct.error):
        return False


def answers(name_server: str) -> bool:
    """Tell whether a name server answers at this address."""
    try:
        return bool(_ask(name_server, GET_BROKER_CLUSTER_INFO))
    except (OSError, struct.error):
        return False


def _ask(address: str, code: int) -> bytes:
    """Send one request without a body and return the whole answering frame."""
    host, _, port = address.rpartition(":")
    header = json.dumps({"code": code, "language": "OTHER", "version": 399, "opaque": 1, "flag": 0})
    frame = struct.pack(">II", 4 + len(header), len(header)) + header.encode()
    with socket.create_connection((host, int(port)), TIMEOUT_SECONDS) as connection:
        connection.sendall(frame)
        [length] = struct.unpack(">I", _receive(connection, 4))
        return _receive(connection, length)


def _receive(connection: socket.socket, length: int) -> bytes:
    received = b""
    while len(received) < length:
        chunk = connection.recv(length - len(received))
        if not chunk:
            raise ConnectionError("closed before the answer was complete")
        received += chunk
    return received
