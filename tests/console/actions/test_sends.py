"""The message of a form, as a command line."""

import pytest

from tests.console.actions.test_topics import preview
from wakelog.console.actions.table import ACTIONS
from wakelog.testing.embedded_broker import EmbeddedBroker

ACTION = ACTIONS["send-message"]


def words(**given: str) -> list[str]:
    values, wrong = ACTION.checked({"topic": "T", "body": "text", **given})
    assert not wrong, wrong
    return list(ACTION.words(values))


def test_what_is_given_becomes_options() -> None:
    assert words() == ["send", "T", "text"]
    full = words(tags="paid", keys="1 2", properties="a=1\r\n\r\nb = x=y\r\n", delay="10s")
    assert full[:7] == ["send", "--tags", "paid", "--keys", "1 2", "--delay", "10s"]
    assert full[7:] == ["--property", "a=1", "--property", "b = x=y", "T", "text"]


def test_a_body_that_begins_like_an_option_is_a_body() -> None:
    assert words(body="--help") == ["send", "--", "T", "--help"]


@pytest.mark.parametrize("text", ["x", "a=1\nx", "=1"])
def test_a_property_without_name_or_value_is_wrong(text: str) -> None:
    _, wrong = ACTION.checked({"topic": "T", "body": "b", "properties": text})
    assert "NAME=VALUE" in wrong["properties"]


def test_many_signs_of_a_property_take_no_time() -> None:
    _, wrong = ACTION.checked({"topic": "T", "body": "b", "properties": "a=" * 5_000 + "\nx"})
    assert set(wrong) == {"properties"}


def test_a_command_shows_the_begin_of_a_long_body() -> None:
    values, _ = ACTION.checked({"topic": "T", "body": "x" * 5_000})
    assert len(ACTION.command(values)) < 1_100
    assert len(ACTION.words(values)[-1]) == 5_000


def test_it_says_first_where_a_message_goes(console_broker: EmbeddedBroker) -> None:
    console_broker.create_topic("sent-to", queues=3)
    assert preview("send-message", console_broker, {"topic": "sent-to", "body": "x"}) == [
        "it goes to one of 3 queues at 1 broker",
        "0 groups that may get it",
    ]
    [new] = preview("send-message", console_broker, {"topic": "not-there", "body": "x"})
    assert new.startswith("the topic is not there")
