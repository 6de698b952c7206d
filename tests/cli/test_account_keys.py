"""Where the keys of an account come from, and what is said where they do not."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from wakelog.actors.errors import NotPossible
from wakelog.cli.account_keys import FILE_BYTES_MAX, Ask, account_keys

OWN = "accessKey: filed\nsecretKey: 12345\n"
BOTH = {"WAKELOG_ACCESS_KEY": "of", "WAKELOG_SECRET_KEY": "environment"}


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "tools.yml"
    path.write_text(OWN)
    return str(path)


@pytest.fixture
def home(tmp_path: Path) -> str:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "tools.yml").write_text("accessKey: home\nsecretKey: s\n")
    return str(tmp_path)


def keys_of(
    flags: Mapping[str, str], environment: Mapping[str, str], ask: Ask | None = None
) -> tuple[str, str]:
    """Return both keys of the account."""
    access_key, secret_key = flags.get("access-key"), flags.get("secret-key")
    found = account_keys(access_key, secret_key, flags.get("account"), environment, ask)
    return found.access_key, found.secret_key


def test_nothing_gives_no_account() -> None:
    assert keys_of({}, {}) == ("", "")
    assert keys_of({}, {"ROCKETMQ_HOME": "/nowhere"}) == ("", "")


def test_the_first_that_says_something_counts(file: str, home: str) -> None:
    flags = {"access-key": "a", "secret-key": "s", "account": file}
    environment = {**BOTH, "ROCKETMQ_HOME": home}
    assert keys_of(flags, environment) == ("a", "s")
    del flags["secret-key"]
    assert keys_of(flags, environment) == ("a", "environment")
    del flags["access-key"]
    assert keys_of(flags, environment) == ("filed", "12345")
    assert keys_of({}, environment) == ("of", "environment")
    assert keys_of({}, {"ROCKETMQ_HOME": home}) == ("home", "s")


def test_a_secret_key_is_asked_for_at_a_terminal() -> None:
    asked: list[str] = []

    def ask(prompt: str) -> str:
        asked.append(prompt)
        return "typed"

    assert keys_of({"access-key": "a"}, {}, ask) == ("a", "typed")
    assert asked == ["Secret key of a: "]


@pytest.mark.parametrize(
    ("flags", "environment", "said"),
    [
        ({"secret-key": "s"}, {}, "--secret-key is given without --access-key"),
        ({"access-key": "a"}, {}, "there is no secret key for a"),
        ({}, {"WAKELOG_ACCESS_KEY": "a"}, "WAKELOG_SECRET_KEY is not set"),
        ({}, {"WAKELOG_SECRET_KEY": "a"}, "WAKELOG_ACCESS_KEY is not set"),
        ({"account": "/no/such"}, {}, "/no/such cannot be read: No such file"),
    ],
)
def test_half_an_account_is_refused(
    flags: Mapping[str, str], environment: Mapping[str, str], said: str
) -> None:
    with pytest.raises(NotPossible) as refused:
        keys_of(flags, environment, lambda _: "")
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is no file of an account"),
        (b"a: [", "is no file of an account"),
        (b"\xff\xfe", "is no file of an account"),
        (b"x" * (FILE_BYTES_MAX + 1), "is no file of an account"),
        (b"accessKey: a\n", "has no account"),
        (b"accessKey: a\nsecretKey: ' '\n", "has no account"),
        (b"accessKey: a\nsecretKey: [1]\n", "has no account"),
    ],
)
def test_a_file_without_an_account_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "tools.yml"
    path.write_bytes(content)
    with pytest.raises(NotPossible) as refused:
        keys_of({"account": str(path)}, {})
    assert f"{path} {said}" in str(refused.value)
