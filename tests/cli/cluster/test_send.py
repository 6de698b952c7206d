"""`wakelog send`, against a broker in this process."""

import io
import json
import sys

import pytest

from tests.cli.cluster.conftest import CommandLine


def test_a_message_is_sent_with_what_was_given(cli: CommandLine) -> None:
    cli.broker.create_topic("given", queues=1)
    line = "send given body --tags paid --keys 4711 --property amount=7 -o json"
    [receipt] = map(json.loads, cli(*line.split()))
    assert (receipt["topic"], receipt["broker"], receipt["queue"]) == ("given", "broker-t", 0)
    [found] = cli.broker.wait_for_messages("given", count=1)
    assert (found.body, found.tags, found.keys) == (b"body", "paid", ["4711"])
    assert found.properties["amount"] == "7"
    assert found.message_id == receipt["messageId"]


def test_an_account_without_its_secret_key_is_a_mistake_in_the_command(
    cli: CommandLine,
) -> None:
    cli("send", "given", "body", "--access-key", "someone", code=2)
    assert "there is no secret key for someone" in cli.err


def test_each_line_of_standard_input_is_a_message(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.broker.create_topic("piped", queues=1)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\n\nb\xff\r\nc")))
    assert cli("send", "piped") == ["sent 3 messages to piped"]
    found = cli.broker.wait_for_messages("piped", count=3)
    assert sorted(x.body for x in found) == [b"a", b"b\xff", b"c"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n")))
    cli("send", "piped", code=2)
    assert "there is nothing to send" in cli.err
