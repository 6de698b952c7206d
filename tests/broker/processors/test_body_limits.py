"""Each request of the table at the bounds of its body, and beyond."""

import pytest

from tests.broker.harness import Harness, Waiting, begun, pull_fields, send_fields, subscription
from wakelog.broker.decision import Outcome, WriteLine
from wakelog.broker.effects import InPool, Saved, Work, WorkKind
from wakelog.broker.processors.table import PROCESSORS
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.frame import BODY_BYTES_UNCHECKED, FRAME_BYTES_MAX

PARSED = sorted(code for code, row in PROCESSORS.items() if row.body.entries_max is not None)


@pytest.mark.parametrize("code", PARSED)
def test_a_body_beyond_its_bounds_is_refused_with_the_bound(harness: Harness, code: int) -> None:
    limits = PROCESSORS[code].body
    assert limits.entries_max is not None
    asked = [
        (b" ", "bytes", limits.body_bytes_max),
        (b",", "entries", limits.entries_max),
    ]
    for unit, name, limit in asked:
        refused = harness.ask(code, body=unit * (limit + 1))
        remark = f"the body has {limit + 1} {name}, at most {limit} are allowed"
        assert (refused.code, refused.remark) == (1, remark)
    lines = [line for line in harness.instructions() if isinstance(line, WriteLine)]
    assert [line.values["code"] for line in lines] == [code, code]


def test_the_factor_of_the_configuration_multiplies_the_bounds() -> None:
    body = b"{" + b" " * 3_000_000 + b"}"
    assert Harness().ask(RequestCode.HEART_BEAT, body=body).code == 1
    assert Harness(requestLimitFactor="2").ask(RequestCode.HEART_BEAT, body=body).code == 0


def test_the_body_of_a_message_has_the_bound_of_the_store(harness: Harness) -> None:
    harness.send("T")
    assert harness.send("T", b"," * 3_000_000).code == 0


def test_a_thousand_subscriptions_of_many_tags_are_within_the_bounds(harness: Harness) -> None:
    tags = " || ".join(f"tag-{number}" for number in range(20))
    subscriptions = [subscription(f"topic-{number}", tags) for number in range(1_000)]
    assert harness.beat("g", *subscriptions).code == 0


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE_V2,
    ],
)
def test_properties_that_no_record_can_hold_are_not_read(harness: Harness, code: int) -> None:
    harness.send("T")
    pairs = "\x02".join(f"k{number}\x01v" for number in range(20_000))
    answer = harness.ask(code, send_fields("T", i=pairs), b"b")
    assert answer.code == 13


@pytest.mark.parametrize(
    ("code", "limit", "refusal"),
    [
        (RequestCode.HEART_BEAT, 2_097_152, ResponseCode.SYSTEM_ERROR),
        (RequestCode.UPDATE_BROKER_CONFIG, 1_048_576, ResponseCode.SYSTEM_ERROR),
        (RequestCode.SEND_MESSAGE_V2, 4_194_304, ResponseCode.MESSAGE_ILLEGAL),
        (RequestCode.SEND_BATCH_MESSAGE, 4_194_304, ResponseCode.MESSAGE_ILLEGAL),
    ],
)
def test_a_body_that_was_too_long_to_be_read_is_refused(
    harness: Harness, code: int, limit: int, refusal: int
) -> None:
    assert harness.broker.body_bytes_max(code) == limit
    request = harness.request(code, {}, b"")
    request.missing_body_bytes = limit + 1
    refused = harness.broker.process(request, harness.channel, harness.now_ms)
    assert isinstance(refused, RemotingCommand)
    remark = f"the body has {limit + 1} bytes, at most {limit} are allowed"
    assert (refused.code, refused.remark) == (refusal, remark)
    [line] = [line for line in harness.instructions() if isinstance(line, WriteLine)]
    assert line.values["cause"] == remark


def test_how_long_a_body_may_be_follows_the_configuration() -> None:
    asked = (RequestCode.HEART_BEAT, RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE, 999)
    broker = Harness(requestLimitFactor="2", maxMessageSize="9000000").broker
    limits = [broker.body_bytes_max(code) for code in asked]
    assert limits == [4_194_304, 9_000_000, 2 * FRAME_BYTES_MAX, 1_048_576]
    small = Harness(maxMessageSize="1000").broker.body_bytes_max(RequestCode.SEND_MESSAGE)
    assert small == BODY_BYTES_UNCHECKED


def test_no_code_has_a_bound_below_what_is_read_of_all() -> None:
    assert min(row.body.body_bytes_max for row in PROCESSORS.values()) >= BODY_BYTES_UNCHECKED


def test_a_body_without_a_use_is_dropped(harness: Harness) -> None:
    """2,000 held pulls with a body of 1 MiB each kept 2 GB."""
    harness.send("T")
    for code, fields in (
        (RequestCode.PULL_MESSAGE, pull_fields(queueOffset=1, sysFlag=6)),
        (RequestCode.VIEW_MESSAGE_BY_ID, {"offset": "0"}),
        (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {"topic": "T", "queueId": "0", "timestamp": "0"}),
    ):
        request = harness.request(code, fields, b"x" * 1_000)
        harness.broker.process(request, harness.channel, harness.now_ms)
        assert request.body == b""


def pool_kind(harness: Harness, outcome: Outcome | Work) -> WorkKind:
    """Return the kind of the first work that a request has done in the pool."""
    waiting = begun(outcome)
    while isinstance(waiting, Waiting) and isinstance(waiting.effect, Saved):
        waiting = begun(waiting.resume(""))
    assert isinstance(waiting, Waiting) and isinstance(waiting.effect, InPool), waiting
    return waiting.effect.kind


def test_a_request_for_all_queues_of_a_topic_is_a_search(harness: Harness) -> None:
    """It takes seconds for 50,000 queues. Pulls from the disk waited for it."""
    harness.send("T")
    harness.beat("g", subscription())
    for queue_id in range(4):
        harness.broker.state.offsets.commit("g", "T", queue_id, 1)
    fields = {"topic": "T", "group": "g", "consumerGroup": "g", "timestamp": "-1"}
    for code in (
        RequestCode.GET_CONSUME_STATS,
        RequestCode.GET_BROKER_CONSUME_STATS,
        RequestCode.QUERY_CONSUME_TIME_SPAN,
        RequestCode.QUERY_CORRECTION_OFFSET,
        RequestCode.GET_TOPIC_STATS_INFO,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
    ):
        request = harness.request(code, fields | {"isOrder": "false", "isForce": "true"})
        outcome = harness.broker.process(request, harness.channel, harness.now_ms)
        assert pool_kind(harness, outcome) is WorkKind.SURVEY, code


def test_one_thread_lists_the_queues_for_all_deletions(harness: Harness) -> None:
    """Four of them held up everybody for 130 ms when 3,000 topics were deleted at once."""
    for code, fields in (
        (RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"}),
        (RequestCode.CLEAN_UNUSED_TOPIC, {}),
    ):
        request = harness.request(code, fields)
        outcome = harness.broker.process(request, harness.channel, harness.now_ms)
        assert pool_kind(harness, outcome) is WorkKind.ENCODE
