"""QueueLooks: who looks at queues waits for what was acknowledged, and not for long."""

from functools import partial

import pytest

from wakelog.actors.broker import queue_looks
from wakelog.actors.broker.queue_looks import (
    BEYOND_WAIT_MS_MAX,
    WAIT_MS_MAX,
    AwaitDispatch,
    QueueLooks,
)
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import RemotingCommand, make_request


def request(code: int, **fields: str) -> RemotingCommand:
    return make_request(code, fields, b"", opaque=1)


def wait(
    looks: QueueLooks, asked: RemotingCommand, *, dispatched: int, readable: int
) -> AwaitDispatch | None:
    return looks.wait(
        asked, dispatched=dispatched, readable=readable, now_ms=0, entries_ahead=lambda _: 0
    )


def entries_ahead(pull: RemotingCommand) -> int | None:
    text = pull.ext_fields.get("ahead", "0")
    return int(text) if text else None


@pytest.mark.parametrize(
    ("code", "fields", "waits_ms"),
    [
        (RequestCode.PULL_MESSAGE, {"sysFlag": "4"}, WAIT_MS_MAX),
        (RequestCode.PULL_MESSAGE, {"sysFlag": "6"}, 0),  # it is held, and woken
        (RequestCode.PULL_MESSAGE, {"sysFlag": "6", "ahead": "1"}, 0),
        (RequestCode.PULL_MESSAGE, {"sysFlag": "6", "ahead": "-1"}, BEYOND_WAIT_MS_MAX),
        (RequestCode.PULL_MESSAGE, {"sysFlag": "4", "ahead": "-1"}, WAIT_MS_MAX),
        (RequestCode.PULL_MESSAGE, {"sysFlag": "4", "ahead": "799"}, WAIT_MS_MAX),
        (RequestCode.PULL_MESSAGE, {"sysFlag": "4", "ahead": "800"}, 0),  # it sees no end
        (RequestCode.PULL_MESSAGE, {"maxMsgNums": "900", "ahead": "800"}, WAIT_MS_MAX),
        (RequestCode.PULL_MESSAGE, {"maxMsgNums": "9" * 5_000, "ahead": "800"}, 0),
        (RequestCode.PULL_MESSAGE, {"sysFlag": "4", "ahead": ""}, WAIT_MS_MAX),
        (RequestCode.PULL_MESSAGE, {"sysFlag": "6", "ahead": ""}, 0),
        (RequestCode.PULL_MESSAGE, {"sysFlag": "many"}, WAIT_MS_MAX),  # the processor refuses it
        (RequestCode.PULL_MESSAGE, {}, WAIT_MS_MAX),
        (RequestCode.QUERY_MESSAGE, {}, WAIT_MS_MAX),
        (RequestCode.GET_MAX_OFFSET, {}, WAIT_MS_MAX),
        (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {}, WAIT_MS_MAX),
        (RequestCode.GET_TOPIC_STATS_INFO, {}, WAIT_MS_MAX),
        (RequestCode.QUERY_CONSUME_QUEUE, {}, WAIT_MS_MAX),
        (RequestCode.GET_MIN_OFFSET, {}, 0),
        (RequestCode.HEART_BEAT, {}, 0),
        (RequestCode.SEND_MESSAGE_V2, {}, 0),
        (99_999, {}, 0),
    ],
)
def test_who_looks_at_queues_waits_for_them(
    code: int, fields: dict[str, str], waits_ms: int
) -> None:
    until = QueueLooks().wait(
        request(code, **fields),
        dispatched=10,
        readable=20,
        now_ms=1_000,
        entries_ahead=entries_ahead,
    )
    assert until == (AwaitDispatch(20, 1_000 + waits_ms) if waits_ms else None)


def test_nobody_waits_for_queues_that_show_everything() -> None:
    asked = request(RequestCode.GET_MAX_OFFSET)
    assert wait(QueueLooks(), asked, dispatched=20, readable=20) is None


def test_a_request_is_taken_up_once_in_the_order_of_coming() -> None:
    looks = QueueLooks()
    taken: list[int] = []
    for number, end in enumerate((10, 20, 20, 30)):
        looks.add(AwaitDispatch(end, 100 + end), partial(taken.append, number))
    looks.take_up(dispatched=25, now_ms=0)
    assert taken == [0, 1, 2] and len(looks) == 1
    looks.take_up(dispatched=25, now_ms=129)
    assert len(looks) == 1
    looks.take_up(dispatched=25, now_ms=130)
    looks.take_up(dispatched=1_000, now_ms=1_000)
    assert taken == [0, 1, 2, 3] and not looks and looks.waited_count == 4


def test_more_than_the_limit_look_at_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_looks, "WAITING_COUNT_MAX", 1)
    looks = QueueLooks()
    asked = request(RequestCode.GET_MAX_OFFSET)
    until = wait(looks, asked, dispatched=0, readable=1)
    assert until is not None
    looks.add(until, lambda: None)
    assert wait(looks, asked, dispatched=0, readable=1) is None
