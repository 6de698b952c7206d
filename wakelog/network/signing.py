"""Signed requests, for brokers with access control (`aclEnable`): what 4.9.3's client hook adds.

A signature covers the values of all fields, in the order of their names, and then the body. Name
servers ignore it.

Invariants: the command that is sent is the one that was signed; the secret key is never sent.

Source: org.apache.rocketmq.acl.common.{AclClientRPCHook, AclSigner, SessionCredentials},
AclUtils#combineRequestContent (4.9.3).
"""

import base64
import hmac
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from wakelog.protocol.command import RemotingCommand

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"
SIGNATURE: Final = "Signature"
UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"

_NOT_SIGNED = (SIGNATURE, UNIQUE_KEY_QUERY)

_KEYED_MAX: Final = 256
"""Hashes that are begun from a secret key and kept; a broker has tens of accounts."""


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
    fields = command.ext_fields
    names = sorted(fields)
    for name in _NOT_SIGNED:
        if name in fields:
            names.remove(name)
    content = "".join(map(fields.__getitem__, names))
    # A copy of a keyed hash costs two thirds of one that is begun from the key.
    keyed = _keyed(secret_key).copy()
    keyed.update(content.encode() + command.body)
    return base64.b64encode(keyed.digest()).decode()


@lru_cache(_KEYED_MAX)
def _keyed(secret_key: str) -> hmac.HMAC:
    return hmac.new(secret_key.encode(), digestmod="sha1")
