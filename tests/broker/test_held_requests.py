"""Tests of the requests that wait in the Broker."""

from collections.abc import Iterator

import pytest

from tests.broker.harness import FakeChannel, pull_fields
from wakelog.broker import held_requests
from wakelog.broker.decision import HoldPull
from wakelog.broker.held_requests import HeldRequests
from wakelog.network.request import Request
from wakelog.protocol.command import make_request
from wakelog.protocol.ext_fields import read_header
from wakelog.protocol.headers.pull import PullMessageRequestHeader
from wakelog.storage.queue.entries import Arrival


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldRequests]:
    monkeypatch.setattr(held_requests, "HOLDS_MAX", 2)
    requests = HeldRequests()
    yield requests
    requests.validate()


def hold(held: HeldRequests, *, channel_id: int = 1, **texts: str) -> HoldPull | None:
    command = make_request(11, pull_fields(queueId=3, queueOffset=7, **texts), opaque=1)
    header = read_header(PullMessageRequestHeader, command.ext_fields)
    request = Request(command, header, FakeChannel(channel_id), 50)
    return held.hold(request, held_ms=50, deadline_ms=99, codes=frozenset({1}))


def test_a_note_has_what_the_request_waits_for(held: HeldRequests) -> None:
    assert hold(held) == HoldPull(1, "T", 3, 7, 99, frozenset({1}))
    one = held.get(1)
    assert one is not None and one.note == held.notes()[0]


def test_held_requests_share_their_texts_and_keep_no_fields(held: HeldRequests) -> None:
    for _ in range(2):
        hold(held, consumerGroup="a group", topic="a topic", subscription="a tag")
    first, second = (one.request for one in (held.get(1), held.get(2)) if one is not None)
    assert first.command.ext_fields == {}
    for name in ("consumer_group", "topic", "subscription", "expression_type"):
        assert getattr(first.header, name) is getattr(second.header, name)


@pytest.mark.parametrize(
    ("arrival", "woken"),
    [
        (Arrival("T", 3, 8, 1), [1]),
        (Arrival("T", 3, 7, 1), []),
        (Arrival("T", 2, 8, 1), []),
        (Arrival("T", 3, 8, 2), []),
        (Arrival("U", 3, 8, 1), []),
    ],
)
def test_an_arrival_wakes_pulls_of_its_queue_offset_and_tag(
    held: HeldRequests, arrival: Arrival, woken: list[int]
) -> None:
    hold(held)
    assert held.woken_by([arrival]) == woken
    assert held.get(1) is not None, "it is removed when it runs again"


def test_pulls_that_wait_longest_are_woken_first_and_once(held: HeldRequests) -> None:
    for _ in range(2):
        hold(held)
    arrivals = [Arrival("T", 3, offset, 1) for offset in (8, 9)]
    assert held.woken_by(arrivals) == [1, 2]


def test_a_crowd_at_one_topic_is_left_to_pull_hold(
    held: HeldRequests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_requests, "WOKEN_AT_ONCE_MAX", 1)
    for _ in range(2):
        hold(held)
    assert held.woken_by([Arrival("T", 3, 8, 1)]) is None
    assert held.woken_by([Arrival("U", 3, 8, 1)]) == []


def test_a_removed_request_is_not_held(held: HeldRequests) -> None:
    hold(held)
    removed = held.remove(1)
    assert removed is not None
    assert removed.request.command.opaque == 1
    assert held.remove(1) is None
    assert held.get(1) is None


def test_a_request_put_back_keeps_its_note(held: HeldRequests) -> None:
    note = hold(held)
    removed = held.remove(1)
    assert removed is not None
    assert held.put_back(removed) == note
    assert len(held) == 1


def test_a_request_put_back_can_wait_for_a_later_offset(held: HeldRequests) -> None:
    note = hold(held)
    removed = held.remove(1)
    assert removed is not None and note is not None
    later = held.put_back(removed, queue_offset=12)
    assert [later] == held.notes() == [HoldPull(1, "T", 3, 12, 99, frozenset({1}))]
    again = held.remove(1)
    assert again is not None and again.request is removed.request


def test_ids_are_never_used_twice(held: HeldRequests) -> None:
    hold(held)
    held.remove(1)
    note = hold(held)
    assert note is not None
    assert note.hold_id == 2


def test_no_request_is_held_above_the_limit(held: HeldRequests) -> None:
    assert hold(held) and hold(held)
    assert hold(held) is None


def test_a_closed_connection_loses_its_requests(held: HeldRequests) -> None:
    hold(held, channel_id=1)
    hold(held, channel_id=2)
    assert held.forget_channel(1) == (1,)
    assert held.forget_channel(1) == ()
    assert [note.hold_id for note in held.notes()] == [2]


def test_many_requests_of_a_closed_connection_go_some_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(held_requests, "FORGOTTEN_COUNT", 3)
    monkeypatch.setattr(held_requests, "HOLDS_MAX", 8)
    held = HeldRequests()
    hold(held, channel_id=1)
    for _ in range(7):
        hold(held, channel_id=0)
    counts = []
    while held.has_channel(0):
        counts.append(len(held.forget_channel(0)))
        held.validate()
    assert counts == [3, 3, 1]
    assert len(held) == 1


@pytest.mark.parametrize(
    ("now_ms", "is_over"), [(49, True), (50, False), (98, False), (99, False), (100, True)]
)
def test_it_is_over_at_its_deadline_or_where_the_clock_was_set_back(
    held: HeldRequests, now_ms: int, is_over: bool
) -> None:
    hold(held)
    one = held.remove(1)
    assert one is not None
    assert one.is_over(now_ms, grace_ms=1) is is_over
    assert one.is_over(99)


def test_the_topics_of_held_requests_are_waited_for(held: HeldRequests) -> None:
    assert not held.waits_for({"T"})
    hold(held)
    hold(held, channel_id=2)
    assert held.waits_for({"T", "other"})
    assert not held.waits_for({"other"})
    assert not held.waits_for(set())
    held.remove(1)
    assert held.waits_for({"T"})
    held.forget_channel(2)
    assert not held.waits_for({"T"})


def test_what_a_held_request_keeps_is_bounded(
    held: HeldRequests, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its fields were 256 KiB, 100,000 times."""
    monkeypatch.setattr(held_requests, "CHARACTERS_MAX", 15)
    assert hold(held) is not None
    one = held.get(1)
    assert one is not None and one.request.command.ext_fields == {}
    assert hold(held, subscription="a || b || c") is None
    held.validate()
    assert hold(held, subscription="a || b") is not None
    held.remove(1)
    held.remove(2)
    assert hold(held, subscription="a || b") is not None
