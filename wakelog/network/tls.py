"""TLS settings of both ends as values, and the contexts that are made from them.

A client trusts a server if its certificate is trusted and is for the address that was called.
RocketMQ's own clients check the first only on request, and never the second. A server that checks
clients trusts those whose certificates a signer in ``trust_path`` has signed.

A server without files may sign a certificate itself, which proves nothing to a client. It is made
in a thread when the first client wants TLS: a server without such clients does not pay for it.

Invariants: a setting that is not given is the safe choice, except ``TlsMode.DISABLED``; a password
is never shown and never requested at the terminal.

Source: org.apache.rocketmq.remoting.netty.TlsSystemConfig, TlsHelper, common.TlsMode (4.9.3).
"""

import asyncio
import secrets
import ssl
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from wakelog.network.errors import TlsRefused


class Tls(NamedTuple):
    """Settings of a client. Paths are of PEM files; an empty one is not given.

    trust_path: certificates of the signers of servers, in place of the system's.
    cert_path, key_path: the client's own, for servers that check them.
    checks_server, checks_host: False accepts any certificate, or one for any address.
    """

    trust_path: str = ""
    cert_path: str = ""
    key_path: str = ""
    key_password: str = ""
    checks_server: bool = True
    checks_host: bool = True

    def __repr__(self) -> str:
        """Leave out the password: errors and logs show options."""
        return f"Tls{self._replace(key_password='')[:]!r}"


class TlsMode(StrEnum):
    """tls.server.mode: which connections a server accepts."""

    DISABLED = "disabled"
    """Without TLS only."""

    PERMISSIVE = "permissive"
    """Both: the first byte of a connection decides."""

    ENFORCING = "enforcing"
    """With TLS only."""


class ClientAuth(StrEnum):
    """tls.server.need.client.auth: whether a server asks clients for a certificate."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRE = "require"


class ServerTls(NamedTuple):
    """Settings of a server. Paths are of PEM files; an empty one is not given.

    is_self_signed: a certificate made here takes the place of one from files.
    """

    mode: TlsMode = TlsMode.DISABLED
    cert_path: str = ""
    key_path: str = ""
    key_password: str = ""
    trust_path: str = ""
    client_auth: ClientAuth = ClientAuth.NONE
    is_self_signed: bool = False

    def __repr__(self) -> str:
        """Leave out the password: errors and logs show options."""
        return f"ServerTls{self._replace(key_password='')[:]!r}"


def make_context(tls: Tls) -> ssl.SSLContext:
    """Return the context of a client's connections. Raises: TlsRefused."""
    context = ssl.create_default_context()
    if tls.trust_path:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _load_signers(context, tls.trust_path)
    if tls.cert_path:
        _load_own(context, tls.cert_path, tls.key_path, tls.key_password)
    context.check_hostname = tls.checks_host and tls.checks_server
    if not tls.checks_server:
        context.verify_mode = ssl.CERT_NONE
    return context


class ServerContext:
    """The context of a server's connections, and which connections it is for."""

    def __init__(self, tls: ServerTls) -> None:
        """Read certificates and keys; this may block. Raises: TlsRefused."""
        self.mode = tls.mode
        self._made: ssl.SSLContext | None = None
        self._making: asyncio.Future[ssl.SSLContext] | None = None
        self._when_made: set[Callable[[], None]] = set()
        if tls.mode is not TlsMode.DISABLED and not tls.is_self_signed:
            self._made = _from_files(tls)

    def is_made(self, when_made: Callable[[], None]) -> bool:
        """Return whether `get` waits no longer; else have it made, and call `when_made` then.

        It waits no longer, too, once a certificate could not be made: `get` tries that again.
        """
        if self._made is not None or (self._making is not None and self._making.done()):
            return True
        self._when_made.add(when_made)
        if self._making is None:
            self._make()
        return False

    async def get(self) -> ssl.SSLContext:
        """Return the context; the first call may wait for a certificate to be made.

        Raises: TlsRefused.
        """
        if self._made is None:
            making = self._making
            if making is None or (making.done() and making.exception() is not None):
                making = self._make()
            # A client that gives up must not end what others wait for.
            self._made = await asyncio.shield(making)
        return self._made

    def _make(self) -> "asyncio.Future[ssl.SSLContext]":
        loop = asyncio.get_running_loop()
        making = self._making = loop.run_in_executor(None, _self_signed)
        making.add_done_callback(self._end_making)
        return making

    def _end_making(self, made: "asyncio.Future[ssl.SSLContext]") -> None:
        if not made.cancelled():
            made.exception()  # whoever calls `get` hears of it
        when_made, self._when_made = self._when_made, set()
        for call in when_made:
            call()


