"""What a received message says of itself, and the decoding of pulls."""

import asyncio
import pickle
import threading

import pytest

from tests.client.group_cluster import SETTLER
from tests.fakes.records import record
from wakelog.client.consumer_message import ConsumerMessage, Settler, decode_messages
from wakelog.client.errors import ClientError
from wakelog.client.sync import ConsumerMessage as SyncMessage
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
    message = received(record(0, b"TAGS\1t"))
    message.settler = Unpicklable(message.settler)  # as a consumer with its connections
    assert message.body
    copy = pickle.loads(pickle.dumps(message))
    assert (copy.body, copy.tags, copy.queue, copy.topic) == (message.body, "t", QUEUE, "T")
    for settle in (copy.ack, copy.nack, copy.reject, lambda: copy.reply(b"x")):
        with pytest.raises(ClientError, match="is a copy in another process"):
            asyncio.run(settle())
    of_sync = pickle.loads(pickle.dumps(SyncMessage(message)))
    assert (of_sync.body, of_sync.keys, of_sync.reconsume_times) == (message.body, [], 0)


class Unpicklable:
    def __init__(self, settler: Settler) -> None:
        self.namespace = settler.namespace
        self.lock = threading.Lock()
        self.ack, self.nack, self.reply = settler.ack, settler.nack, settler.reply
        self.reject = settler.reject
