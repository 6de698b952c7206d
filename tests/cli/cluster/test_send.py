"""`wakelog send`, against a broker in this process."""

import io
import json
import sys

import pytest

from tests.cli.cluster.conftest import CommandLine
from tests.client.clusters import NAME_SERVER, SENDS, FakeCluster, instance_of
from wakelog.cli.cluster import send
from wakelog.client.errors import InvalidArgument, NotAcknowledged
from wakelog.client.options import ClientOptions
from wakelog.client.producer import Producer
from wakelog.network.errors import SendFailed
from wakelog.protocol.command import RemotingCommand


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


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """Return a cluster that stores the first two of the batches that `send` makes, of two lines."""
    cluster = FakeCluster(routes={"T": {"b": 1}})

    def fail(address: str, command: RemotingCommand) -> None:
        if command.code in SENDS and len(cluster.stored) == 4:
            raise SendFailed(address, "the connection was closed")

    def open_producer(_: object) -> Producer:
        return Producer(NAME_SERVER, group="g", connect=instance_of(cluster), retries_max=0)

    cluster.fail = fail
    monkeypatch.setattr(send, "open_producer", open_producer)
    monkeypatch.setattr(send, "LINES_MAX", 2)
    return cluster


def test_an_error_says_how_many_lines_were_stored(
    failing: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ClientOptions((NAME_SERVER,))
    lines = [b"%d\n" % number for number in range(9)]
    with pytest.raises(NotAcknowledged, match=r"closed, after 4 stored lines\. "):
        send.send_lines(options, lines, "T", {}, as_json=False)
    failing.stored.clear()
    capsys.readouterr()
    with pytest.raises(NotAcknowledged, match="after 4 stored lines"):
        send.send_lines(options, lines, "T", {}, as_json=True)
    assert len(capsys.readouterr().out.splitlines()) == 4
    failing.stored.clear()
    with pytest.raises(InvalidArgument, match=r"after 2 stored lines\. "):
        send.send_lines(options, [b"1", b"2", bytes(5 << 20)], "T", {}, as_json=False)
