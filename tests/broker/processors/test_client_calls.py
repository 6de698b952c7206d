"""Tests of codes 222, 223, 307 and 309, and of 220 and 221, which their clients are sent."""

import json
from collections.abc import Generator, Iterator

import pytest

from tests.broker.harness import NOW_MS, FakeChannel, Harness, Waiting, subscription
from wakelog.broker.decision import Outcome, Push
from wakelog.broker.effects import Ask, InPool
from wakelog.broker.processors import client_calls
from wakelog.network.errors import CallTimeout, RemotingError, SendFailed
from wakelog.protocol.codes import LanguageCode, RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.message_id import create_message_id

RESET = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
STATUS = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
RUNNING_INFO = RequestCode.GET_CONSUMER_RUNNING_INFO
CONSUME = RequestCode.CONSUME_MESSAGE_DIRECTLY
AT = str(NOW_MS + 3)


@pytest.fixture
def harness() -> Harness:
    """A broker whose group g, with one client, has committed 7 and 1 of 8 messages in each queue.

    In both queues a message was stored at each of 8 milliseconds.
    """
    harness = Harness()
    begin_ms = harness.now_ms
    for harness.now_ms in range(begin_ms, begin_ms + 8):
        for number in "01":
            harness.send("T", d="2", e=number)
    harness.beat("g", subscription())
    for queue_id, offset in enumerate((7, 1)):
        harness.broker.state.offsets.commit("g", "T", queue_id, offset)
    harness.instructions()
    return harness


def reset_fields(**changes: str) -> dict[str, str]:
    return {"topic": "T", "group": "g", "timestamp": AT, "isForce": "true"} | changes


def pushes(harness: Harness) -> Iterator[Push]:
    return (one for one in harness.instructions() if isinstance(one, Push))


def finish(
    harness: Harness, question: Outcome | Waiting, response: RemotingCommand | RemotingError
) -> Outcome | Waiting:
    """Give a question the response of its client, and do what a pool would."""
    if isinstance(response, RemotingError):
        return harness.resume(question, error=response)
    return harness.resume(question, response)


def asked(outcome: Outcome | Waiting) -> Ask:
    """Return what a client is asked."""
    assert isinstance(outcome, Waiting) and isinstance(outcome.effect, Ask), outcome
    return outcome.effect


def reply(
    question: Outcome | Waiting, code: int = 0, body: bytes = b"", remark: str = ""
) -> RemotingCommand:
    return answer(asked(question).command, code, remark or None, {"x": "y"}, body)


@pytest.mark.parametrize(
    ("force", "timestamp", "wanted"),
    [("true", AT, [3, 3]), ("false", AT, [3, 1]), ("true", "-1", [8, 8]), ("false", "-1", [7, 1])],
)
def test_an_offset_is_reset_to_a_time_or_to_the_end(
    harness: Harness, force: str, timestamp: str, wanted: list[int]
) -> None:
    response = harness.ask(RESET, reset_fields(isForce=force, timestamp=timestamp))
    assert response.code == ResponseCode.SUCCESS
    (push,) = pushes(harness)
    assert push.channel_id == harness.channel.id
    assert push.command.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET
    assert push.command.ext_fields == reset_fields(isForce="false", timestamp=timestamp)
    assert push.command.body == response.body
    for queue_id, offset in enumerate(wanted):
        key = f'{{"brokerName":"{harness.settings.broker.broker_name}","queueId":{queue_id}'
        assert f'{key},"topic":"T"}}:{offset}' in response.body.decode()


def test_a_client_in_c_plus_plus_gets_a_list(harness: Harness) -> None:
    request = harness.request(RESET, reset_fields())
    request.language = int(LanguageCode.CPP)
    harness.settle(harness.broker.process(request, harness.channel, harness.now_ms))
    (push,) = pushes(harness)
    rows = json.loads(push.command.body)["offsetTable"]
    assert [(row["queueId"], row["topic"]) for row in rows] == [(0, "T"), (1, "T")]


@pytest.mark.parametrize(
    ("changes", "code", "remark"),
    [
        (
            {"topic": "U"},
            ResponseCode.SYSTEM_ERROR,
            "[reset-offset] reset offset failed, no topic in this broker. topic=U",
        ),
        ({"group": "h"}, ResponseCode.SYSTEM_ERROR, "THe consumer group <h> not exist"),
    ],
)
def test_a_reset_of_nothing_is_refused(
    harness: Harness, changes: dict[str, str], code: int, remark: str
) -> None:
    response = harness.ask(RESET, reset_fields(**changes))
    assert (response.code, response.remark) == (code, remark)


def test_a_reset_needs_a_client(harness: Harness) -> None:
    harness.broker.channel_closed(harness.channel, harness.now_ms)
    response = harness.ask(RESET, reset_fields())
    assert response.code == ResponseCode.CONSUMER_NOT_ONLINE
    assert response.remark == (
        f"Consumer not online, so can not reset offset, Group: g Topic: T Timestamp: {AT}"
    )


@pytest.mark.parametrize("code", [RESET, STATUS, RUNNING_INFO])
def test_a_client_that_is_too_old_is_not_asked(harness: Harness, code: int) -> None:
    group = harness.broker.state.consumers.get("g")
    assert group is not None
    group.clients[harness.channel.id].version = 27
    fields = reset_fields(consumerGroup="g", clientId="c1")
    response = harness.ask(code, fields)
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert "27" in (response.remark or "")
    assert not list(pushes(harness))


