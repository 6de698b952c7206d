"""Headers of requests about the accounts of access control.

4.9.3 marks the name of an account and the white list as required, and goes on without them: the
answer then has the request's own error code.
"""

from wakelog.protocol.ext_fields import Header


class CreateAccessConfigRequestHeader(Header, frozen=True, kw_only=True):
    """50: create or change an account. Lists are joined by commas."""

    access_key: str | None = None
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None

    def __repr__(self) -> str:
        """Leave out the secret key."""
        return f"CreateAccessConfigRequestHeader({self.access_key!r})"


class DeleteAccessConfigRequestHeader(Header, frozen=True, kw_only=True):
    """51: delete an account."""

    access_key: str | None = None


class UpdateGlobalWhiteAddrsConfigRequestHeader(Header, frozen=True, kw_only=True):
    """53: replace the global white list; patterns are joined by commas."""

    global_white_addrs: str | None = None


class GetBrokerAclConfigResponseHeader(Header, frozen=True, kw_only=True):
    """Answer to 52: the versions of the files, as JSON; `version` is that of plain_acl.yml."""

    version: str
    all_acl_file_version: str | None = None
    broker_name: str
    broker_addr: str
    cluster_name: str
