"""The console as a server: what it listens on, and its parts from a start to a stop."""

import asyncio
import contextlib
import ipaddress
import logging
import socket
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from logging.handlers import RotatingFileHandler
from typing import Final, NamedTuple

import uvicorn

from wakelog.client.admin import Admin
from wakelog.client.errors import log_unexpected
from wakelog.console.accounts import Accounts
from wakelog.console.actions.action import Commands
from wakelog.console.actions.table import ACTIONS
from wakelog.console.audit_log import AuditLog
from wakelog.console.defence.connections import (
    HANDSHAKE_SECONDS_MAX,
    IDLE_SECONDS_MAX,
    connections_of,
    make_places,
)
from wakelog.console.defence.known_hosts import limited
from wakelog.console.defence.places import Places
from wakelog.console.defence.proxies import Proxies
from wakelog.console.pages.app import make_app
from wakelog.console.pages.guard import LOOPBACK_NAMES, Guard
from wakelog.console.pages.site import Console
from wakelog.console.reader import ClusterReader
from wakelog.network.background import awaited, keep

STOP_SECONDS_MAX: Final = 3
"""How long a stop waits for answers under way; pages that are kept new are cut."""

ACCOUNTS_SECONDS: Final = 2.0
"""Between two readings of the file of accounts."""

AUDIT_BYTES_MAX: Final = 10 << 20
AUDIT_FILES_MAX: Final = 10
"""Older files of what was done, beside the one that is written."""


class Listen(NamedTuple):
    """Where the console listens, and what it is called.

    port: 0 for a free one. hosts: further names, as behind a proxy.
    cert_path, key_path: PEM files; "" for HTTP.
    proxies: addresses and networks of proxies that are believed, which end TLS.
    """

    bind: str = "127.0.0.1"
    port: int = 0
    hosts: Sequence[str] = ()
    cert_path: str = ""
    key_path: str = ""
    proxies: Sequence[str] = ()

    @property
    def is_loopback(self) -> bool:
        """Whether only this host reaches it. Raises: ValueError if `bind` is no IP address."""
        return ipaddress.ip_address(self.bind).is_loopback


class _Server(uvicorn.Server):
    """A server whose process has handlers of signals already, and limits for its connections."""

    def __init__(self, config: uvicorn.Config, places: Places, proxies: Proxies) -> None:
        """Listen on nothing yet."""
        super().__init__(config)
        self._make_connection = connections_of(places, proxies)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen. uvicorn's own way has no limit for the handshake of TLS."""
        loop, tls = asyncio.get_running_loop(), self.config.ssl

        def connection() -> asyncio.Protocol:
            return self._make_connection(
                config=self.config, server_state=self.server_state, app_state={}
            )

        limit_seconds = HANDSHAKE_SECONDS_MAX if tls is not None else None
        self.servers = [
            await loop.create_server(
                connection,
                sock=each,
                ssl=tls,
                backlog=self.config.backlog,
                ssl_handshake_timeout=limit_seconds,
            )
            for each in sockets or ()
        ]
        self.started = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave them as they are."""
        yield


def make_console(
    admin: Admin, commands: Commands, accounts: Accounts, version: str, audit_path: str = ""
) -> Console:
    """Return the parts of a console; nothing is asked yet.

    audit_path: of the file that gets a line for each action; "" for the page alone. Serving closes
        it. Raises: OSError.
    """
    admin = limited(admin)
    return Console(
        ClusterReader(admin, lambda: time.time_ns() // 1_000_000),
        admin,
        commands,
        accounts,
        _audit_in(audit_path) if audit_path else AuditLog(lambda _: None),
        ACTIONS,
        ";".join(admin.options.name_servers),
        version,
    )


def _audit_in(path: str) -> AuditLog:
    """Return a log that appends lines to a file, of which older ones are kept beside it."""
    handler = RotatingFileHandler(
        path, maxBytes=AUDIT_BYTES_MAX, backupCount=AUDIT_FILES_MAX, encoding="utf-8"
    )
    written = logging.Logger("wakelog.console.audit", logging.INFO)
    written.addHandler(handler)
    return AuditLog(written.info, handler.close)


@contextlib.asynccontextmanager
async def serving(console: Console, listen: Listen) -> AsyncIterator[str]:
    """Yield the URL of a console that serves until the end of the block.

    Raises: OSError if it cannot listen there.
    """
    listening = _socket(listen)
    port = listening.getsockname()[1]
    is_secure = bool(listen.cert_path)
    hosts = [*LOOPBACK_NAMES, _host(listen.bind), *listen.hosts]
    proxies = Proxies(listen.proxies)
    answers_proxies_alone = proxies.are_trusted and not is_secure and not listen.is_loopback
    config = uvicorn.Config(
        Guard(make_app(console), hosts, proxies, answers_proxies_alone=answers_proxies_alone),
        log_config=None,
        log_level="error",  # a line for each bad request would be for all to write
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
        timeout_keep_alive=IDLE_SECONDS_MAX,
        timeout_graceful_shutdown=STOP_SECONDS_MAX,
        ssl_certfile=listen.cert_path or None,
        ssl_keyfile=listen.key_path or None,
    )
    server = _Server(config, make_places(), proxies)
    reading = keep(console.reader.run, log_unexpected("reading the cluster"))
    watching = keep(lambda: _watch(console.accounts), log_unexpected("reading the accounts"))
    answering = awaited(server.serve([listening]))
    try:
        yield f"{'https' if is_secure else 'http'}://{_host(listen.bind)}:{port}"
    finally:
        reading.cancel()
        watching.cancel()
        await console.reader.end()
        server.should_exit = True
        await asyncio.wait((answering,))
        listening.close()
        console.comparing.shutdown(wait=False, cancel_futures=True)
        console.audit.close()


async def _watch(accounts: Accounts) -> None:
    """Read the file of the accounts again and again; return if they have none."""
    while accounts.path:
        await asyncio.sleep(ACCOUNTS_SECONDS)
        await asyncio.to_thread(accounts.read_again)


def _socket(listen: Listen) -> socket.socket:
    family = socket.AF_INET6 if ":" in listen.bind else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((listen.bind, listen.port))
        listening.listen()
    except OSError:
        listening.close()
        raise
    return listening


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address