def test_the_status_of_each_client_is_gathered(harness: Harness) -> None:
    harness.beat("g", subscription(), channel=FakeChannel(2), client_id="c2")
    harness.beat("g", subscription(), channel=FakeChannel(3), client_id="c3")
    body = b'{"messageQueueTable":{{"topic":"T","brokerName":"b","queueId":0}:5}}'
    outcome = harness.process(STATUS, {"topic": "T", "group": "g"})
    assert asked(outcome).command.code == RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
    assert asked(outcome).command.ext_fields == {"topic": "T", "group": "g"}
    outcome = finish(harness, outcome, reply(outcome, body=body))
    outcome = finish(harness, outcome, CallTimeout("c2", "silent"))
    response = finish(harness, outcome, reply(outcome, body=b"no JSON"))
    assert isinstance(response, RemotingCommand)
    assert response.body.decode() == (
        '{"consumerTable":{"c1":{{"brokerName":"b","queueId":0,"topic":"T"}:5},"c3":{}},'
        '"messageQueueTable":{}}'
    )


def test_the_status_of_one_client_is_asked_for(harness: Harness) -> None:
    harness.beat("g", subscription(), channel=FakeChannel(2), client_id="c2")
    outcome = harness.process(STATUS, {"topic": "T", "group": "g", "clientAddr": "c2"})
    assert asked(outcome).channel_id == 2
    response = finish(harness, outcome, reply(outcome, ResponseCode.SYSTEM_ERROR))
    assert isinstance(response, RemotingCommand)
    assert response.body == b'{"consumerTable":{},"messageQueueTable":{}}'


def test_the_status_of_no_client_is_refused(harness: Harness) -> None:
    response = harness.ask(STATUS, {"topic": "T", "group": "h"})
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert response.remark == "No Any Consumer online in the consumer group: [h]"


def test_running_info_is_what_the_client_says(harness: Harness) -> None:
    fields = {"consumerGroup": "g", "clientId": "c1", "jstackEnable": "true"}
    signed = fields | {"AccessKey": "a", "Signature": "s", "SecurityToken": "t"}
    outcome = harness.process(RUNNING_INFO, signed)
    assert asked(outcome).command.ext_fields == fields
    assert asked(outcome).timeout_seconds == 10
    response = finish(harness, outcome, reply(outcome, 7, b"info", "why"))
    assert isinstance(response, RemotingCommand)
    assert (response.code, response.remark, response.body) == (7, "why", b"info")
    assert response.ext_fields == {"x": "y"}


@pytest.mark.parametrize(
    ("error", "code", "remark"),
    [
        (
            CallTimeout("127.0.0.9:40001", "no answer within 10000 ms"),
            ResponseCode.CONSUME_MSG_TIMEOUT,
            "consumer <g> <c1> Timeout: 127.0.0.9:40001: no answer within 10000 ms",
        ),
        (
            SendFailed("127.0.0.9:40001", "the connection is closed"),
            ResponseCode.SYSTEM_ERROR,
            "invoke consumer <g> <c1> Exception: 127.0.0.9:40001: the connection is closed",
        ),
    ],
)
def test_a_client_that_does_not_answer_is_reported(
    harness: Harness, error: RemotingError, code: int, remark: str
) -> None:
    outcome = harness.process(RUNNING_INFO, {"consumerGroup": "g", "clientId": "c1"})
    response = finish(harness, outcome, error)
    assert isinstance(response, RemotingCommand)
    assert (response.code, response.remark) == (code, remark)


@pytest.mark.parametrize("fields", [{"clientId": "c2"}, {}])
def test_a_client_that_is_not_there_is_reported(harness: Harness, fields: dict[str, str]) -> None:
    response = harness.ask(RUNNING_INFO, {"consumerGroup": "g"} | fields)
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert response.remark == f"The Consumer <g> <{fields.get('clientId', 'null')}> not online"


def test_a_client_consumes_a_message_directly(harness: Harness) -> None:
    record = harness.store.record_bytes(0)
    assert record is not None
    fields = {"consumerGroup": "g", "clientId": "c1", "msgId": create_message_id("10.0.0.1", 1, 0)}
    outcome = harness.process(CONSUME, fields)
    assert asked(outcome).command.body == record
    name = harness.settings.broker.broker_name
    assert asked(outcome).command.ext_fields == fields | {"brokerName": name}


@pytest.mark.parametrize("message_id", ["", "no id", create_message_id("10.0.0.1", 1, 1 << 40)])
def test_a_message_that_is_not_there_is_not_consumed(harness: Harness, message_id: str) -> None:
    fields = {"consumerGroup": "g", "clientId": "c1", "msgId": message_id}
    assert harness.ask(CONSUME, fields).code == ResponseCode.SYSTEM_ERROR


def test_a_reset_has_a_bound_and_goes_on_in_steps(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of 65,535 queues held up everybody for 140 ms."""
    monkeypatch.setattr(client_calls, "QUEUES_PER_STEP", 1)
    request = harness.request(RESET, reset_fields())
    work = harness.broker.process(request, harness.channel, harness.now_ms)
    assert isinstance(work, Generator)
    assert [next(work) for _ in range(2)] == [None, None]
    assert isinstance(next(work), InPool)
    assert harness.ask(RESET, reset_fields()).code == ResponseCode.SUCCESS
    [pushed] = pushes(harness)
    size_bytes = len(pushed.command.body)
    for bytes_max, is_refused in ((size_bytes - 1, True), (size_bytes, False)):
        monkeypatch.setattr(client_calls, "PUSHED_BYTES_MAX", bytes_max)
        answer = harness.ask(RESET, reset_fields())
        assert (answer.code == ResponseCode.SYSTEM_ERROR) is is_refused
        assert (f"at most {bytes_max}" in (answer.remark or "")) is is_refused
        assert (not list(pushes(harness))) is is_refused
