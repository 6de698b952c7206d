"""Who may log in."""

import pytest

from wakelog.console.accounts import Account, Accounts, Role

OPS = Account("ops", "secret", Role.OPERATOR)


def test_without_accounts_none_is_asked_for() -> None:
    assert not Accounts().are_asked_for
    assert Accounts().log_in("ops", "secret") is None


@pytest.mark.parametrize(
    ("name", "password", "found"),
    [
        ("ops", "secret", OPS),
        ("ops", "Secret", None),
        ("ops", "", None),
        ("", "", None),
        ("nobody", "", None),
        ("empty", "", None),
        ("ops", "s\u00e9cret", None),
    ],
)
def test_an_account_is_proven_by_its_password(
    name: str, password: str, found: Account | None
) -> None:
    accounts = Accounts({"ops": OPS, "empty": Account("empty", "", Role.READER)})
    assert accounts.are_asked_for
    assert accounts.log_in(name, password) == found
