"""Work in order: what a connection sends behind it waits for it, and nobody else does."""

from typing import Any

import pytest

from tests.network.fakes import FakeHandler
from tests.network.turn_bench import PULL, SEND, Bench, frames, opaques_of, work_of
from wakelog.network import driver
from wakelog.network.driver import NOW, Work
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.errors import RemoteProtocolError


def _in_order(bench: Bench, done: list[int], *, pieces: int = 10) -> None:
    """Let request 1 take many steps, which later ones of its connection and lane wait for."""

    def work() -> Work:
        result = yield from work_of(pieces, 1, bench.clock)
        done.append(result)
        return answer(RemotingCommand(SEND, result), 0, remark=str((yield NOW)))

    def rule(request: RemotingCommand) -> Any:
        if request.opaque == 1:
            return work()
        done.append(request.opaque)
        return answer(request, 0)

    bench.handler.rule = rule


def test_what_a_connection_sends_behind_work_in_order_waits_for_it_and_others_do_not() -> None:
    bench = Bench(FakeHandler(), in_order_codes={SEND})
    done: list[int] = []
    _in_order(bench, done)
    (connection, transport), (other, other_transport) = bench.connection(), bench.connection()
    connection.data_received(frames(1, 2, 3) + frames(4, code=PULL))
    other.data_received(frames(5))
    bench.loop.turn_over()
    assert done == [5, 4]
    assert transport.reading, "nothing came behind it since it began"
    connection.data_received(frames(6))
    assert not transport.reading
    bench.loop.run_until_quiet()
    assert done == [5, 4, 1, 2, 3, 6]
    assert opaques_of(transport) == [4, 1, 2, 3, 6]
    assert opaques_of(other_transport) == [5]
    assert transport.reading
    assert connection.waiting_count == 0
    bench.lanes.validate()


def test_work_in_order_ends_with_the_time_at_its_end() -> None:
    bench = Bench(FakeHandler(), in_order_codes={SEND})
    _in_order(bench, [], pieces=20)
    connection, transport = bench.connection()
    connection.data_received(frames(1))
    began_ms = bench.clock.wall_ms()
    bench.loop.run_until_quiet()
    [response] = transport.answers()
    assert int(response.remark or "") - began_ms >= 7, "20 steps of 0.4 ms"


def test_work_in_order_of_a_closed_connection_is_done() -> None:
    bench = Bench(FakeHandler(), in_order_codes={SEND})
    done: list[int] = []
    _in_order(bench, done)
    connection, transport = bench.connection()
    connection.data_received(frames(1, 2))
    bench.loop.turn_over()
    transport.abort()
    assert bench.handler.closed == []
    bench.loop.run_until_quiet()
    assert done == [1, 2]
    assert bench.handler.closed == [connection.id]


def test_work_in_order_that_fails_or_is_refused_holds_up_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def work() -> Work:
        yield from work_of(3, 0, bench.clock)
        raise RemoteProtocolError(ResponseCode.MESSAGE_ILLEGAL, "why")

    bench = Bench(FakeHandler(), in_order_codes={SEND})
    bench.handler.rule = lambda request: work() if request.opaque < 4 else answer(request, 0)
    connection, transport = bench.connection()
    connection.data_received(frames(1, 4))
    bench.loop.run_until_quiet()
    assert [(one.opaque, one.code) for one in transport.answers()] == [(1, 13), (4, 0)]
    monkeypatch.setattr(driver, "NEW_TASKS_MAX", 0)
    connection.data_received(frames(2, 5))
    bench.loop.run_until_quiet()
    assert [(one.opaque, one.code) for one in transport.answers()][2:] == [(2, 2), (5, 0)]


def test_a_turn_that_is_done_early_is_not_done_again() -> None:
    bench = Bench(FakeHandler())
    connection, transport = bench.connection()
    connection.data_received(frames(1))
    bench.turn.run()
    assert opaques_of(transport) == [1]
    bench.loop.turn_over()
    bench.turn.run()
    assert bench.handler.turns_ended == 1
