"""AccessControl: checks each request of a broker with `aclEnable=true`.

The order is 4.9.3's. What refuses first decides the remark; the code is 1.

    1  a peer that the global white list has may do everything but see and change accounts
    2  the request names an access key, and there is such an account
    3  a peer that the account's own white list has may do the same, without a signature
    4  the signature is the account's
    5  administration needs an admin account
    6  each topic and group needs its permission; an admin account without a list has all

What a heartbeat names is in its body, which is read in steps. So step 6 of a heartbeat comes after
that, in `authorize_heartbeat`, before anything of it is registered.

A recorded request can be sent again, since a signature covers no time: use TLS where others can
listen.

Of sends that come together, `admit` says how many of the next ones pass all steps. The one behind
them is for `check`, which refuses it, or lets it in.

Invariants:
    - signatures are compared in constant time; no secret key is in a remark or in a log.
    - nothing of a request takes effect before its signature has been checked.
    - a code without a row is answered only to a peer that passes steps 1 to 4.
    - a row that no rule maps is answered to admin accounts only.

Differences from 4.9.3: see docs/differences.md.

Source: org.apache.rocketmq.acl.plain.{PlainAccessValidator, PlainPermissionManager} (4.9.3).
"""

import hmac
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from wakelog.broker.access.accounts import AccessTable, Account
from wakelog.broker.access.failures import ADDRESSES_MAX, FAILURES_MAX, AuthenticationFailures
from wakelog.broker.names import retry_topic
from wakelog.network.request import Access, Permission, Processor, Resource
from wakelog.network.signing import Credentials, sign, signature_of, signature_over
from wakelog.protocol.bodies import HeartbeatData
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.ext_fields import Header, read_header
from wakelog.protocol.names import RETRY_PREFIX
from wakelog.protocol.send_run import SendRun
from wakelog.protocol.signed_content import ACCESS_KEY, SIGNATURE
from wakelog.protocol.steps import Steps

ACL_EXCEPTION: Final = "org.apache.rocketmq.acl.common.AclException"
NAMES_PER_STEP: Final = 256
"""Some 0.2 ms."""

Edit: TypeAlias = Callable[[str | None], str | None]
"""From the text of a file, None if it is not there, to its new text, None to leave it."""

ChangeFile: TypeAlias = Callable[[str | None, Edit], AccessTable | None]
"""Change the file of a path (None: plain_acl.yml) and return all accounts as they are then.

None if the edit has left the file. Raises: AccessFileRefused, ValueError, OSError; then nothing is
changed.
"""


def refuse_changes(path: str | None, edit: Edit) -> AccessTable | None:
    """Stand for files that cannot be changed."""
    raise ValueError(f"there is no file to change: {path}, {edit}")


class AccessRefused(RemoteProtocolError):
    """A request that its sender may not make."""

    def __init__(self, reason: str) -> None:
        """Make 4.9.3's remark, an exception of Java and its message."""
        super().__init__(ResponseCode.SYSTEM_ERROR, f"{ACL_EXCEPTION}: {reason}")


class NotAuthenticated(AccessRefused):
    """A request that does not show who sends it: no account, or no signature of it."""

    def __init__(self, reason: str) -> None:
        """Keep the reason for the refusal that closes a connection."""
        super().__init__(reason)
        self.reason = reason


class TooManyFailures(AccessRefused):
    """The same, once more than an address may."""

    closes_connection = True


