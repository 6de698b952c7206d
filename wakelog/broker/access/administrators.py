"""Administrators: who may administer where no access control decides it.

That is a broker with `aclEnable=false`, and every name server: 4.9.3's access control does not
cover those. An administrator is

    a peer on this host       over a loopback address, or from the address that it connects to
    a trusted address         wakelog.trustedAddresses has it; `*` trusts everyone, as 4.9.3 does
    an admin's signature      where there are accounts

Source: no class of 4.9.3, which lets everyone administer.
"""

from wakelog.broker.access.addresses import AddressPatterns, is_this_host
from wakelog.broker.access.control import AccessControl
from wakelog.network.handler import Channel
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.errors import RemoteProtocolError

TRUSTED_ADDRESSES_KEY = "wakelog.trustedAddresses"


def read_trusted(text: str) -> AddressPatterns:
    """Read patterns with ";" between them. Raises: ValueError for one that is none."""
    return AddressPatterns(text.split(";"))


class AdministrationRefused(RemoteProtocolError):
    """Administration, from someone who is no administrator."""

    def __init__(self, code: int, host: str) -> None:
        """Make the remark."""
        super().__init__(
            ResponseCode.NO_PERMISSION,
            f"request code={code} is for administrators, and {host} is none: send it from the "
            f"server's own host, sign it as an admin account (aclEnable=true), or "
            f"start the server with {TRUSTED_ADDRESSES_KEY}={host}",
        )


class Administrators:
    """The administrators of one server."""

    def __init__(
        self, trusted: AddressPatterns | None = None, access: AccessControl | None = None
    ) -> None:
        """Trust this host and some addresses.

        access: whose admin accounts are administrators; None if there are no accounts.
        """
        self._trusted = trusted or AddressPatterns()
        self._access = access
        self.refused_count = 0

    def check(self, command: RemotingCommand, channel: Channel, now_ms: int) -> None:
        """Let administration by an administrator pass.

        Raises: AdministrationRefused; TooManyFailures, if the address has failed to sign too often.
        """
        host = channel.remote_host
        if is_this_host(host, channel.local_host) or self._trusted.match(host):
            return
        if self._access is None or not self._access.is_admin(command, host, now_ms):
            self.refused_count += 1
            raise AdministrationRefused(command.code, host)

    def statistics(self) -> dict[str, int]:
        """Return counters, those of `AccessControl`."""
        return {"account_count": 0, "refused_count": self.refused_count, "reload_count": 0}
