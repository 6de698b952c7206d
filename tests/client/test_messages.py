"""A request for one message, and for a batch."""

from tests.client.clusters import message
from wakelog.client.messages import SendRequest
from wakelog.protocol.batch import decode_batch_body
from wakelog.protocol.properties import WAIT, encode_properties


def test_each_message_of_a_batch_keeps_flag_and_properties() -> None:
    both = SendRequest((message(b"1", flag=3), message(b"2")))
    found = decode_batch_body(both.body)
    assert [(x.body, x.flag, x.properties) for x in found] == [
        (b"1", 3, b"UNIQ_KEY\x01K"),
        (b"2", 0, b"UNIQ_KEY\x01K"),
    ]
    assert (both.is_batch, both.properties) == (True, encode_properties({WAIT: "true"}))


def test_one_message_is_no_batch() -> None:
    one = SendRequest((message(b"1"),))
    assert (one.is_batch, one.body, one.properties) == (False, b"1", "UNIQ_KEY\x01K")
