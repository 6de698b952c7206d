"""The trace of a consumer, as 4.9.3's tools read it."""

from datetime import timedelta

from tests.client.group_cluster import GroupCluster
from tests.client.test_consumer import get, run
from tests.client.test_trace import notes, traces
from tests.fakes.records import record
from wakelog.client.consumer import Consumer
from wakelog.protocol.names import TRACE_TOPIC
from wakelog.protocol.properties import decode_properties

TRACED = b"KEYS\x01k1 k2\x02MSG_REGION\x01DefaultRegion\x02UNIQ_KEY\x01ID"


def cluster_with(properties: bytes) -> GroupCluster:
    stored = record(100, properties, topic="T", queue_offset=0, body=b"x")
    return GroupCluster({("a", "T", 0): [stored], ("a", TRACE_TOPIC, 0): []})


def test_each_time_a_message_is_given_has_its_beginning_and_its_end() -> None:
    cluster = cluster_with(TRACED)

    async def body(consumer: Consumer) -> None:
        [message] = await get(consumer, 1)
        await message.nack(timedelta(0))
        [message] = await get(consumer, 1)
        await message.ack()
        await message.ack()  # of no effect

    run(cluster, body, trace=True)
    commands = traces(cluster)
    for command in commands:
        assert command.ext_fields["a"] == "_INNER_TRACE_PRODUCER-g-CONSUME"
        keys = decode_properties(command.ext_fields["i"])["KEYS"].split()
        assert set(keys) == {"ID", "k1", "k2"}
    given, failed, given_again, done = [note for command in commands for note in notes(command)]
    assert (given[0], given[2:4]) == ("SubBefore", ["DefaultRegion", "g"])
    assert (given[5:], given_again[5:]) == (["ID", "0", "k1 k2"], ["ID", "1", "k1 k2"])
    assert failed[:3] == ["SubAfter", given[4], "ID"]
    assert done[:3] == ["SubAfter", given_again[4], "ID"]
    assert given[4] != given_again[4]
    assert [failed[4:7], done[4:7]] == [["false", "k1 k2", "4"], ["true", "k1 k2", "0"]]
    assert (failed[8], done[8]) == ("g", "g")


def test_no_field_of_a_note_is_empty() -> None:
    """Java drops empty fields at the end, and its tools fail at a note that is too short."""
    cluster = cluster_with(b"UNIQ_KEY\x01ID")

    async def body(consumer: Consumer) -> None:
        [message] = await get(consumer, 1)
        await message.ack()

    run(cluster, body, trace=True)
    given, done = [note for command in traces(cluster) for note in notes(command)]
    assert (given[2], given[7]) == ("null", "null")
    assert "" not in [*given, *done]


def test_a_message_that_wants_no_trace_has_none() -> None:
    cluster = cluster_with(TRACED + b"\x02TRACE_ON\x01false")

    async def body(consumer: Consumer) -> None:
        [message] = await get(consumer, 1)
        await message.ack()

    run(cluster, body, trace=True)
    assert traces(cluster) == []
