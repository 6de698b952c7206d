"""Accounts of each kind, and requests that they have signed."""

from wakelog.broker.access.accounts import AccessTable
from wakelog.broker.access.control import AccessControl
from wakelog.network.signing import Credentials, sign
from wakelog.protocol.command import RemotingCommand

ADMIN = Credentials("admin-key", "admin-secret")
LOW = Credentials("low-key", "low-secret")
UNKNOWN = Credentials("unknown-key", "low-secret")
WRONG = Credentials("low-key", "guessed")

UNSIGNED = Credentials()

HOST, WHITE_HOST, HOST_OF_LOW = "10.0.0.9", "10.1.0.1", "10.2.0.1"

FILE = """
globalWhiteRemoteAddresses: [10.1.0.*]
accounts:
- {accessKey: admin-key, secretKey: admin-secret, admin: true}
- accessKey: low-key
  secretKey: low-secret
  whiteRemoteAddress: 10.2.0.1
  defaultGroupPerm: SUB
  topicPerms: [read=SUB, written=PUB, both=PUB|SUB, denied=DENY]
  groupPerms: [closed=DENY]
"""


def access_control(text: str = FILE) -> AccessControl:
    return AccessControl(AccessTable({"plain_acl.yml": text}))


def signed(
    code: int,
    by: Credentials = UNSIGNED,
    fields: dict[str, str] | None = None,
    body: bytes = b"",
) -> RemotingCommand:
    """Make a request; without credentials it is not signed."""
    return sign(RemotingCommand(code, 1, 0, fields or {}, body), by)
