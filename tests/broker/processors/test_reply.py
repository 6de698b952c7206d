"""Tests of codes 324 and 325, with the responses of clients made up."""

import pytest

from tests.broker.harness import FakeChannel, Harness, Waiting, send_fields
from wakelog.broker.decision import AwaitFlush, Outcome
from wakelog.broker.effects import Ask
from wakelog.network.errors import CallTimeout, RemotingError
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.properties import decode_properties

REPLY = RequestCode.SEND_REPLY_MESSAGE_V2
TOPIC = "DefaultCluster_REPLY_TOPIC"
PROPERTIES = "REPLY_TO_CLIENT\x01p1\x02CORRELATION_ID\x017"


def reply_to(harness: Harness, properties: str = PROPERTIES, **changes: str) -> Outcome | Waiting:
    fields = send_fields(TOPIC, i=properties, **changes)
    return harness.process(REPLY, fields, b"body")


def question_of(outcome: Outcome | Waiting) -> Ask:
    """Return what a client is asked."""
    assert isinstance(outcome, Waiting) and isinstance(outcome.effect, Ask), outcome
    return outcome.effect


def finish(
    harness: Harness, question: Outcome | Waiting, code: int = 0, error: RemotingError | None = None
) -> RemotingCommand:
    asked = question_of(question)
    outcome = harness.resume(question, None if error else answer(asked.command, code), error)
    assert isinstance(outcome, RemotingCommand), outcome
    return outcome


@pytest.fixture
def harness() -> Harness:
    harness = Harness()
    harness.beat_producer("pg", FakeChannel(5))
    return harness


def test_a_reply_is_pushed_and_stored(harness: Harness) -> None:
    question = reply_to(harness, e="-1", f="1")
    asked = question_of(question)
    assert asked.channel_id == 5
    pushed = asked.command
    assert (pushed.code, pushed.body) == (RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, b"body")
    fields = dict(pushed.ext_fields)
    properties = decode_properties(fields.pop("properties"))
    assert properties == decode_properties(PROPERTIES) | {"PUSH_REPLY_TIME": str(harness.now_ms)}
    assert fields == {
        "producerGroup": "pg",
        "topic": TOPIC,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "-1",
        "sysFlag": "1",
        "bornTimestamp": "1600000000000",
        "flag": "7",
        "reconsumeTimes": "0",
        "unitMode": "false",
        "bornHost": "/127.0.0.9:40001",
        "storeHost": "/{}:{}".format(*harness.broker.state.store_host),
        "storeTimestamp": str(harness.now_ms),
    }
    response = finish(harness, question)
    assert response.code == ResponseCode.SUCCESS
    assert len(response.ext_fields["msgId"]) == 32
    assert (response.ext_fields["queueId"], response.ext_fields["queueOffset"]) == ("0", "0")
    (stored,) = harness.store.queues_by_name[TOPIC, 0].messages
    assert (stored.draft.properties_text, stored.draft.sys_flag) == (PROPERTIES, 0)


def test_a_reply_need_not_be_stored() -> None:
    harness = Harness(storeReplyMessageEnable="false")
    harness.beat_producer("pg")
    response = finish(harness, reply_to(harness))
    assert response.code == ResponseCode.SUCCESS
    assert response.ext_fields["msgId"] == "0"
    assert not harness.store.log


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("role", ["ASYNC_MASTER", "SYNC_MASTER"])
def test_a_stored_reply_waits_for_the_disk_and_a_slave(flush: str, role: str) -> None:
    """A wait in vain leaves it the code of the push, as in 4.9.3."""
    harness = Harness(flushDiskType=flush, brokerRole=role, slaveTimeout="700")
    harness.broker.state.replicas.note(0, near_count=1)
    outcome = reply_to(harness)
    if flush == "ASYNC_FLUSH" and role == "ASYNC_MASTER":
        assert isinstance(outcome, RemotingCommand)
        return
    assert isinstance(outcome, AwaitFlush)
    assert outcome.waits_for_disk == (flush == "SYNC_FLUSH")
    replica_deadline_ms = harness.now_ms + 700 if role == "SYNC_MASTER" else None
    assert outcome.replica_deadline_ms == replica_deadline_ms
    assert outcome.replica_timed_out().code == ResponseCode.SYSTEM_ERROR
    assert outcome.timed_out().code == ResponseCode.SYSTEM_ERROR


def test_a_stored_reply_waits_for_no_slave_that_is_absent() -> None:
    response = reply_to(Harness(brokerRole="SYNC_MASTER"))
    assert isinstance(response, RemotingCommand)
    assert response.code == ResponseCode.SYSTEM_ERROR


def test_a_stored_reply_waits_only_if_it_wants_to() -> None:
    """4.9.3 asks the message's property, as with a send."""
    harness = Harness(flushDiskType="SYNC_FLUSH")
    assert isinstance(reply_to(harness, "WAIT\x01false"), RemotingCommand)


@pytest.mark.parametrize(
    ("properties", "remark"),
    [
        ("", "reply message properties[REPLY_TO_CLIENT] is null"),
        (
            "REPLY_TO_CLIENT\x01p2",
            "push reply message fail, channel of <p2> not found.",
        ),
    ],
)
def test_a_reply_to_no_client_is_stored_and_refused(
    harness: Harness, properties: str, remark: str
) -> None:
    response = reply_to(harness, properties)
    assert isinstance(response, RemotingCommand)
    assert (response.code, response.remark) == (ResponseCode.SYSTEM_ERROR, remark)
    assert len(response.ext_fields["msgId"]) == 32
    assert len(harness.store.log) == 1


@pytest.mark.parametrize(("code", "error"), [(1, None), (0, CallTimeout("10.0.0.9:1", "silent"))])
def test_a_reply_that_the_client_refuses_is_refused(
    harness: Harness, code: int, error: RemotingError | None
) -> None:
    response = finish(harness, reply_to(harness), code, error)
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert response.remark == "push reply message to p1fail."


def test_the_checks_of_a_send_hold_for_a_reply(harness: Harness) -> None:
    response = reply_to(harness, e="9")
    assert isinstance(response, RemotingCommand)
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert (response.remark or "").startswith("request queueId[9] is illegal")
    assert {"MSG_REGION", "TRACE_ON"} <= response.ext_fields.keys()


def test_a_client_is_found_by_the_id_of_its_newest_connection(harness: Harness) -> None:
    harness.beat_producer("pg", FakeChannel(6))
    harness.broker.channel_closed(FakeChannel(5), harness.now_ms)
    assert question_of(reply_to(harness)).channel_id == 6
    harness.broker.channel_closed(FakeChannel(6), harness.now_ms)
    assert isinstance(reply_to(harness), RemotingCommand)
    harness.validate()


@pytest.mark.parametrize("code", [RequestCode.SEND_REPLY_MESSAGE, REPLY])
def test_a_reply_needs_only_what_it_is_made_of(harness: Harness, code: RequestCode) -> None:
    """4.9.3 asks for no producer group, default topic or flag of a reply either."""
    letters = send_fields(TOPIC, i=PROPERTIES)
    for letter in "acdf":
        del letters[letter]
    long = {name: letters[letter] for name, letter in LONG_NAMES.items() if letter in letters}
    fields = letters if code == REPLY else long
    assert question_of(harness.process(code, fields, b"body"))


LONG_NAMES = {
    **{"topic": "b", "queueId": "e", "bornTimestamp": "g", "flag": "h", "properties": "i"},
    **{"reconsumeTimes": "j", "unitMode": "k", "batch": "m"},
}