WITHOUT_TLS = ServerContext(ServerTls())


def _from_files(tls: ServerTls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load_own(context, tls.cert_path, tls.key_path, tls.key_password)
    if tls.client_auth is not ClientAuth.NONE:
        _load_signers(context, tls.trust_path)
        is_required = tls.client_auth is ClientAuth.REQUIRE
        context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
    return context


def _self_signed() -> ssl.SSLContext:
    # Few servers need it, and the import takes longer than a small broker's whole recovery.
    from wakelog.network.self_signed import make_pem

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # OpenSSL reads files only. The folder is private, and gone when this returns.
        with TemporaryDirectory() as folder:
            path = Path(folder, "self_signed.pem")
            path.write_bytes(make_pem())
            context.load_cert_chain(path)
    except OSError as error:
        raise TlsRefused(f"no certificate can be made: {error.strerror or error}") from error
    return context


def handshake_reason(error: OSError) -> str:
    """Return in words why a handshake failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        return f"no TLS could be agreed on: {_words(error)}"
    return "it ended the connection before TLS was agreed on"


def _load_signers(context: ssl.SSLContext, path: str) -> None:
    try:
        context.load_verify_locations(path)
    except OSError as error:
        raise TlsRefused(_refusal(path, "certificates", error)) from error


def _load_own(context: ssl.SSLContext, cert_path: str, key_path: str, key_password: str) -> None:
    try:
        # Without a password OpenSSL would ask for one at the terminal.
        context.load_cert_chain(cert_path, key_path or None, password=lambda: key_password)
    except OSError as error:
        is_content = isinstance(error, ssl.SSLError)
        if not (is_content and _load_old_key(context, cert_path, key_path, key_password)):
            files = " and ".join(filter(None, (cert_path, key_path)))
            raise TlsRefused(_refusal(files, "a certificate and its key", error)) from error


def _load_old_key(
    context: ssl.SSLContext, cert_path: str, key_path: str, key_password: str
) -> bool:
    """Load a key whose encryption OpenSSL 3 does not know; return whether that was it.

    RocketMQ's documentation makes keys with PBE-SHA1-RC4-128, which Netty reads. OpenSSL reads
    files only. So the key is written again for a moment, encrypted, in a private folder.
    """
    # Few servers need it, as `_self_signed`.
    from wakelog.network.old_keys import encrypted_again

    password = secrets.token_hex()
    try:
        old = Path(key_path or cert_path).read_bytes()
        with TemporaryDirectory() as folder:
            path = Path(folder, "own.key")
            path.write_bytes(encrypted_again(old, key_password, password))
            context.load_cert_chain(cert_path, path, password=password)
    except (OSError, ValueError):
        return False
    return True


def _refusal(files: str, wanted: str, error: OSError) -> str:
    reason = _words(error) if isinstance(error, ssl.SSLError) else error.strerror or str(error)
    return f"{files or 'an empty path'} cannot be read as {wanted}: {reason}"


def _words(error: ssl.SSLError) -> str:
    return (error.reason or "no PEM").lower().replace("_", " ")
