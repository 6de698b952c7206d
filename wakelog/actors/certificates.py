"""Certificates: TLS of one server, from its tls.properties to its ports.

The files are read in a thread, at the start, and checked again each `WATCH_SECONDS` while the
server runs. A new file that cannot be used leaves the old certificate in use, with a log line. A
server without files of its own (TLS is off, or it signs its certificate itself) watches nothing.

Source: org.apache.rocketmq.srvutil.FileWatchService, NettyRemotingServer.loadSslContext (4.9.3).
"""

import asyncio
import hashlib
import ssl
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

from wakelog.network.background import keep, log_failure
from wakelog.network.certificate_changes import CertificateChanges
from wakelog.network.errors import TlsRefused
from wakelog.network.server import Server
from wakelog.network.tls import ServerContext, ServerTls, TlsMode, make_context
from wakelog.network.tls_properties import TlsProperties, TlsSource, read_tls
from wakelog.telemetry.logs import Log, logger

WATCH_SECONDS = 0.5
"""WATCH_INTERVAL of 4.9.3's FileWatchService."""


class Certificates:
    """The certificates of one server and of the client beside it."""

    def __init__(self, source: TlsSource, *, watch_seconds: float = WATCH_SECONDS) -> None:
        """Read nothing yet."""
        self._source = source
        self._watch_seconds = watch_seconds
        self._watching: asyncio.Task[None] | None = None
        self._read_count = 0
        self._refused_count = 0
        self._log = logger(Log.REMOTING)

    async def start(self, server: Server) -> None:
        """Let a server use the certificates, and new ones as they come. Raises: TlsRefused."""
        if self._source.mode is TlsMode.DISABLED:
            return
        loop = asyncio.get_running_loop()
        properties, context, digests = await loop.run_in_executor(None, self._read)
        self._read_count += 1
        server.use_tls(context)
        own = "self-signed" if properties.server.is_self_signed else properties.server.cert_path
        self._log.info("TLS", mode=self._source.mode.value, certificate=own)
        for warning in properties.warnings:
            self._log.warning("TLS", cause=warning)
        if digests:
            changes = CertificateChanges(properties.server, digests)
            watch = partial(self._watch, server, changes, tuple(digests))
            self._watching = keep(watch, log_failure(self._log, "certificates"))

    async def client_context(self) -> ssl.SSLContext:
        """Return what a client of this process uses. Raises: TlsRefused."""
        return await asyncio.get_running_loop().run_in_executor(None, self._read_client)

    def statistics(self) -> dict[str, int]:
        """Return counters."""
        return {"read_count": self._read_count, "refused_count": self._refused_count}

    def close(self) -> None:
        """Watch no longer."""
        if self._watching is not None:
            self._watching.cancel()

    def _read_client(self) -> ssl.SSLContext:
        return make_context(read_tls(self._source).client)

    def _read(self) -> tuple[TlsProperties, ServerContext, dict[str, bytes]]:
        properties = read_tls(self._source)
        # Before the files are used: a change that comes in between is found by the next check.
        digests = digests_of(watched(properties.server))
        return properties, ServerContext(properties.server), digests

    async def _watch(
        self, server: Server, changes: CertificateChanges, paths: Iterable[str]
    ) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._watch_seconds)
            digests = await loop.run_in_executor(None, partial(digests_of, paths))
            if not changes.note(digests):
                continue
            try:
                _, context, _ = await loop.run_in_executor(None, self._read)
            except TlsRefused as error:
                self._refused_count += 1
                changes.note_read(succeeded=False)
                self._log.error("certificates not read again, the old ones stay", cause=str(error))
            else:
                self._read_count += 1
                changes.note_read(succeeded=True)
                server.use_tls(context)
                self._log.info("certificates read again")


def watched(tls: ServerTls) -> tuple[str, ...]:
    """Return the files whose change matters."""
    return tuple(filter(None, (tls.cert_path, tls.key_path, tls.trust_path)))


def digests_of(paths: Iterable[str]) -> dict[str, bytes]:
    """Return a digest of each file that can be read, by path."""
    found = {}
    for path in paths:
        with suppress(OSError):
            found[path] = hashlib.sha256(Path(path).read_bytes()).digest()
    return found
