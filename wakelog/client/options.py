"""The options that every client has.

Source: org.apache.rocketmq.client.ClientConfig (4.9.3).
"""

from __future__ import annotations

from typing import NamedTuple

from wakelog.network.signing import Credentials
from wakelog.network.tls import Tls


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
