"""What a received message says of itself, and the decoding of pulls."""

import pytest

from tests.client.group_cluster import SETTLER
from tests.fakes.records import record
from wakelog.client.consumer_message import ConsumerMessage, decode_messages
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
