"""Addresses as settings have them.

Source: org.apache.rocketmq.remoting.netty.NettyRemotingClient#updateNameServerAddressList (4.9.3).
"""

import re
from typing import Final

_ADDRESS: Final = re.compile(r"[^\s,/]+:(\d{1,5})", re.ASCII)
_PORT_MAX: Final = 65_535


def read_name_servers(text: str) -> tuple[str, ...]:
    """Read namesrvAddr: `HOST:PORT`, or several with semicolons between. Raises: ValueError."""
    found = tuple(filter(None, map(str.strip, text.split(";"))))
    for address in found:
        match = _ADDRESS.fullmatch(address)
        if match is None or not 0 < int(match[1]) <= _PORT_MAX:
            raise ValueError("HOST:PORT, several with semicolons between them")
    return found


def read_address(address: str) -> tuple[str, int]:
    """Return host and port of a server; the host without brackets. Raises: ValueError."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"{address!r} is no address: it has the form HOST:PORT")
    return host.strip("[]"), int(port)
