"""What a turn leaves to the next ones: chunks to decode, and connections to forget."""

from collections.abc import Sequence

import pytest

from tests.network.fakes import FakeHandler
from tests.network.turn_bench import SEND, Bench, frames, opaques_of
from wakelog.network.connection import DEFERRED_BYTES_MIN, RESUMED_BYTES
from wakelog.network.handler import Channel
from wakelog.network.lanes import LARGE_BYTES
from wakelog.network.peer import Peer
from wakelog.network.turn import LARGE_BODIES_BYTES_MAX
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.frame import encode_frame

COUNT = 80
"""Of small requests in a chunk that may be deferred."""


def requests_of(number: int) -> range:
    return range(number * COUNT, (number + 1) * COUNT)


def spend_reads(bench: Bench) -> None:
    """Read another chunk for as long as reads may take."""
    assert not bench.turn.defers(bench.connection()[0])
    bench.clock.spend(bench.limits.turn_budget_seconds)


def large_frame(opaque: int, body_bytes: int = LARGE_BODIES_BYTES_MAX) -> bytes:
    return encode_frame(RemotingCommand(SEND, opaque, body=bytes(body_bytes)))


def test_chunks_beyond_the_budget_are_decoded_after_the_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(FakeHandler(), capacity=8 * COUNT)
    receive = Peer.receive

    def slow(peer: Peer, data: bytes) -> Sequence[RemotingCommand]:
        bench.clock.seconds += 0.0008 if len(data) >= DEFERRED_BYTES_MIN else 0.0
        return receive(peer, data)

    monkeypatch.setattr(Peer, "receive", slow)
    many = [bench.connection() for _ in range(8)]
    for number, (connection, _) in enumerate(many):
        connection.data_received(frames(*requests_of(number)))
    assert [transport.reading for _, transport in many] == [True] * 3 + [False] * 5
    assert many[-1][0].held_bytes == len(frames(*requests_of(7)))
    other, answered = bench.connection()
    other.data_received(frames(1_000))
    bench.loop.turn_over()
    assert opaques_of(answered) == [1_000], "a short chunk waits for none of the others"
    assert [transport.reading for _, transport in many] == [True] * 6 + [False] * 2
    many[6][0].data_received(frames(998, 999))  # of a transport that has read it already
    bench.loop.run_until_quiet()
    assert all(transport.reading for _, transport in many)
    assert opaques_of(many[6][1]) == [*requests_of(6), 998, 999]
    processed = bench.handler.processed
    assert processed[:4] == [0, COUNT, 2 * COUNT, 1_000], "one of each connection in turn"
    assert sorted(processed[: 3 * COUNT + 1]) == [*range(3 * COUNT), 1_000]
    for number in range(8):
        of_one = [one for one in processed if one in requests_of(number)]
        assert of_one == [*requests_of(number)]


def test_chunks_of_large_frames_have_their_share_and_what_the_kernel_copies() -> None:
    bench = Bench(FakeHandler())
    many = [bench.connection() for _ in range(4)]
    whole = large_frame(7, LARGE_BYTES)
    parts = [
        whole[begin : begin + RESUMED_BYTES * 6]
        for begin in range(0, len(whole), RESUMED_BYTES * 6)
    ]
    for connection, _ in many:
        connection.data_received(parts[0])
        bench.clock.spend(0.0009)
    assert [transport.reading for _, transport in many] == [True] * 3 + [False]
    bench.loop.run_until_quiet()
    assert all(transport.reading for _, transport in many)
    for part in parts[1:]:
        for connection, _ in many:
            connection.data_received(part)
        bench.loop.run_until_quiet()
    assert [opaques_of(transport) for _, transport in many] == [[7]] * 4


def test_a_long_chunk_that_was_deferred_waits_for_others_piece_by_piece() -> None:
    bench = Bench(FakeHandler(), capacity=2_000, crowded=2_000)
    (long, answered), (short, _) = bench.connection(), bench.connection()
    spend_reads(bench)
    long.data_received(frames(*range(1_000)))
    short.data_received(frames(*range(1_000, 1_000 + COUNT)))
    assert len(frames(*range(1_000))) > 3 * RESUMED_BYTES
    bench.loop.run_until_quiet()
    processed = bench.handler.processed
    assert processed.index(999) > processed.index(1_000 + COUNT - 1) > processed.index(0)
    assert opaques_of(answered) == list(range(1_000))


