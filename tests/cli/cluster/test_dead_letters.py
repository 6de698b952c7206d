"""`wakelog dlq`, with a message that a consumer gives up at a broker in this process."""

import asyncio
from typing import Any

import pytest

from tests.cli.cluster.conftest import CommandLine
from tests.client.clusters import SENDS, FakeCluster, messages
from tests.fakes.records import record
from wakelog.cli.cluster.dead_letters import resend, retry_of
from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError
from wakelog.client.options import ClientOptions
from wakelog.client.received import ReceivedMessage
from wakelog.network.errors import SendFailed
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.record import decode_record
from wakelog.protocol.sys_flag import MESSAGE_COMPRESSED


@pytest.mark.slow
def test_a_dead_letter_is_shown_and_consumed_again(cli: CommandLine) -> None:
    cli.broker.create_topic("parcels", queues=1)
    cli("send", "parcels", "fragile", "--tags", "glass", "--keys", "k1")
    cli.broker.wait_for_messages("parcels", count=1)
    cli.give_up("couriers", "parcels")
    cli.broker.wait_for_messages("%DLQ%couriers", count=1)

    [row] = [x for x in cli.json("dlq", "ls") if x["group"] == "couriers"]
    assert row["deadLetters"] == 1
    [letter] = cli.json("dlq", "show", "couriers")
    assert (letter["body"], letter["tags"], letter["keys"]) == ("fragile", "glass", ["k1"])
    assert cli("dlq", "export", "couriers")[0].startswith("{")

    cli("dlq", "resend", "couriers", code=2)
    assert "Give --id ID, or --all" in cli.err
    cli("dlq", "resend", "couriers", "--id", "absent", code=1)
    assert "has no such dead letters" in cli.err
    [sent, count] = cli.json("dlq", "resend", "couriers", "--id", letter["messageId"])
    assert (sent["topic"], count["sent"]) == ("parcels", 1)
    [again] = cli.broker.wait_for_messages("%RETRY%couriers", count=1)
    assert (again.body, again.tags, again.reconsume_times) == (b"fragile", "glass", 0)
    assert again.properties["RETRY_TOPIC"] == "parcels"  # by which consumers know its topic


def test_a_group_without_dead_letters_has_none_and_an_unknown_one_is_refused(
    cli: CommandLine,
) -> None:
    cli("dlq", "show", "nobody", code=1)
    assert "no broker knows group nobody" in cli.err
    cli("dlq", "resend", "nobody", "--all", code=1)
    assert "no broker knows group nobody" in cli.err
    cli.broker.create_topic("spotless", queues=1)
    cli("send", "spotless", "x")
    cli.consume("careful", "spotless", 1)
    assert cli("dlq", "show", "careful") == ["group careful has no dead letters"]
    assert cli("dlq", "export", "careful") == []
    cli("dlq", "resend", "careful", "--all", code=1)
    assert "has no such dead letters" in cli.err


def test_a_body_that_cannot_be_read_is_sent_again_as_it_is_stored() -> None:
    """It had ended the command, after some letters were sent."""
    damaged = record(0, b"TAGS\1paid", body=b"no zlib", sys_flag=MESSAGE_COMPRESSED, flag=3)
    sent = retry_of(ReceivedMessage(decode_record(damaged)), "g")
    assert (sent.topic, sent.body, sent.properties) == ("%RETRY%g", b"no zlib", "TAGS\1paid")
    assert (sent.sys_flag, sent.is_alone, sent.flag) == (MESSAGE_COMPRESSED, True, 3)
    plain = retry_of(ReceivedMessage(decode_record(record(0, body=b"x"))), "g")
    assert (plain.body, plain.sys_flag, plain.is_alone) == (b"x", 0, False)


def test_letters_that_were_sent_again_are_put_out_before_an_error() -> None:
    """They had come at the end, so that after an error all were sent a second time."""
    letters = messages(3, topic="%DLQ%g", properties=b"RETRY_TOPIC\1parcels")
    cluster = FakeCluster({("b", "%DLQ%g", 0): letters}, routes={"%RETRY%g": {"b": 1}})
    lines = list[str]()
    values = list[dict[str, Any]]()

    def fail(address: str, command: RemotingCommand) -> None:
        if command.code in SENDS and len(cluster.stored) == 2:
            raise SendFailed(address, "the connection was closed")

    async def run() -> None:
        options = ClientOptions(("n:1",), retries_max=0)
        async for output in resend(Admin(cluster, options), "g", frozenset(), sends_all=True):
            assert len(cluster.stored) == len(values) + 1
            lines.extend(output.lines())
            values.extend(output.values())

    cluster.fail = fail
    with pytest.raises(ClientError, match="the connection was closed"):
        asyncio.run(run())
    assert [x["topic"] for x in values] == ["parcels", "parcels"]
    assert [line.split()[0] for line in lines[:1]] == ["MESSAGE"]
    assert [line.split()[-1] for line in lines] == ["TOPIC", "parcels", "parcels"]
