"""Requests and responses of one connection, without a socket and a clock."""

import weakref
from concurrent.futures import Future
from itertools import pairwise

import pytest

from tests.network.fakes import no_collections
from wakelog.network.errors import SendFailed, TooManyCalls
from wakelog.network.peer import OPAQUE_MASK, Peer
from wakelog.protocol.command import RESPONSE_FLAG, RemotingCommand
from wakelog.protocol.frame import encode_frame


def request(opaque: int = 0) -> RemotingCommand:
    return RemotingCommand(10, opaque)


def response(opaque: int, body: bytes = b"") -> RemotingCommand:
    return RemotingCommand(0, opaque, RESPONSE_FLAG, body=body)


def begin(peer: Peer) -> tuple[int, "Future[RemotingCommand]"]:
    waiter: Future[RemotingCommand] = Future()
    return peer.begin_request(request(), waiter), waiter


def test_responses_reach_their_waiters_in_any_order() -> None:
    peer = Peer("host:1", waiting_max=10)
    waiting = [begin(peer) for _ in range(3)]
    assert len({opaque for opaque, _ in waiting}) == 3
    for opaque, _ in reversed(waiting):
        assert peer.receive(encode_frame(response(opaque, b"%d" % opaque))) == []
    assert [waiter.result().body for _, waiter in waiting] == [b"%d" % n for n, _ in waiting]
    assert (peer.waiting_count, peer.responses_count, peer.unsolicited_count) == (0, 3, 0)


@pytest.mark.parametrize("step", [1, 5, 1000])
def test_requests_of_the_other_end_are_returned_in_order(step: int) -> None:
    peer = Peer("host:1", waiting_max=10)
    opaque, waiter = begin(peer)
    # Both ends number their requests: a request may have the number of one that waits here.
    sent = [request(opaque), response(opaque), request(8), response(99), request(9)]
    data = b"".join(map(encode_frame, sent))
    cut = [0, *range(step, len(data), step), len(data)]
    found = [one for begin, end in pairwise(cut) for one in peer.receive(data[begin:end])]
    assert [one.opaque for one in found] == [opaque, 8, 9]
    assert waiter.result().opaque == opaque
    assert peer.unsolicited_count == 1


def test_a_late_response_is_counted_and_dropped() -> None:
    peer = Peer("host:1", waiting_max=10)
    opaque, waiter = begin(peer)
    peer.end_request(opaque)
    cancelled, other = begin(peer)
    other.cancel()
    for number in (opaque, cancelled, opaque):
        assert peer.receive(encode_frame(response(number))) == []
    assert not waiter.done()
    assert peer.unsolicited_count == 3


def test_the_end_of_the_connection_ends_every_waiter_once() -> None:
    peer = Peer("host:1", waiting_max=10)
    waiters = [begin(peer)[1] for _ in range(3)]
    waiters[0].cancel()
    peer.lose("the connection was lost")
    peer.lose("again")
    for waiter in waiters[1:]:
        with pytest.raises(SendFailed, match="host:1: the connection was lost"):
            waiter.result()
    assert peer.waiting_count == 0


def test_a_limited_number_of_requests_wait() -> None:
    peer = Peer("host:1", waiting_max=2)
    first, _ = begin(peer)
    begin(peer)
    with pytest.raises(TooManyCalls, match="host:1: 2 requests wait for a response"):
        begin(peer)
    peer.end_request(first)
    begin(peer)


def test_numbers_stay_positive_and_skip_those_that_wait() -> None:
    peer = Peer("host:1", waiting_max=10)
    first, _ = begin(peer)
    peer._last_opaque = OPAQUE_MASK - 1
    assert [peer.next_opaque() for _ in range(3)] == [OPAQUE_MASK, 0, first + 1]


def test_a_bad_frame_is_kept_as_the_error_and_the_frames_before_it_count() -> None:
    peer = Peer("host:1", waiting_max=10)
    opaque, waiter = begin(peer)
    data = encode_frame(request(5)) + encode_frame(response(opaque)) + b"\xff" * 8
    assert [one.opaque for one in peer.receive(data)] == [5]
    assert waiter.done()
    assert peer.error is not None and "malformed frame" in peer.error.remark


def test_a_peer_that_sent_a_bad_frame_is_freed_with_its_last_user() -> None:
    peer = Peer("host:1", waiting_max=10)
    peer.receive(b"\xff" * 8)
    gone = weakref.ref(peer)
    with no_collections():
        del peer
        assert gone() is None, "it is in a cycle, as an error with its traceback is"
