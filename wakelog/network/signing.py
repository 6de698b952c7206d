"""Requests signed for brokers that check who asks (`aclEnable`): what 4.9.3's client hook adds.

A signature is over the values of all fields, in the order of their names, and the body behind them.
Name servers do not look at it.

Invariants: what is sent is what was signed; the secret key itself is never sent.

Source: org.apache.rocketmq.acl.common.AclClientRPCHook, AclUtils#combineRequestContent, AclSigner
(4.9.3).
"""

from __future__ import annotations

import base64
import hmac
import ssl
from typing import Final

import msgspec

from wakelog.network.client import RemotingClient
from wakelog.network.credentials import Credentials
from wakelog.network.tls import Tls, make_context
from wakelog.protocol.command import RemotingCommand

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"
SIGNATURE: Final = "Signature"


def sign(command: RemotingCommand, credentials: Credentials) -> RemotingCommand:
    """Return a request with the fields that say who sends it."""
    if not credentials.access_key:
        return command
    fields = command.ext_fields | {ACCESS_KEY: credentials.access_key}
    if credentials.security_token:
        fields[SECURITY_TOKEN] = credentials.security_token
    content = "".join(fields[name] for name in sorted(fields)).encode() + command.body
    digest = hmac.digest(credentials.secret_key.encode(), content, "sha1")
    fields[SIGNATURE] = base64.b64encode(digest).decode()
    return msgspec.structs.replace(command, ext_fields=fields)


def make_client(credentials: Credentials, tls: Tls | None) -> SigningClient:
    """Return a client for what options say. Raises: TlsRefused."""
    return SigningClient(credentials, None if tls is None else make_context(tls))


class SigningClient(RemotingClient):
    """A client that signs each request."""

    def __init__(self, credentials: Credentials, tls: ssl.SSLContext | None = None) -> None:
        """Connect to nobody yet."""
        super().__init__(tls)
        self._credentials = credentials

    async def invoke(
        self, address: str, command: RemotingCommand, *, timeout_ms: int
    ) -> RemotingCommand:
        """Do what `RemotingClient.invoke` does, with the request signed."""
        signed = sign(command, self._credentials)
        return await super().invoke(address, signed, timeout_ms=timeout_ms)
