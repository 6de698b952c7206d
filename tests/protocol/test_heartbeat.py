"""The body of a heartbeat: the same as read at once, and no step reads much of it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.calls import calls_of_steps
from wakelog.protocol.bodies import HeartbeatData, decode_body, encode_body
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.heartbeat import PARTS_PER_STEP, decode_heartbeat
from wakelog.protocol.steps import Steps, finish

CALLS_MAX = 16 * PARTS_PER_STEP

texts = st.text("abT%@\u00e9", max_size=4)
maybe = st.none() | texts
subscriptions = st.fixed_dictionaries(
    {"topic": texts},
    optional={
        "subString": maybe,
        "tagsSet": st.lists(texts, max_size=3),
        "codeSet": st.lists(st.integers(-5, 5) | st.sampled_from(["1", "x"]), max_size=3),
        "subVersion": st.none() | st.integers(0, 9) | st.just("7"),
        "unknown": maybe,
    },
)
consumers = st.fixed_dictionaries(
    {"groupName": texts},
    optional={
        "consumeType": st.sampled_from(["CONSUME_PASSIVELY", "consume_actively", 1, 7, None]),
        "messageModel": st.sampled_from(["BroadCasting", 0, None, [1]]),
        "unitMode": st.booleans() | st.none(),
        "subscriptionDataSet": st.lists(subscriptions | st.none(), max_size=3) | st.none(),
    },
)
heartbeats = st.fixed_dictionaries(
    {},
    optional={
        "clientID": maybe,
        "producerDataSet": st.lists(st.fixed_dictionaries({"groupName": maybe}), max_size=2),
        "consumerDataSet": st.lists(consumers | st.none(), max_size=3) | st.none(),
    },
)


def outcome(read: Any) -> HeartbeatData | str:
    try:
        data: HeartbeatData = read()
    except RemoteProtocolError as error:
        return str(error.code)
    return data


@given(heartbeats)
def test_it_is_the_same_as_read_at_once(value: dict[str, Any]) -> None:
    body = json.dumps(value).encode()
    at_once = outcome(lambda: decode_body(HeartbeatData, body))
    assert outcome(lambda: finish(decode_heartbeat(body))) == at_once


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"null", b'{"consumerDataSet":[1]}', b"\xff"])
def test_what_is_no_heartbeat_is_refused(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        finish(decode_heartbeat(body))


def _subscriptions(first: int, count: int) -> list[dict[str, object]]:
    return [{"topic": f"t{number}"} for number in range(first, first + count)]


LARGE = {
    "one group of many subscriptions": [("g", 0, 5_000)],
    "many groups of a subscription": [(f"g{number}", number, 1) for number in range(4_000)],
    "many groups without one": [(f"g{number}", number, 0) for number in range(4_000)],
}


@pytest.mark.parametrize("groups", LARGE.values(), ids=LARGE)
def test_a_large_one_is_read_in_steps(groups: list[tuple[str, int, int]]) -> None:
    consumers = [
        {"groupName": name, "subscriptionDataSet": _subscriptions(first, count)}
        for name, first, count in groups
    ]
    body = json.dumps({"clientID": "c", "consumerDataSet": consumers}).encode()
    calls, read = calls_of_steps(decode_heartbeat(body))
    assert encode_body(read) == encode_body(decode_body(HeartbeatData, body))
    assert len(calls) > 10
    assert max(calls) < CALLS_MAX


def count(to: int) -> Steps[int]:
    for number in range(to):
        if number == 7:
            raise ValueError(number)
        yield
    return to


def test_all_steps_are_done_at_once() -> None:
    assert [finish(count(to)) for to in (0, 1, 5)] == [0, 1, 5]
    with pytest.raises(ValueError, match="7"):
        finish(count(10))
