"""What the signature of a request covers: the values of its fields by name, and then the body.

Neither code, time nor number of the request are covered.

Source: org.apache.rocketmq.acl.common.AclUtils#combineRequestContent, AclClientRPCHook (4.9.3).
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"
SIGNATURE: Final = "Signature"
UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"

_NOT_SIGNED = (SIGNATURE, UNIQUE_KEY_QUERY)


class SignedSend(NamedTuple):
    """What a send claims: an account, and that `signature` is of it and over `content`."""

    access_key: bytes
    signature: bytes
    content: bytes


def signed_content(fields: Mapping[str, str], body: bytes) -> bytes:
    """Return what a signature covers, whatever signature is among the fields."""
    names = sorted(fields)
    for name in _NOT_SIGNED:
        if name in fields:
            names.remove(name)
    return "".join(map(fields.__getitem__, names)).encode() + body