class AccessControl:
    """The table of accounts that is in force, and the checks."""

    def __init__(
        self, table: AccessTable, change: ChangeFile = refuse_changes, main_file: str = ""
    ) -> None:
        """Check against a table.

        change: how the files are changed; may block, on any thread.
        main_file: the path of plain_acl.yml.
        """
        self.table = table
        self.change = change
        self.main_file = main_file
        self._failures = AuthenticationFailures()
        self.refused_count = 0
        self.reload_count = 0

    def replace(self, table: AccessTable) -> None:
        """Check requests against another table from now on."""
        self.table = table
        self.reload_count += 1

    def check(
        self, command: RemotingCommand, processor: Processor | None, host: str, now_ms: int
    ) -> Header | None:
        """Return the header of a request that its sender may make.

        processor: the row of its code; None if there is none.
        host: the numeric address of the peer.

        Raises: AccessRefused, as TooManyFailures if the connection has to be closed;
            RemoteProtocolError for a header that cannot be read.
        """
        try:
            account = self._authenticate(command, host)
            if processor is None:
                return None
            header = None
            if processor.header is not None:
                header = read_header(processor.header, command.ext_fields)
            if any(rule.resource is Resource.ACCOUNTS for rule in processor.access):
                self._check_accounts_are_administered(command)
            if account is not None:
                self._authorize(account, command, processor, header)
            return header
        except AccessRefused as error:
            self.refused_count += 1
            if isinstance(error, NotAuthenticated):
                self._count_failure(error, host, now_ms)
            raise

    def admit(self, run: SendRun, processor: Processor, host: str) -> None:
        """Set how many sends of a run their sender may make; the next one behind is for `check`."""
        if run.taken_count < run.admitted_end or self.table.white_addresses.match(host):
            return
        needs = [rule.permission for rule in processor.access if rule.attribute]
        index = run.taken_count
        listed: dict[bytes, bool] = {}
        while index < run.count and self._admits(run, index, needs, host, listed):
            index += 1
        run.admitted_end = index

    def _admits(
        self,
        run: SendRun,
        index: int,
        needs: Sequence[Permission],
        host: str,
        listed: dict[bytes, bool],
    ) -> bool:
        """Return whether one send passes. listed: by account, whether its list has the host."""
        send = run.signed(index)
        account = None if send is None else self.table.find(send.access_key.decode())
        if send is None or account is None:
            return False
        is_listed = listed.get(send.access_key)
        if is_listed is None:
            is_listed = listed[send.access_key] = account.white_addresses.match(host)
        if is_listed:
            return True
        expected = signature_over(send.content, account.secret_key)
        if not hmac.compare_digest(send.signature, expected):
            return False
        if not needs or may_all(account):
            return True
        permissions = owned(account, run.topic_of(index))
        return all(need in permissions for need in needs)

    def authorize_heartbeat(
        self, command: RemotingCommand, data: HeartbeatData, host: str
    ) -> Steps[None]:
        """Check that the sender of a heartbeat, which `check` let in, may all that it names.

        Raises: AccessRefused.
        """
        try:
            account = self._claimed(command, host)
            if account is None or may_all(account):
                return
            for number, name in enumerate(_heartbeat_names(data), 1):
                authorize_name(account, name, Permission.SUB)
                if not number % NAMES_PER_STEP:
                    yield
        except AccessRefused:
            self.refused_count += 1
            raise

    def is_admin(self, command: RemotingCommand, host: str, now_ms: int) -> bool:
        """Whether an admin account has signed a request; a failure to sign is counted.

        Raises: TooManyFailures, as ``check`` does.
        """
        try:
            return self._signer(command).is_admin
        except NotAuthenticated as error:
            self._count_failure(error, host, now_ms)
            return False

    def _count_failure(self, error: NotAuthenticated, host: str, now_ms: int) -> None:
        """Count that a peer has not shown who it is. Raises: TooManyFailures."""
        if self._failures.add(host, now_ms):
            raise TooManyFailures(
                f"{error.reason}; with more than {FAILURES_MAX} failures within a minute from "
                f"{host}, this connection is closed"
            ) from None

    def is_signed_by_admin(self, command: RemotingCommand) -> bool:
        """Whether an admin account has signed a request, wherever it comes from."""
        try:
            return self._signer(command).is_admin
        except NotAuthenticated:
            return False

    def sign_as(self, access_key: str, command: RemotingCommand) -> RemotingCommand:
        """Return a request of the broker itself, signed with the secret key that is in force.

        As it is if there is no such account any more: the other end says what it lacks.
        """
        account = self.table.find(access_key)
        if account is None:
            return command
        return sign(command, Credentials(access_key, account.secret_key))

    def statistics(self) -> dict[str, int]:
        """Return counters."""
        return {
            "account_count": len(self.table),
            "refused_count": self.refused_count,
            "reload_count": self.reload_count,
        }

    def validate(self) -> None:
        """Assert the bound of the failures that are remembered."""
        assert len(self._failures) <= ADDRESSES_MAX

    def _authenticate(self, command: RemotingCommand, host: str) -> Account | None:
        """Return whose request it is; None if its address is enough."""
        account = self._claimed(command, host)
        return None if account is None else _signed_by(command, account)

    def _claimed(self, command: RemotingCommand, host: str) -> Account | None:
        """Return the account whose signature a request needs; None if its address is enough."""
        if self.table.white_addresses.match(host):
            return None
        account = self._named(command)
        return None if account.white_addresses.match(host) else account

    def _signer(self, command: RemotingCommand) -> Account:
        """Return the account that has signed a request. Raises: NotAuthenticated."""
        return _signed_by(command, self._named(command))

    def _named(self, command: RemotingCommand) -> Account:
        """Return the account that a request names. Raises: NotAuthenticated."""
        access_key = command.ext_fields.get(ACCESS_KEY)
        if access_key is None:
            raise NotAuthenticated("No accessKey is configured")
        account = self.table.find(access_key)
        if account is None:
            raise NotAuthenticated(f"No acl config for {access_key}")
        return account

    def _check_accounts_are_administered(self, command: RemotingCommand) -> None:
        """Refuse what only an admin's signature allows: an address is not enough for it."""
        if not self.is_signed_by_admin(command):
            raise AccessRefused(
                f"Need admin permission for request code={command.code}, signed with its secretKey"
            )

    def _authorize(
        self,
        account: Account,
        command: RemotingCommand,
        processor: Processor,
        header: Header | None,
    ) -> None:
        rules = processor.access
        if not account.is_admin and processor.is_administration:
            raise AccessRefused(
                f"Need admin permission for request code={command.code}, "
                f"but accessKey={account.access_key} is not"
            )
        if may_all(account):
            return
        # One need for each name, as in 4.9.3: of two needs for a name the later one counts.
        needs = dict(need for rule in rules for need in needs_of(rule, header))
        for name, permission in needs.items():
            authorize_name(account, name, permission)


