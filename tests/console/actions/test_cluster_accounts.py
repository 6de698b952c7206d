"""The words of the actions on accounts, and what their forms take."""

import pytest

from wakelog.console.actions.table import ACTIONS

GIVEN = {"cluster": "c", "account": "shop-service", "secret": "its-secret"}


def words(name: str, **more: str) -> list[str]:
    action = ACTIONS[name]
    values, wrong = action.checked({**GIVEN, **more})
    assert not wrong
    return list(action.words(values))


def test_rules_come_one_a_line_or_with_commas() -> None:
    found = words("create-account", topics="a=PUB\nb=PUB|SUB, c=DENY", groups="g=SUB")
    assert found[found.index("-t") + 1] == "a=PUB,b=PUB|SUB,c=DENY"
    assert found[found.index("-g") + 1] == "g=SUB"


def test_what_is_left_empty_is_not_sent() -> None:
    begin = ["admin", "updateAclConfig", "-c", "c", "-a", "shop-service"]
    assert words("change-account") == [*begin, "--secretKey=its-secret", "-m", "false"]
    assert words("change-account", admin="true")[-1] == "true"


def test_a_secret_that_begins_like_a_flag_is_a_value() -> None:
    action = ACTIONS["create-account"]
    values, wrong = action.checked({**GIVEN, "secret": "--output"})
    assert not wrong and "--secretKey=--output" in action.words(values)
    assert "--output" not in action.command(values)


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("account", "short"),
        ("account", "-begins-like-a-flag"),
        ("account", "two words"),
        ("secret", "short"),
        ("topics", "a"),
        ("topics", "a=READ"),
        ("topics", "a=PUBb=SUB"),
        ("topics", "a=PUB" * 40 + "!"),
        ("groups", "a=b=PUB"),
        ("default_topic", "ALL"),
    ],
)
def test_what_brokers_would_refuse_is_said_before(field: str, text: str) -> None:
    _, wrong = ACTIONS["create-account"].checked({**GIVEN, field: text})
    assert set(wrong) == {field}


def test_white_addresses_are_joined() -> None:
    found = words("change-white-addresses", addresses="10.0.0.*, ::1\n127.0.0.1")
    assert found == ["admin", "updateGlobalWhiteAddr", "-c", "c", "-g", "10.0.0.*,::1,127.0.0.1"]
