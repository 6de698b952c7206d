"""What a received message says of itself, and the decoding of pulls."""

import asyncio
import pickle
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest

from tests.client.clusters import messages
from tests.client.group_cluster import RETRY, SETTLER, GroupCluster
from tests.client.test_consumer import get, run
from tests.fakes.records import record
from tests.twins import twins, use_twin
from wakelog.client.consumer import Consumer
from wakelog.client.consumer_message import (
    SHARED_BYTES_EACH_MAX,
    SHARED_BYTES_MAX,
    ConsumerMessage,
    Settler,
    by_origin,
    decode_messages,
)
from wakelog.client.errors import ClientError
from wakelog.client.sync import ConsumerMessage as SyncMessage
from wakelog.compiled.library import CHOICE
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.errors import RemoteProtocolError

QUEUE = MessageQueue("T", "a", 0)


def received(data: bytes, queue: MessageQueue = QUEUE, tags: str = "") -> ConsumerMessage:
    [message] = decode_messages(data, queue, SETTLER, frozenset(filter(None, [tags])))
    return message


def test_in_the_retry_topic_it_has_the_topic_it_was_sent_to() -> None:
    data = record(0, b"RETRY_TOPIC\x01T", topic="%RETRY%g", reconsume_times=2)
    message = received(data, MessageQueue("%RETRY%g", "a", 0))
    assert (message.topic, message.queue.topic, message.reconsume_times) == ("T", "%RETRY%g", 2)


def test_other_tags_with_the_same_hash_are_left_out() -> None:
    data = record(0, b"TAGS\x01Aa") + record(200, b"TAGS\x01BB", queue_offset=1)
    assert received(data, tags="BB").queue_offset == 1


def test_a_damaged_record_is_an_error() -> None:
    with pytest.raises(RemoteProtocolError):
        decode_messages(record(0)[:-1], QUEUE, SETTLER, frozenset())


def test_a_copy_in_another_process_has_the_content_and_no_consumer() -> None:
    data = record(0, b"TAGS\1t")
    [message] = decode_messages(data, QUEUE, Unpicklable(SETTLER), frozenset())
    assert message.body
    copy = pickle.loads(pickle.dumps(message))
    assert (copy.body, copy.tags, copy.queue, copy.topic) == (message.body, "t", QUEUE, "T")
    for settle in (copy.ack, copy.nack, copy.reject, lambda: copy.reply(b"x")):
        with pytest.raises(ClientError, match="is a copy in another process"):
            asyncio.run(settle())
    of_sync = pickle.loads(pickle.dumps(SyncMessage(message)))
    assert (of_sync.body, of_sync.keys, of_sync.reconsume_times) == (message.body, [], 0)


@pytest.mark.parametrize("twin", list(twins()))
def test_a_message_that_was_read_keeps_nothing_of_the_other_ones(
    twin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_twin(twin, monkeypatch)
    pull = memoryview(b"".join(messages(3)))
    is_there = weakref.ref(pull)
    first, second, third = decode_messages(pull, QUEUE, SETTLER, frozenset())
    del pull
    assert (is_there() is not None) == (twin == "compiled")
    assert (first.body, second.body) == (b"0", b"1")
    del third
    assert is_there() is None
    assert [each.queue_offset for each in (first, second)] == [0, 1]
    assert len(by_origin([first, second])) == 1


def test_messages_of_two_pulls_are_parted_in_their_order() -> None:
    one, other = (
        decode_messages(b"".join(messages(2)), queue, SETTLER, frozenset())
        for queue in (QUEUE, MessageQueue("T", "a", 1))
    )
    mixed = [one[0], other[0], other[1], one[1]]
    found = [(origin.queue.queue_id, run) for origin, run in by_origin(mixed).items()]
    assert found == [(0, one), (1, other)]


@pytest.mark.parametrize(
    ("body_bytes", "count", "is_shared"),
    [
        (SHARED_BYTES_EACH_MAX - 100, 3, True),
        (SHARED_BYTES_EACH_MAX, 3, False),
        (100, SHARED_BYTES_MAX // 192, True),
        (100, SHARED_BYTES_MAX // 192 + 1, False),
    ],
)
def test_messages_share_so_many_bytes(body_bytes: int, count: int, is_shared: bool) -> None:
    one = record(0, body=bytes(body_bytes))
    found = decode_messages(one * count, QUEUE, SETTLER, frozenset())
    assert len(found) == count
    if CHOICE.is_compiled:
        assert all((each._origin.body is not None) == is_shared for each in found)


def test_a_message_has_no_other_attributes() -> None:
    with pytest.raises(AttributeError, match="'ConsumerMessage' object has no attribute 'ackk'"):
        received(record(0)).ackk  # type: ignore[attr-defined]  # noqa: B018


class Unpicklable:
    def __init__(self, settler: Settler) -> None:
        self.namespace = settler.namespace
        self.lock = threading.Lock()
        self.ack, self.nack, self.reply = settler.ack, settler.nack, settler.reply
        self.reject = settler.reject


@pytest.mark.parametrize(
    ("kind", "max_retries", "retries", "becomes"),
    [
        ("plain", None, 99, "the broker decides at 16"),
        ("plain", 3, 99, "the broker decides at 3"),
        ("plain", 0, 0, "the broker decides at 0"),
        ("ordered", None, 99_999, "again"),
        ("ordered", 3, 2, "again"),
        ("ordered", 3, 3, "dead"),
        ("ordered", 0, 0, "dead"),
        ("broadcast", None, 15, "again"),
        ("broadcast", None, 16, "dropped"),
        ("broadcast", 3, 2, "again"),
        ("broadcast", 3, 3, "dropped"),
        ("broadcast", 99, 98, "again"),
        ("broadcast", 0, 0, "dropped"),
    ],
)
def test_what_becomes_of_a_message_that_is_given_back(
    kind: str, max_retries: int | None, retries: int, becomes: str, tmp_path: Path
) -> None:
    cluster, found = GroupCluster({("a", "T", 0): messages(1), RETRY: []}), []

    async def body(consumer: Consumer) -> None:
        [message] = await get(consumer, 1)
        message.local_returns_count = retries
        await message.nack()
        if consumer.position(QUEUE) == 0:
            found.append("again")
        for command in cluster.sent_back:
            level, at = command.ext_fields["delayLevel"], command.ext_fields["maxReconsumeTimes"]
            found.append("dead" if level == "-1" else f"the broker decides at {at}")

    settings: dict[str, Any] = {} if kind == "plain" else {kind: True}
    settings |= {"offset_folder": tmp_path} if kind == "broadcast" else {}
    run(cluster, body, max_retries=max_retries, **settings)
    assert found == ([] if becomes == "dropped" else [becomes])
