"""Tests of the gate that lets reads of queues wait for messages acknowledged before them."""

from functools import partial

import pytest

from tests.broker.harness import Harness, Waiting, begun, pull_fields, send_fields
from wakelog.broker import read_after_write
from wakelog.broker.effects import Dispatched
from wakelog.broker.read_after_write import BEYOND_END_WAIT_MS_MAX, WAIT_MS_MAX
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import RemotingCommand, make_request

QUEUE = {"topic": "T", "queueId": "0"}
QUERY = {"topic": "T", "key": "k", "maxNum": "1", "beginTimestamp": "0", "endTimestamp": "9"}


@pytest.fixture
def behind(harness: Harness) -> Harness:
    """A broker with a topic, whose queues reach 10 of the 20 bytes that may be read."""
    harness.send("T")
    harness.store.dispatched, harness.readable = 10, 20
    return harness


def wait_ms(harness: Harness, code: int, fields: dict[str, str]) -> int:
    """Return how long a request has to wait, 0 if it is handled at once."""
    outcome = harness.process(code, fields)
    if not isinstance(outcome, Waiting) or not isinstance(outcome.effect, Dispatched):
        return 0
    assert outcome.effect.physical_offset == 20
    return outcome.effect.deadline_ms - harness.now_ms


@pytest.mark.parametrize(
    ("code", "fields", "waits_ms"),
    [
        (RequestCode.QUERY_MESSAGE, QUERY, WAIT_MS_MAX),
        (RequestCode.GET_MAX_OFFSET, QUEUE, WAIT_MS_MAX),
        (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {**QUEUE, "timestamp": "0"}, WAIT_MS_MAX),
        (RequestCode.GET_TOPIC_STATS_INFO, QUEUE, WAIT_MS_MAX),
        (RequestCode.QUERY_CONSUME_QUEUE, QUEUE, WAIT_MS_MAX),
        (RequestCode.GET_MIN_OFFSET, QUEUE, 0),
        (RequestCode.HEART_BEAT, {}, 0),
        (RequestCode.SEND_MESSAGE_V2, send_fields(), 0),
        (99_999, {}, 0),
        # A request that its header refuses does not wait.
        (RequestCode.PULL_MESSAGE, pull_fields(sysFlag="many"), 0),
        (RequestCode.PULL_MESSAGE, pull_fields(maxMsgNums="9" * 5_000), 0),
        (RequestCode.PULL_MESSAGE, {}, 0),
    ],
)
def test_a_request_that_reads_queues_waits_for_them(
    behind: Harness, code: int, fields: dict[str, str], waits_ms: int
) -> None:
    assert wait_ms(behind, code, fields) == waits_ms


@pytest.mark.parametrize(
    ("sys_flag", "ahead_count", "changes", "waits_ms"),
    [
        (4, 0, {}, WAIT_MS_MAX),
        (6, 0, {}, 0),  # it is held, and an arrival wakes it
        (6, 1, {}, 0),
        (6, -1, {}, BEYOND_END_WAIT_MS_MAX),
        (4, -1, {}, WAIT_MS_MAX),
        (4, 799, {}, WAIT_MS_MAX),
        (4, 800, {}, 0),  # it does not see the end
        (4, 800, {"maxMsgNums": 900}, WAIT_MS_MAX),
        (4, None, {}, WAIT_MS_MAX),
        (6, None, {}, 0),
        # A queue or an offset that cannot be counts as unknown.
        (6, -1, {"queueOffset": -1}, 0),
        (6, -1, {"queueId": 99}, 0),
        (6, -1, {"queueId": -1}, 0),
        (6, -1, {"topic": "unknown"}, 0),
        (6, -1, {"topic": "../t"}, 0),
    ],
)
def test_a_pull_waits_only_if_it_sees_the_end_of_its_queue(
    behind: Harness,
    monkeypatch: pytest.MonkeyPatch,
    sys_flag: int,
    ahead_count: int | None,
    changes: dict[str, int | str],
    waits_ms: int,
) -> None:
    monkeypatch.setattr(behind.store, "max_queue_offset_nowait", lambda *_: ahead_count)
    fields = pull_fields(sysFlag=sys_flag, **changes)
    assert wait_ms(behind, RequestCode.PULL_MESSAGE, fields) == waits_ms


def test_no_request_waits_for_queues_that_show_everything(behind: Harness) -> None:
    behind.store.dispatched = 20
    assert wait_ms(behind, RequestCode.GET_MAX_OFFSET, QUEUE) == 0


def test_a_resumed_request_is_handled_at_its_new_time(behind: Harness) -> None:
    command = make_request(RequestCode.GET_MAX_OFFSET, QUEUE, opaque=7)
    outcome = begun(behind.broker.process(command, behind.channel, behind.now_ms))
    assert isinstance(outcome, Waiting) and isinstance(outcome.effect, Dispatched)
    behind.now_ms += 5
    response = behind.resume(outcome)
    assert isinstance(response, RemotingCommand)
    assert (response.opaque, response.ext_fields) == (7, {"offset": "1"})
    assert behind.broker.statistics()["requests_by_code"][RequestCode.GET_MAX_OFFSET] == 1


def test_each_request_is_resumed_once_in_the_order_of_arrival(behind: Harness) -> None:
    gate, resumed = behind.broker.read_after_write, list[int]()
    for number, end in enumerate((10, 20, 20, 30)):
        gate.add(Dispatched(end, 100 + end), partial(resumed.append, number))
    behind.store.dispatched = 25
    gate.resume_due(0)
    assert resumed == [0, 1, 2] and len(gate) == 1
    gate.resume_due(129)
    assert len(gate) == 1
    gate.resume_due(130)
    behind.store.dispatched = 1_000
    gate.resume_due(1_000)
    assert resumed == [0, 1, 2, 3] and not gate and gate.waited_count == 4


def test_requests_above_the_limit_read_what_the_queues_show(
    behind: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_after_write, "WAITING_COUNT_MAX", 1)
    assert wait_ms(behind, RequestCode.GET_MAX_OFFSET, QUEUE) == WAIT_MS_MAX
    behind.broker.read_after_write.add(Dispatched(20, 20), lambda: None)
    assert wait_ms(behind, RequestCode.GET_MAX_OFFSET, QUEUE) == 0
