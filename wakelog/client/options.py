"""The options that every client has.

Source: org.apache.rocketmq.client.ClientConfig (4.9.3).
"""

import re
from typing import Final, NamedTuple

from wakelog.network.signing import Credentials
from wakelog.network.tls import Tls

_ADDRESS: Final = re.compile(r"[^\s,]+:(\d{1,5})", re.ASCII)
_PORT_MAX: Final = 65_535


def read_name_servers(text: str) -> tuple[str, ...]:
    """Read namesrvAddr: `HOST:PORT`, or several with semicolons between. Raises: ValueError."""
    found = tuple(filter(None, map(str.strip, text.split(";"))))
    for address in found:
        match = _ADDRESS.fullmatch(address)
        if match is None or not 0 < int(match[1]) <= _PORT_MAX:
            raise ValueError("HOST:PORT, several with semicolons between them")
    return found


class ClientOptions(NamedTuple):
    """How to reach a cluster.

    name_servers: `HOST:PORT` of each; the first one that answers counts.
    retries_max: further attempts after the first one failed.
    pause_ms: the pause before a read is tried again; a producer has its own pauses.
    credentials: for brokers with access control. tls: None for connections without TLS.
    """

    name_servers: tuple[str, ...] = ()
    group: str = "wakelog"
    timeout_ms: int = 3000
    retries_max: int = 3
    pause_ms: int = 10
    credentials: Credentials = Credentials()
    tls: Tls | None = None
