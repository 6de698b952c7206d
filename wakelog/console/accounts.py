"""Who may log in, and what each role may do.

Accounts come from a file like `plain_acl.yml`: its access key is the name, its secret key is the
password, or a hash of it (`defence.passwords`). An account with `admin: true` may change things,
the others may look. A file that changes is read again while the console runs.

Invariants: the time of an answer does not tell whether a name is known. A file that cannot be used
leaves the accounts of before.
"""

import hmac
import logging
import secrets
from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import yaml

from wakelog.console.defence.passwords import check_kept, is_right
from wakelog.typed_values import convert

FILE_BYTES_MAX: Final = 1 << 20
ACCOUNTS_MAX: Final = 4_096

logger = logging.getLogger("wakelog.console")


class ConsoleRole(IntEnum):
    """What an account may do: look, or change things, too."""

    NONE = 0
    READER = 1
    OPERATOR = 2


class Login(NamedTuple):
    """A name, how it is proven, and what it may do. password: as it is kept."""

    name: str
    password: str
    role: ConsoleRole


EVERYONE: Final = Login("", "", ConsoleRole.OPERATOR)
"""Whoever reaches a console without accounts, which listens on loopback alone."""
NO_ONE: Final = Login("", "", ConsoleRole.NONE)
"""Whoever has not logged in."""


class AccountsRefused(Exception):
    """A file of accounts that cannot be used; the text says why, without its secrets."""


class _Entry(msgspec.Struct, rename="camel"):
    access_key: str
    secret_key: str
    admin: bool = False


class _File(msgspec.Struct):
    accounts: list[_Entry]


class Accounts:
    """The accounts of a console; without any, everyone who reaches it is an operator.

    path: of their file, "" without one. failure: why the file cannot be used, "" if it can.
    """

    def __init__(self, accounts: Mapping[str, Login] | None = None, path: str = "") -> None:
        """Keep them."""
        self._accounts = dict(accounts or {})
        self._key = secrets.token_bytes(32)
        self._seen: tuple[bytes, str] = b"", ""
        self.path = path
        self.failure = ""

    @property
    def are_asked_for(self) -> bool:
        """Whether one has to log in."""
        return bool(self._accounts)

    def __contains__(self, name: str) -> bool:
        """Return whether there is an account of this name."""
        return name in self._accounts

    def current(self, account: Login) -> Login | None:
        """Return an account as it is now; None if it is gone or has another password."""
        now = self._accounts.get(account.name)
        return now if now is not None and now.password == account.password else None

    def log_in(self, name: str, password: str) -> Login | None:
        """Return the account, None if there is none or the password is another.

        A name that is not known is compared with the password of some account, always the same.
        """
        accounts = self._accounts  # another thread may read the file again
        if not accounts:
            return None
        digest = hmac.digest(self._key, name.encode(errors="replace"), "sha256")
        stand_in = list(accounts.values())[int.from_bytes(digest[:8]) % len(accounts)]
        account = accounts.get(name)
        is_same = is_right((account or stand_in).password, password)
        return account if is_same else None

    def read_again(self) -> None:
        """Take what the file has now. What cannot be used is said once, and changes nothing."""
        try:
            with Path(self.path).open("rb") as file:
                seen = file.read(FILE_BYTES_MAX + 1), ""
        except OSError as error:
            seen = b"", error.strerror or repr(error)
        if seen == self._seen:
            return
        self._seen = seen
        data, failure = seen
        try:
            if failure:
                raise AccountsRefused(failure)
            accounts = _accounts_of(data)
        except AccountsRefused as error:
            self.failure = str(error)
            logger.warning("accounts of before hold: %s cannot be used: %s", self.path, error)
            return
        if self.failure:
            logger.warning("%s can be used again", self.path)
        self.failure = ""
        self._accounts = accounts


def read_accounts(text: str) -> Accounts:
    """Return the accounts of a file's text. Raises: AccountsRefused."""
    return Accounts(_accounts_of(text.encode()))


def open_accounts(path: str) -> Accounts:
    """Return the accounts of a file, which may be read again. Raises: AccountsRefused, OSError."""
    with Path(path).open("rb") as file:
        data = file.read(FILE_BYTES_MAX + 1)
    return Accounts(_accounts_of(data), path)


def _accounts_of(data: bytes) -> dict[str, Login]:
    """Raises: AccountsRefused."""
    accounts: dict[str, Login] = {}
    for each in _entries_of(data):
        name = each.access_key
        if not name or not each.secret_key:
            raise AccountsRefused("an account has an empty accessKey or secretKey")
        if name in accounts:
            raise AccountsRefused(f"{name} is there twice")
        try:
            check_kept(each.secret_key)
        except ValueError as error:
            raise AccountsRefused(f"the secretKey of {name}: {error}") from None
        role = ConsoleRole.OPERATOR if each.admin else ConsoleRole.READER
        accounts[name] = Login(name, each.secret_key, role)
    if not accounts:
        raise AccountsRefused("it has no account")
    if len(accounts) > ACCOUNTS_MAX:
        raise AccountsRefused(f"it has more than {ACCOUNTS_MAX:,} accounts")
    return accounts


def _entries_of(data: bytes) -> list[_Entry]:
    """Raises: AccountsRefused. The texts of YAML's own errors have parts of the file: secrets."""
    if len(data) > FILE_BYTES_MAX:
        raise AccountsRefused(f"it has more than {FILE_BYTES_MAX:,} bytes")
    try:
        return convert(yaml.safe_load(data.decode()), _File).accounts
    except UnicodeDecodeError:
        raise AccountsRefused("it is no text in UTF-8") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" in line {mark.line + 1}" if mark is not None else ""
        raise AccountsRefused(f"it is no YAML{where}") from None
    except yaml.YAMLError:
        raise AccountsRefused("it is no YAML") from None
    except msgspec.ValidationError as error:
        raise AccountsRefused(" ".join(str(error).split())) from None
