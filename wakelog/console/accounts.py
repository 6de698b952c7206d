"""Who may log in, and what each role may do."""

import hmac
from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple


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


class Accounts:
    """The accounts of a console; without any, everyone who reaches it is an operator."""

    def __init__(self, accounts: Mapping[str, Account] | None = None) -> None:
        """Keep them."""
        self._accounts = dict(accounts or {})

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
