"""A send that comes alone is answered at once; one that does not waits for its turn."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.network.fakes import (
    FakeHandler,
)
from tests.network.turn_bench import SEND, Bench, frames, opaques_of
from wakelog.network.activity import CloseReason
from wakelog.network.connection import PAUSED_BY_REST, Connection
from wakelog.network.handler import Channel
from wakelog.network.rests import CHUNKS_MIN, NEAR_SECONDS
from wakelog.network.turn import CROWD_SECONDS
from wakelog.network.turn_statistics import TurnStatistics
from wakelog.protocol.codes import ResponseCode


def lone_bench(
    answered: Callable[[bytes | memoryview], bytes | None] = bytes, **settings: Any
) -> Bench:
    """Return a turn whose handler answers a lone send with what `answered` makes of its frame."""
    asked: list[float] = []

    def answer_lone_send(
        chunk: bytes | memoryview, channel: Channel, began_seconds: float
    ) -> bytes | None:
        asked.append(began_seconds)
        return answered(chunk)

    bench = Bench(FakeHandler(), answer_lone_send=answer_lone_send, **settings)
    bench.asked = asked
    return bench


def test_a_lone_send_is_answered_before_other_sockets_are_read() -> None:
    bench = lone_bench()
    connection, transport = bench.connection()
    connection.data_received(frames(1))
    assert opaques_of(transport) == [1] and transport.write_calls == 1
    assert bench.handler.processed == [] and not bench.loop.ready
    assert bench.asked == [bench.clock()]
    size_bytes = len(frames(1))
    assert bench.turn.statistics() == TurnStatistics(
        turns_count=1,
        requests_count=1,
        answers_count=1,
        received_bytes=size_bytes,
        written_bytes=size_bytes,
    )
    lanes = bench.lanes.statistics(bench.clock())
    assert sum(lane.taken_count for lane in lanes.values()) == 1
    assert connection.activity.read_seconds == bench.clock()


def test_a_lone_one_way_send_gets_no_answer() -> None:
    bench = lone_bench(lambda _: b"")
    connection, transport = bench.connection()
    connection.data_received(frames(1))
    assert transport.write_calls == 0 and not bench.loop.ready
    assert bench.turn.statistics().requests_count == 1
    assert bench.turn.statistics().answers_count == 0


def test_a_connection_of_many_lone_one_way_sends_rests() -> None:
    bench = lone_bench(lambda _: b"")
    connection, _transport = bench.connection()
    for opaque in range(CHUNKS_MIN + 1):
        assert not connection.is_paused(PAUSED_BY_REST)
        bench.pass_time(NEAR_SECONDS / 2)
        connection.data_received(frames(opaque))
    assert connection.is_paused(PAUSED_BY_REST)


def test_what_the_handler_does_not_take_has_a_turn() -> None:
    bench = lone_bench(lambda _: None)
    connection, transport = bench.connection()
    connection.data_received(frames(1))
    assert opaques_of(transport) == []
    bench.loop.turn_over()
    assert opaques_of(transport) == bench.handler.processed == [1]
    assert bench.turn.statistics().received_bytes == len(frames(1))


def _after_another(bench: Bench, _: Connection) -> None:
    other, _transport = bench.connection()
    other.data_received(frames(7))
    bench.clock.seconds += CROWD_SECONDS / 2


def _with_another(bench: Bench, _: Connection) -> None:
    bench.turn.schedule()


def _behind_a_half(_: Bench, connection: Connection) -> None:
    connection.data_received(frames(7)[:9])


def _too_late(bench: Bench, _: Connection) -> None:
    bench.clock.seconds += 1.0


def _while_one_is_held(bench: Bench, connection: Connection) -> None:
    bench.lanes.hold(connection, SEND)


def _after_the_close(bench: Bench, connection: Connection) -> None:
    connection.close(CloseReason.REQUESTED)
    bench.loop.run_until_quiet()
    bench.pass_time(2 * CROWD_SECONDS)


@pytest.mark.parametrize(
    "before",
    [
        _after_another,
        _with_another,
        _behind_a_half,
        _too_late,
        _while_one_is_held,
        _after_the_close,
    ],
)
def test_a_send_that_does_not_come_alone_waits_for_a_turn(
    before: Callable[[Bench, Connection], None],
) -> None:
    bench = lone_bench(lambda chunk: bytes(chunk) if len(chunk) == len(frames(1)) else None)
    connection, transport = bench.connection()
    before(bench, connection)
    bench.asked.clear()
    connection.data_received(frames(1))
    assert bench.asked == [] and opaques_of(transport) == []


def test_a_port_that_serves_less_has_turns_for_all() -> None:
    bench = lone_bench()
    connection, transport = bench.connection(frozenset({SEND}))
    connection.data_received(frames(1))
    assert opaques_of(transport) == []
    bench.loop.turn_over()
    assert [one.code for one in transport.answers()] == [ResponseCode.REQUEST_CODE_NOT_SUPPORTED]


def test_a_lone_send_comes_after_the_requests_that_wait_for_one_that_is_held() -> None:
    bench = lone_bench()
    connection, transport = bench.connection()
    bench.lanes.hold(connection, SEND)
    connection.data_received(frames(1))
    bench.lanes.release(connection, SEND, bench.clock())
    bench.turn.schedule()
    bench.loop.run_until_quiet()
    bench.pass_time(0.001)
    connection.data_received(frames(2))
    assert opaques_of(transport) == [1, 2] and bench.handler.processed == [1]
