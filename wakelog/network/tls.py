"""TLS as who calls wants it: an option's value, and the context that connections are made with.

A server is trusted if its certificate is, and if the certificate is for the address that was
called. RocketMQ's own clients ask for neither by default, and for the second never.

Invariants: what is not given is the safe choice; a password is never shown or asked for.

Source: org.apache.rocketmq.remoting.netty.TlsSystemConfig, TlsHelper (4.9.3) for what can be set.
"""

from __future__ import annotations

import ssl
from typing import NamedTuple

from wakelog.network.errors import TlsRefused


class Tls(NamedTuple):
    """Paths are of PEM files; an empty one is not given.

    trust_path: certificates of those who sign servers', in the place of the system's.
    cert_path, key_path: who calls, for servers that ask.
    checks_server, checks_host: False takes any certificate, or one for any address.
    """

    trust_path: str = ""
    cert_path: str = ""
    key_path: str = ""
    key_password: str = ""
    checks_server: bool = True
    checks_host: bool = True

    def __repr__(self) -> str:
        """Leave out what is secret: options are shown in errors and logs."""
        return f"Tls{self._replace(key_password='')[:]!r}"


def make_context(tls: Tls) -> ssl.SSLContext:
    """Return what connections are made with. Raises: TlsRefused."""
    context = ssl.create_default_context()
    if tls.trust_path:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(tls.trust_path)
        except OSError as error:
            raise TlsRefused(_said(tls.trust_path, "certificates", error)) from error
    if tls.cert_path:
        try:
            # Without a password OpenSSL would ask for one at the terminal.
            context.load_cert_chain(
                tls.cert_path, tls.key_path or None, password=lambda: tls.key_password
            )
        except OSError as error:
            files = " and ".join(filter(None, (tls.cert_path, tls.key_path)))
            raise TlsRefused(_said(files, "a certificate and its key", error)) from error
    context.check_hostname = tls.checks_host and tls.checks_server
    if not tls.checks_server:
        context.verify_mode = ssl.CERT_NONE
    return context


def handshake_reason(error: OSError) -> str:
    """Return why no TLS came about, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        return f"no TLS could be agreed on: {_words(error)}"
    return "it ended the connection before TLS was agreed on"


def _said(files: str, wanted: str, error: OSError) -> str:
    reason = _words(error) if isinstance(error, ssl.SSLError) else error.strerror or str(error)
    return f"{files} cannot be read as {wanted}: {reason}"


def _words(error: ssl.SSLError) -> str:
    return (error.reason or "no PEM").lower().replace("_", " ")
