"""What needs no socket; calls over one are in test_client.py."""

import pytest

from wakelog.network.call_channel import CallChannel
from wakelog.network.call_errors import SendFailed
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import make_request
from wakelog.protocol.frame import encode_frame


def test_a_channel_without_a_socket_sends_nothing() -> None:
    channel = CallChannel("host:1")
    assert not channel.is_open
    with pytest.raises(SendFailed, match="host:1: the connection is closed"):
        channel.send(make_request(RequestCode.HEART_BEAT, {}, b"", opaque=1))


def test_requests_of_the_peer_and_answers_to_nobody_are_counted() -> None:
    channel = CallChannel("host:1")
    pushed = make_request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {}, b"", opaque=7)
    channel.data_received(encode_frame(pushed) * 2)
    assert channel.unsolicited_count == 2
    assert channel.waiting_count == 0
