"""The message id that a send returns: the place of the record, in upper-case hexadecimal.

    width (bytes)  field
    4 or 16        address of the store host
    4              its port
    8              physical offset

It has 32 characters with a v4 host and 56 with a v6 host. 4.9.3 takes every length but 32 for a v6
id.

Source: org.apache.rocketmq.common.message.MessageDecoder.createMessageId (4.9.3)
"""

import struct
from collections.abc import Sequence
from functools import lru_cache

from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import LocalProtocolError, RemoteProtocolError
from wakelog.protocol.java import LONG_MAX, LONG_MIN
from wakelog.protocol.record import Host, host_address, host_text

_V4_CHARACTERS = 32
_V6_CHARACTERS = 56
_PORT_AND_OFFSET = struct.Struct(">iq")
_PORT = struct.Struct(">i")
_OFFSET_BYTES = 8
_LONG_MASK = (1 << 64) - 1


def create_message_id(host: str, port: int, physical_offset: int) -> str:
    """Write the id of the record at `physical_offset` of the broker at `host`.

    Raises:
        LocalProtocolError: if the host is not an address or a number does not fit.
    """
    if not LONG_MIN <= physical_offset <= LONG_MAX:
        raise LocalProtocolError(f"no message id for {host}:{port} {physical_offset}")
    return f"{message_id_begin(host, port)}{physical_offset & _LONG_MASK:016X}"


def create_message_ids(host: str, port: int, physical_offsets: Sequence[int]) -> str:
    """Write the ids of the records of one batch as 4.9.3 does, with commas between.

    Raises:
        LocalProtocolError: as `create_message_id`.
    """
    text = message_id_begin(host, port)
    try:
        packed = struct.pack(f">{len(physical_offsets)}q", *physical_offsets)
    except struct.error as error:
        raise LocalProtocolError(f"no message id for {host}:{port}: {error}") from error
    offsets = packed.hex(",", _OFFSET_BYTES).upper()
    return text + offsets.replace(",", "," + text)


@lru_cache(maxsize=16)  # a broker has one store host
def message_id_begin(host: str, port: int) -> str:
    """Return what all ids of one broker begin with. Raises: LocalProtocolError."""
    try:
        return (host_address(host) + _PORT.pack(port)).hex().upper()
    except struct.error as error:
        raise LocalProtocolError(f"no message id for port {port}") from error


def decode_message_id(message_id: str) -> tuple[Host, int]:
    """Read an id back to ((host, port), physical offset).

    Raises:
        RemoteProtocolError: if it is not 32 or 56 hexadecimal characters.
    """
    if len(message_id) in (_V4_CHARACTERS, _V6_CHARACTERS) and message_id.isalnum():
        try:
            packed = bytes.fromhex(message_id)
        except ValueError:
            packed = b""
        if packed:
            port, physical_offset = _PORT_AND_OFFSET.unpack(packed[-12:])
            return (host_text(packed[:-12]), port), physical_offset
    raise RemoteProtocolError(ResponseCode.SYSTEM_ERROR, f"malformed message id: {message_id[:64]}")
