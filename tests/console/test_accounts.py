"""Who may log in, and that their file is followed."""

import logging
from pathlib import Path

import pytest

from wakelog.console import accounts as accounts_module
from wakelog.console.accounts import (
    FILE_BYTES_MAX,
    Accounts,
    AccountsRefused,
    ConsoleRole,
    Login,
    open_accounts,
    read_accounts,
)
from wakelog.console.defence.passwords import hashed

OPS = Login("ops", "secret", ConsoleRole.OPERATOR)


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
    name: str, password: str, found: Login | None
) -> None:
    accounts = Accounts({"ops": OPS, "empty": Login("empty", "", ConsoleRole.READER)})
    assert accounts.are_asked_for
    assert accounts.log_in(name, password) == found


def test_a_hash_in_the_file_is_compared_with() -> None:
    accounts = read_accounts(f"accounts: [{{accessKey: ops, secretKey: '{hashed('secret')}'}}]")
    found = accounts.log_in("ops", "secret")
    assert found is not None and found.role is ConsoleRole.READER
    assert accounts.log_in("ops", found.password) is None


def test_an_unknown_name_is_compared_with_the_password_of_some_account(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[str] = []

    def compare(kept: str, password: str) -> bool:
        compared.append(kept)
        return True  # as if it were right

    monkeypatch.setattr(accounts_module, "is_right", compare)
    accounts = Accounts({x: Login(x, f"of {x}", ConsoleRole.READER) for x in ("a", "b", "c")})
    for name in ("nobody", "nobody", "x" * 1_000, "\ud800", ""):
        assert accounts.log_in(name, "x") is None
    assert compared[0] == compared[1] and set(compared) <= {"of a", "of b", "of c"}
    stand_ins = [accounts.log_in(f"name {n}", "x") for n in range(64)]
    assert stand_ins == [None] * 64 and len({*compared}) == 3


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("accounts: [{accessKey: a, secretKey: [secret-key", "it is no YAML in line 1"),
        ("accounts:\n- {accessKey: a, secretKey: *secret-key}", "it is no YAML in line 2"),
        ("accounts:\n- {accessKey: a, secretKey: !secret-key x}", "it is no YAML in line 2"),
        ("accounts: [{accessKey: a, secretKey: 1}]", "Expected `str`"),
        ("accounts: [{accessKey: a}]", "secretKey"),
        ("accounts: [{accessKey: a, secretKey: scrypt$secret-key}]", "form scrypt"),
        (2 * "\n- {accessKey: a, secretKey: x}", "Expected `object`"),
        ("accounts:" + 2 * "\n- {accessKey: a, secretKey: x}", "a is there twice"),
        ("accounts: []", "no account"),
        ("#" * (FILE_BYTES_MAX + 1), "more than"),
        ("a: \x00", "no YAML"),
    ],
)
def test_what_cannot_be_used_is_said_without_its_secrets(text: str, cause: str) -> None:
    with pytest.raises(AccountsRefused, match=cause.replace("$", ".")) as refused:
        read_accounts(text)
    assert "secret-key" not in str(refused.value)


def test_a_file_is_followed_and_a_broken_one_leaves_the_last_good_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "accounts.yml"
    good = "accounts: [{accessKey: ops, secretKey: one}]"
    path.write_text(good)
    accounts = open_accounts(str(path))
    first = accounts.log_in("ops", "one")
    assert first is not None and accounts.current(first) == first
    with caplog.at_level(logging.WARNING, "wakelog.console"):
        for _ in range(3):
            path.write_text("accounts: [")
            accounts.read_again()
            assert "no YAML" in accounts.failure and accounts.current(first) == first
        assert len(caplog.records) == 1 and "no YAML" in caplog.text
        path.unlink()
        for _ in range(3):
            accounts.read_again()
        assert "No such file" in accounts.failure and accounts.current(first) == first
        assert len(caplog.records) == 2
        path.write_text(good.replace("one", "two"))
        accounts.read_again()
        assert "can be used again" in caplog.records[2].message
    assert accounts.failure == "" and accounts.current(first) is None
    assert accounts.log_in("ops", "two") is not None and "ops" in accounts
