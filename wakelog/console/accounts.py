"""Who may log in, and what each role may do.

Accounts come from a file like `plain_acl.yml`: its access key is the name, its secret key is the
password. An account with `admin: true` may change things, the others may look.

Invariants: the time of an answer does not tell whether a name is known. After ATTEMPTS_MAX failures
within ATTEMPTS_MS an address waits.
"""

import hmac
from collections import OrderedDict
from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

import msgspec
import yaml

ATTEMPTS_MAX: Final = 10
ATTEMPTS_MS: Final = 60_000
ADDRESSES_MAX: Final = 4_096
"""Addresses whose failures are counted; the oldest is forgotten."""


class Role(IntEnum):
    """What an account may do: look, or change things, too."""

    NONE = 0
    READER = 1
    OPERATOR = 2


class Account(NamedTuple):
    """A name, how it is proven, and what it may do."""

    name: str
    password: str
    role: Role


EVERYONE: Final = Account("", "", Role.OPERATOR)
"""Whoever reaches a console without accounts, which listens on loopback alone."""
NO_ONE: Final = Account("", "", Role.NONE)
"""Whoever has not logged in."""


class AccountsRefused(Exception):
    """A file of accounts that cannot be used; the text says why."""


class _Entry(msgspec.Struct, rename="camel"):
    access_key: str
    secret_key: str
    admin: bool = False


class _File(msgspec.Struct):
    accounts: list[_Entry]


class Accounts:
    """The accounts of a console; without any, everyone who reaches it is an operator."""

    def __init__(self, accounts: Mapping[str, Account] | None = None) -> None:
        """Keep them."""
        self._accounts = dict(accounts or {})
        self._failures: OrderedDict[str, tuple[int, int]] = OrderedDict()

    @property
    def are_asked_for(self) -> bool:
        """Whether one has to log in."""
        return bool(self._accounts)

    def log_in(self, name: str, password: str) -> Account | None:
        """Return the account, None if there is none or the password is another."""
        account = self._accounts.get(name)
        known = account.password if account else ""
        is_right = hmac.compare_digest(known.encode(), password.encode())
        return account if account is not None and is_right and known else None

    def is_barred(self, address: str, now_ms: int) -> bool:
        """Return whether an address has failed too often within the last minute."""
        begun_ms, count = self._failures.get(address, (now_ms, 0))
        return count >= ATTEMPTS_MAX and 0 <= now_ms - begun_ms < ATTEMPTS_MS

    def note_failure(self, address: str, now_ms: int) -> None:
        """Count a failure of an address."""
        begun_ms, count = self._failures.pop(address, (now_ms, 0))
        if not 0 <= now_ms - begun_ms < ATTEMPTS_MS:
            begun_ms, count = now_ms, 0
        self._failures[address] = begun_ms, count + 1
        while len(self._failures) > ADDRESSES_MAX:
            self._failures.popitem(last=False)


def read_accounts(text: str) -> Accounts:
    """Return the accounts of a file's text. Raises: AccountsRefused."""
    try:
        found = msgspec.convert(yaml.safe_load(text), _File)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise AccountsRefused(" ".join(str(error).split())) from error
    accounts = {}
    for each in found.accounts:
        if not each.access_key or not each.secret_key:
            raise AccountsRefused("an account has an empty accessKey or secretKey")
        role = Role.OPERATOR if each.admin else Role.READER
        accounts[each.access_key] = Account(each.access_key, each.secret_key, role)
    if not accounts:
        raise AccountsRefused("it has no account")
    return Accounts(accounts)