def test_others_are_answered_before_a_large_request_and_it_ends_the_turn() -> None:
    bench = Bench(FakeHandler())
    seen: dict[int, list[list[int]]] = {}

    def rule(request: RemotingCommand) -> RemotingCommand:
        seen[request.opaque] = [opaques_of(transport) for _, transport in many]
        return answer(request, 0)

    bench.handler.rule = rule
    many = [bench.connection() for _ in range(4)]
    for (connection, _), chunk in zip(
        many, (large_frame(1), frames(2), large_frame(3), frames(4)), strict=True
    ):
        connection.data_received(chunk)
    bench.loop.turn_over()
    assert bench.handler.processed == [2, 4, 1]
    assert seen == {2: [[]] * 4, 4: [[]] * 4, 1: [[], [2], [], [4]]}
    assert opaques_of(many[0][1]) == [1]
    many[1][0].data_received(frames(5))
    bench.loop.turn_over()
    assert bench.handler.processed[3:] == [5, 3]
    assert seen[3] == [[1], [2, 5], [], [4]]
    assert not bench.loop.ready


def test_a_turn_has_large_requests_up_to_a_limit() -> None:
    bench = Bench(FakeHandler())
    chunks = [large_frame(opaque, LARGE_BODIES_BYTES_MAX // 2) for opaque in range(5)]
    for chunk in chunks:
        bench.connection()[0].data_received(chunk)
    counts = []
    while bench.loop.ready:
        bench.loop.turn_over()
        counts.append(len(bench.handler.processed))
    assert counts == [2, 4, 5]


def test_what_was_deferred_is_not_decoded_while_its_lane_is_crowded() -> None:
    crowded_count = 100
    bench = Bench(FakeHandler(), capacity=2_000, crowded=crowded_count)

    def rule(request: RemotingCommand) -> RemotingCommand:
        bench.clock.spend(bench.limits.turn_budget_seconds / 4)
        return answer(request, 0)

    bench.handler.rule = rule
    connection, transport = bench.connection()
    spend_reads(bench)
    connection.data_received(frames(*range(1_000)))
    waiting_counts = []
    while bench.loop.ready:
        bench.loop.turn_over()
        waiting_counts.append(bench.lanes.waiting_count)
    of_a_piece = RESUMED_BYTES // len(frames(0)) + 1
    assert crowded_count < max(waiting_counts) <= crowded_count // 2 + 2 * of_a_piece
    assert opaques_of(transport) == list(range(1_000))
    assert transport.reading


def test_a_request_that_was_deferred_has_waited_since_then() -> None:
    bench = Bench(FakeHandler())
    connection, transport = bench.connection()
    spend_reads(bench)
    connection.data_received(frames(*requests_of(0)))
    bench.pass_time(0.3)
    bench.loop.run_until_quiet()
    assert {command.code for command in transport.answers()} == {ResponseCode.SYSTEM_BUSY}
    assert connection.deferred_seconds == 0.0


def test_nothing_of_a_chunk_is_decoded_after_its_connection_has_ended() -> None:
    bench = Bench(FakeHandler())
    connection, transport = bench.connection()
    spend_reads(bench)
    connection.data_received(frames(*requests_of(0)))
    transport.abort()
    bench.loop.run_until_quiet()
    assert bench.handler.processed == []


def test_a_closed_connection_of_which_much_is_left_is_reported_again() -> None:
    bench = Bench(FakeHandler())
    reports: list[int] = []
    connection, transport = bench.connection()
    other, other_transport = bench.connection()

    def forget(closed: Channel, _now_ms: int) -> bool:
        reports.append(closed.id)
        bench.clock.spend(0.0015)
        return closed is connection and len(reports) < 5

    bench.handler.channel_closed = forget  # type: ignore[method-assign,assignment]
    transport.close()
    other_transport.close()
    bench.loop.turn_over()
    assert reports == [connection.id, other.id]
    bench.loop.run_until_quiet()
    assert reports == [connection.id, other.id, *[connection.id] * 3]


def test_a_turn_that_is_asked_for_twice_is_one() -> None:
    bench = Bench(FakeHandler())
    bench.turn.schedule()
    bench.turn.schedule()
    bench.loop.turn_over()
    assert bench.handler.turns_ended == 1
