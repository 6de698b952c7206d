"""Which messages of a lane go together, and which wait."""

import pytest

from tests.client.clusters import message
from wakelog.client.lanes import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX, SendLane, Waiting
from wakelog.client.messages import EncodedMessage


def lane_of(*messages: EncodedMessage, requests_max: int = 1) -> SendLane[int]:
    lane = SendLane[int](requests_max)
    lane.waiting += [Waiting(each, number) for number, each in enumerate(messages)]
    return lane


def taken(lane: SendLane[int]) -> list[int]:
    return [each.waiter for each in lane.take()]


def test_a_message_goes_at_once_until_enough_requests_are_under_way() -> None:
    lane = SendLane[int](2)
    assert [lane.begin(), lane.begin(), lane.begin()] == [True, True, False]
    lane.end()
    assert lane.begin()


def test_a_message_does_not_pass_those_that_wait() -> None:
    lane = lane_of(message())
    assert not lane.begin()
    assert taken(lane) == [0]


def test_what_has_waited_goes_in_one_request() -> None:
    lane = lane_of(*[message()] * 3)
    assert taken(lane) == [0, 1, 2]
    lane.waiting.append(Waiting(message(), 3))
    assert taken(lane) == []  # one request is under way
    lane.end()
    assert taken(lane) == [3]
    lane.end()
    assert lane.is_idle


@pytest.mark.parametrize("place", [0, 1])
def test_a_message_that_is_alone_has_a_request_of_its_own(place: int) -> None:
    messages = [message(), message()]
    messages[place] = message(is_alone=True)
    lane = lane_of(*messages, requests_max=2)
    assert [taken(lane), taken(lane)] == [[0], [1]]


def test_a_batch_has_a_limit_in_messages_and_in_bytes() -> None:
    lane = lane_of(*[message()] * (BATCH_MESSAGES_MAX + 1))
    assert len(taken(lane)) == BATCH_MESSAGES_MAX
    half = message(b"x" * (BATCH_BYTES_MAX // 2))
    assert taken(lane_of(half, half)) == [0]
    assert taken(lane_of(message(b"x" * BATCH_BYTES_MAX))) == [0]


def test_topic_queue_and_sharding_key_make_a_lane() -> None:
    messages = [message(), message(queue=("b", 1)), message(sharding_key="k"), message(b"y")]
    assert len({each.lane for each in messages}) == 3
