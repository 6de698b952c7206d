"""The names and values of the conventions."""

from datetime import timedelta
from enum import Enum

import numpy as np
import pytest

from wakelog.client import ClientError, InvalidArgument
from wakelog.otel.attributes import Attributes, add_fields, of_address, of_error, operation


class Word(str, Enum):  # noqa: UP042 - its text is its own, not its value
    """A text of a class of its own."""

    PAID = "paid"


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("10.0.0.1:10911", {"server.address": "10.0.0.1", "server.port": 10911}),
        ("::1:10911", {"server.address": "::1", "server.port": 10911}),
        ("", {}),
        ("Broker", {}),
        ("host:", {}),
    ],
)
def test_an_address_is_a_host_and_a_port(address: str, found: Attributes) -> None:
    assert of_address(address) == found


def test_an_error_is_a_code_or_a_class() -> None:
    assert of_error(ClientError("c", "r", code=14)) == {"error.type": "14"}
    assert of_error(InvalidArgument("c", "r")) == {"error.type": "InvalidArgument"}
    assert of_error(KeyError()) == {"error.type": "KeyError"}


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"keys": "k", "tags": "t"}, {"keys": ("k",), "tag": "t", "type": "normal"}),
        ({"keys": ("a", "b"), "tags": 7}, {"keys": ("a", "b"), "type": "normal"}),
        ({"keys": iter(["once"])}, {"type": "normal"}),
        ({"sharding_key": "s", "delay_level": 0}, {"group": "s", "type": "fifo"}),
        ({"delay_level": 3}, {"delay_time_level": 3, "type": "delay"}),
        ({"delay": timedelta(seconds=1), "delay_level": "x"}, {"type": "delay"}),
        ({"delay_level": 1 << 31}, {"type": "delay"}),
        ({"keys": np.array(["a", "b"])}, {"type": "normal"}),
        (
            {"tags": Word.PAID, "keys": [Word.PAID]},
            {"keys": ("paid",), "tag": "paid", "type": "normal"},
        ),
        ({"keys": "a\ud800\u00e9"}, {"keys": ("a?\u00e9",), "type": "normal"}),
    ],
)
def test_what_a_send_was_given_is_there(fields: dict[str, object], found: Attributes) -> None:
    given: Attributes = {}
    add_fields(given, object(), fields)
    begin = "messaging.rocketmq.message."
    assert given == {begin + name: value for name, value in found.items()}


def test_a_topic_is_shown_as_a_plain_text() -> None:
    name, given = operation("send", "send", Word.PAID, "")
    assert (name, str(given["messaging.destination.name"])) == ("send paid", "paid")
    assert operation("send", "send", "\ud800", "").name == "send ?"