def _signed_by(command: RemotingCommand, account: Account) -> Account:
    """Return the account if it has signed the request. Raises: NotAuthenticated."""
    given = command.ext_fields.get(SIGNATURE, "")
    expected = signature_of(command, account.secret_key)
    if not hmac.compare_digest(given.encode(), expected.encode()):
        raise NotAuthenticated(f"Check signature failed for accessKey={account.access_key}")
    return account


def may_all(account: Account) -> bool:
    """Whether an account has every permission, whatever a request names."""
    return account.permissions is None and account.is_admin


def owned(account: Account, name: str) -> frozenset[Permission]:
    """Return what an account may do with a topic or retry topic."""
    default = account.default_group if name.startswith(RETRY_PREFIX) else account.default_topic
    return default if account.permissions is None else account.permissions.get(name, default)


def authorize_name(account: Account, name: str, permission: Permission) -> None:
    """Raise AccessRefused if an account lacks a permission for a topic or retry topic."""
    is_group = name.startswith(RETRY_PREFIX)
    if permission not in owned(account, name):
        shown = f"group:{name.removeprefix(RETRY_PREFIX)}" if is_group else f"topic:{name}"
        raise AccessRefused(f"No default permission for {shown}")


def _heartbeat_names(data: HeartbeatData) -> Iterator[str]:
    """Yield the retry topic of each group, and its topics."""
    for consumer in data.consumer_data_set:
        yield retry_topic(consumer.group_name)
        for subscription in consumer.subscription_data_set:
            yield subscription.topic


def needs_of(rule: Access, header: Header | None) -> Iterator[tuple[str, Permission]]:
    """Yield each topic or retry topic that a header names; an absent name is not checked."""
    if rule.attribute:
        name = getattr(header, rule.attribute)
        if name is not None:
            is_group = rule.resource is Resource.GROUP
            yield (retry_topic(name) if is_group else name), rule.permission
