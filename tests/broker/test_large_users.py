"""Honest users with much to do are within every limit: nothing of theirs is refused.

A request goes through a decoder with the limits of the broker, as on a connection.
"""

import json
import struct
import tracemalloc

import msgspec

from tests.broker.harness import (
    Harness,
    pull_fields,
    send_fields,
    sql_subscription,
    subscription,
)
from tests.nameserver.harness import Announced, topic
from tests.nameserver.harness import Harness as NameServerHarness
from wakelog.broker.decision import HoldPull
from wakelog.broker.pull_hold import PullHold
from wakelog.protocol.bodies import (
    ConsumerData,
    HeartbeatData,
    LockBatchRequestBody,
    LockBatchResponseBody,
    decode_body,
    encode_body,
)
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.frame import FrameDecoder, encode_frame

RECORD_BYTES_MAX = 1_000
"""What a record has beside its body: the limit is that of the whole record."""

GROUPS_COUNT = 1_000
SUBSCRIPTIONS_COUNT = 1_000
HELD_COUNT = 20_000
MEASURED_COUNT = 2_000
HELD_BYTES_MAX = 2.4 * 1024  # on another Python it may be a little more
BATCH_COUNT = 1_000


def decoded(request: RemotingCommand, harness: Harness | NameServerHarness) -> RemotingCommand:
    core = harness.broker if isinstance(harness, Harness) else harness.core
    [command] = FrameDecoder(body_bytes_max=core.body_bytes_max).feed(encode_frame(request))
    return command


def answered(harness: Harness, code: int, fields: dict[str, str], body: bytes) -> RemotingCommand:
    request = decoded(harness.request(code, fields, body), harness)
    response = harness.answered(harness.broker.process(request, harness.channel, harness.now_ms))
    assert response.code == ResponseCode.SUCCESS, response.remark
    return response


def test_a_message_of_four_mebibytes(harness: Harness) -> None:
    body = bytes((4 << 20) - RECORD_BYTES_MAX)
    answered(harness, RequestCode.SEND_MESSAGE_V2, send_fields("T"), body)


def test_a_batch_of_a_thousand_messages(harness: Harness) -> None:
    body = bytes(4_000)
    message = struct.pack(">iiiii", 20 + len(body) + 2, 0, 0, 0, len(body)) + body + bytes(2)
    fields = send_fields("T", m="true")
    response = answered(harness, RequestCode.SEND_BATCH_MESSAGE, fields, message * BATCH_COUNT)
    assert len(response.ext_fields["msgId"].split(",")) == BATCH_COUNT


def test_a_thousand_subscriptions_in_a_group() -> None:
    harness = Harness(enablePropertyFilter="true")
    wanted = [subscription(f"T{number}", "A || B || C") for number in range(SUBSCRIPTIONS_COUNT)]
    wanted += [sql_subscription("price > 10 AND region = 'EU'", topic="S")]
    body = encode_body(HeartbeatData("c1", [], [ConsumerData("g", subscription_data_set=wanted)]))
    answered(harness, RequestCode.HEART_BEAT, {}, body)
    group = harness.broker.state.consumers.get("g")
    assert group is not None
    assert len(group.subscriptions) == SUBSCRIPTIONS_COUNT + 1
    assert len(harness.broker.state.filters) == 1


def test_a_client_of_a_thousand_groups(harness: Harness) -> None:
    groups = [
        ConsumerData(f"g{number}", subscription_data_set=[subscription("T")])
        for number in range(GROUPS_COUNT)
    ]
    answered(harness, RequestCode.HEART_BEAT, {}, encode_body(HeartbeatData("c1", [], groups)))
    assert harness.broker.state.consumers.statistics()["group_count"] == GROUPS_COUNT


def test_locks_of_the_largest_topic(harness: Harness) -> None:
    queues = {MessageQueue("T", "broker-a", number) for number in range(1_024)}
    body = encode_body(LockBatchRequestBody("g", "c1", queues))
    response = answered(harness, RequestCode.LOCK_BATCH_MQ, {}, body)
    assert decode_body(LockBatchResponseBody, response.body).lock_ok_mq_set == queues


def test_twenty_thousand_held_pulls_are_all_answered(harness: Harness) -> None:
    harness.send("T")
    hold_ids = [harness.hold(queueOffset=1).hold_id for _ in range(HELD_COUNT)]
    assert len(set(hold_ids)) == HELD_COUNT
    harness.send("T")
    harness.instructions()
    harness.broker.wake(hold_ids, harness.now_ms)
    answers = harness.instructions()
    assert len(answers) == HELD_COUNT
    assert harness.broker.statistics()["held_count"] == 0


def test_a_held_pull_takes_so_many_bytes_of_objects(harness: Harness) -> None:
    """docs/overload.md says 2.2 KiB: those of the Broker, and PullHold's note."""
    harness.send("T")
    requests = [
        encode_frame(
            harness.request(RequestCode.PULL_MESSAGE, pull_fields(queueOffset=1, sysFlag=6))
        )
        for _ in range(MEASURED_COUNT)
    ]
    decoder, pull_hold = FrameDecoder(), PullHold()
    tracemalloc.start()
    try:
        for frame in requests:
            [request] = decoder.feed(frame)
            note = harness.broker.process(request, harness.channel, harness.now_ms)
            assert isinstance(note, HoldPull)
            pull_hold.hold([msgspec.structs.replace(note)])  # it has come as a copy
        taken_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken_bytes / MEASURED_COUNT < HELD_BYTES_MAX


def test_a_registration_of_ten_thousand_topics() -> None:
    harness = NameServerHarness()
    announced = Announced(topics=tuple(topic(f"topic-{number}") for number in range(10_000)))
    for compressed in (False, True):
        request = decoded(announced.request(compressed=compressed), harness)
        assert harness.answered(request).code == ResponseCode.SUCCESS
    listed = harness.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    assert len(json.loads(listed.body)["topicList"]) == 10_000
