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
from typing import NamedTuple

from wakelog.network.background import keep, log_failure
from wakelog.network.certificate_changes import CertificateChanges
from wakelog.network.errors import TlsRefused
from wakelog.network.server import Server
from wakelog.network.tls import WITHOUT_TLS, ServerContext, ServerTls, TlsMode, make_context
from wakelog.network.tls_properties import TlsProperties, TlsSource, read_tls
from wakelog.telemetry.logs import Log, logger

WATCH_SECONDS = 0.5
"""WATCH_INTERVAL of 4.9.3's FileWatchService."""


class ReadFiles(NamedTuple):
    """What tls.properties says, and a digest of each file that it names, by path.

    valid_until_ms: of the server's certificate, 0 for one that it signs itself.
    """

    properties: TlsProperties
    context: ServerContext
    digests: dict[str, bytes]
    valid_until_ms: int = 0


async def read_certificates(
    source: TlsSource, *, watch_seconds: float = WATCH_SECONDS
) -> "Certificates":
    """Read the files of a server that has TLS. Raises: TlsRefused."""
    if source.mode is TlsMode.DISABLED:
        return Certificates(source, None, watch_seconds)
    read = await asyncio.get_running_loop().run_in_executor(None, read_files, source)
    server = read.properties.server
    own = "self-signed" if server.is_self_signed else server.cert_path
    log = logger(Log.REMOTING)
    log.info("TLS", mode=source.mode.value, certificate=own)
    for warning in read.properties.warnings:
        log.warning("TLS", cause=warning)
    return Certificates(source, read, watch_seconds)


def read_files(source: TlsSource) -> ReadFiles:
    """Read the files once; this waits for the disk. Raises: TlsRefused."""
    properties = read_tls(source)
    # Before the files are used: a change that comes in between is found by the next check.
    digests = digests_of(watched(properties.server))
    server = properties.server
    return ReadFiles(properties, ServerContext(server), digests, _valid_until_ms(server))


def _valid_until_ms(server: ServerTls) -> int:
    if server.is_self_signed or not server.cert_path:
        return 0
    # Few servers have files, and the import takes 50 ms.
    from wakelog.network.certificate_dates import file_valid_until_ms

    return file_valid_until_ms(server.cert_path)


class Certificates:
    """The certificates of one server and of the client beside it; see `read_certificates`.

    context: what a server begins with.
    """

    def __init__(self, source: TlsSource, read: ReadFiles | None, watch_seconds: float) -> None:
        """Watch nothing yet. read: what the files had at the start; None without TLS."""
        self.context = WITHOUT_TLS if read is None else read.context
        self._source = source
        self._read_first = read
        self._watch_seconds = watch_seconds
        self._watching: list[asyncio.Task[None]] = []
        self._read_count = int(read is not None)
        self._valid_until_ms = 0 if read is None else read.valid_until_ms
        self._refused_count = 0
        self._log = logger(Log.REMOTING)

    def watch(self, server: Server) -> None:
        """Let a server use the certificates, and new ones as they come, until `close`."""
        server.use_tls(self.context)
        read = self._read_first
        if read is not None and read.digests:
            changes = CertificateChanges(read.properties.server, read.digests)
            watch = partial(self._watch, server, changes, tuple(read.digests))
            self._watching.append(keep(watch, log_failure(self._log, "certificates")))

    async def client_context(self) -> ssl.SSLContext:
        """Return what a client of this process uses. Raises: TlsRefused."""
        return await asyncio.get_running_loop().run_in_executor(None, self._read_client)

    def statistics(self) -> dict[str, int]:
        """Return counters, and until when the certificate is valid, if it is from a file."""
        counts = {"read_count": self._read_count, "refused_count": self._refused_count}
        valid_until_ms = self._valid_until_ms
        return counts | ({"valid_until_ms": valid_until_ms} if valid_until_ms else {})

    def close(self) -> None:
        """Watch no longer."""
        for task in self._watching:
            task.cancel()

    def _read_client(self) -> ssl.SSLContext:
        return make_context(read_tls(self._source).client)

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
                read = await loop.run_in_executor(None, read_files, self._source)
            except TlsRefused as error:
                self._refused_count += 1
                changes.on_read(succeeded=False)
                self._log.error("certificates not read again, the old ones stay", cause=str(error))
            else:
                self._read_count += 1
                changes.on_read(succeeded=True)
                self._valid_until_ms = read.valid_until_ms
                server.use_tls(read.context)
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
