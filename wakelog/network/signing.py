"""Signed requests, for brokers with access control (`aclEnable`): what 4.9.3's client hook adds.

`signed_content` says what a signature covers. Name servers ignore it.

Invariants: the command that is sent is the one that was signed; the secret key is never sent.

Source: org.apache.rocketmq.acl.common.{AclClientRPCHook, AclSigner, SessionCredentials} (4.9.3).
"""

import base64
import hashlib
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.signed_content import (
    ACCESS_KEY,
    SECURITY_TOKEN,
    SIGNATURE,
    signed_content,
)

_KEYED_MAX: Final = 256
"""Hashes that are begun from a secret key and kept; a broker has tens of accounts."""


_BLOCK_BYTES: Final = 64
"""Of SHA-1."""

_INNER: Final = bytes(each ^ 0x36 for each in range(256))
_OUTER: Final = bytes(each ^ 0x5C for each in range(256))


class Credentials(NamedTuple):
    """The keys of an account; without an access key nothing is signed."""

    access_key: str = ""
    secret_key: str = ""
    security_token: str = ""

    def __repr__(self) -> str:
        """Leave out the secrets: errors and logs show options."""
        return f"Credentials({self.access_key!r})"


def sign(command: RemotingCommand, credentials: Credentials) -> RemotingCommand:
    """Return a copy of a request with its sender and its signature among the fields."""
    if not credentials.access_key:
        return command
    fields = command.ext_fields | {ACCESS_KEY: credentials.access_key}
    if credentials.security_token:
        fields[SECURITY_TOKEN] = credentials.security_token
    signed = msgspec.structs.replace(command, ext_fields=fields)
    fields[SIGNATURE] = signature_of(signed, credentials.secret_key)
    return signed


def signature_of(command: RemotingCommand, secret_key: str) -> str:
    """Return the signature that a request has to have, whatever signature it has."""
    return signature_over(signed_content(command.ext_fields, command.body), secret_key).decode()


def signature_over(content: bytes, secret_key: str) -> bytes:
    """Return the signature of what it covers."""
    # By RFC 2104. Two copies of hashes of OpenSSL take a third of one call of its HMAC.
    inner, outer = (each.copy() for each in _keyed(secret_key))
    inner.update(content)
    outer.update(inner.digest())
    return base64.b64encode(outer.digest())


@lru_cache(_KEYED_MAX)
def _keyed(secret_key: str) -> tuple["hashlib._Hash", "hashlib._Hash"]:
    """Return the inner and the outer hash of HMAC, begun from the key."""
    key = secret_key.encode()
    if len(key) > _BLOCK_BYTES:
        key = hashlib.sha1(key).digest()
    key = key.ljust(_BLOCK_BYTES, b"\0")
    return hashlib.sha1(key.translate(_INNER)), hashlib.sha1(key.translate(_OUTER))
