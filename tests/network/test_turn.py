"""One turn of the loop, with a clock and a loop driven by hand."""

import weakref
from collections.abc import Callable
from typing import Any

import pytest

from tests.network.fakes import (
    FakeHandler,
    no_collections,
)
from tests.network.turn_bench import PULL, SEND, Bench, frames, opaques_of, work_of
from wakelog.network import driver
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import ONEWAY_FLAG, RESPONSE_FLAG, RemotingCommand, answer
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.frame import encode_frame
from wakelog.protocol.steps import Steps


def test_requests_that_arrive_together_are_answered_in_one_write_for_each_connection() -> None:
    bench = Bench(FakeHandler())
    first, first_transport = bench.connection()
    second, second_transport = bench.connection()
    first.data_received(frames(1, 2))
    second.data_received(frames(3))
    first.data_received(frames(4))
    assert bench.handler.processed == []
    bench.loop.turn_over()
    assert opaques_of(first_transport) == [1, 2, 4]
    assert opaques_of(second_transport) == [3]
    assert (first_transport.write_calls, second_transport.write_calls) == (1, 1)
    assert bench.handler.turns_ended == 1
    assert not bench.loop.ready


def test_no_answer_leaves_before_the_write_of_the_turn() -> None:
    bench = Bench(FakeHandler())
    connection, transport = bench.connection()
    seen: list[int] = []
    bench.handler.write = lambda _: seen.append(len(transport.taken))  # type: ignore[method-assign,assignment]
    connection.data_received(frames(1, 2))
    bench.loop.turn_over()
    assert seen == [0]
    assert opaques_of(transport) == [1, 2]


def test_a_write_hears_when_its_turn_began() -> None:
    bench = Bench(FakeHandler())
    connection, _transport = bench.connection()
    heard: list[float] = []
    bench.handler.write = heard.append  # type: ignore[method-assign,assignment]
    began = []
    for opaque in (1, 2):
        connection.data_received(frames(opaque))
        bench.pass_time(60.0)
        began.append(bench.clock())
        bench.loop.turn_over()
    assert heard == began


def test_a_failed_write_fails_every_answer_of_its_turn() -> None:
    bench = Bench(FakeHandler())
    bench.handler.write_error = OSError(28, "No space left on device")
    connection, transport = bench.connection()
    connection.data_received(frames(1, 2))
    bench.loop.turn_over()
    assert [(one.opaque, one.code) for one in transport.answers()] == [(1, 1), (2, 1)]
    assert "No space left on device" in (transport.answers()[0].remark or "")
    assert bench.turn.statistics().failures_count == 1


def test_what_fails_after_the_answers_keeps_none_of_them_back() -> None:
    bench = Bench(FakeHandler())
    connection, transport = bench.connection()
    bench.handler.end_error = OSError("no services")
    for opaque in (1, 2):
        connection.data_received(frames(opaque))
        bench.loop.turn_over()
    assert [(one.opaque, one.code) for one in transport.answers()] == [(1, 0), (2, 0)]
    assert bench.turn.statistics().failures_count == 2


def test_a_shell_may_choose_the_response_to_an_error() -> None:
    bench = Bench(FakeHandler(), answer_error=lambda request, error: answer(request, 14, "full"))
    bench.handler.write_error = OSError(28, "No space left on device")
    connection, transport = bench.connection()
    connection.data_received(frames(1))
    bench.loop.turn_over()
    (only,) = transport.answers()
    assert (only.opaque, only.code, only.remark) == (1, 14, "full")


def test_the_budget_ends_a_turn_and_the_rest_follows_after_the_reads() -> None:
    bench = Bench(FakeHandler())
    connection, transport = bench.connection()

    def slow(request: RemotingCommand) -> RemotingCommand:
        bench.clock.seconds += 0.001
        return answer(request, 0)

    bench.handler.rule = slow
    connection.data_received(frames(1, 2, 3, 4, 5))
    bench.loop.turn_over()
    assert bench.handler.processed == [1, 2]
    assert opaques_of(transport) == [1, 2]
    connection.data_received(frames(6))
    bench.loop.run_until_quiet()
    assert opaques_of(transport) == [1, 2, 3, 4, 5, 6]
    assert bench.handler.processed_at_end == [2, 4, 6]


def test_a_send_waits_for_few_pulls_and_not_for_all_earlier_ones() -> None:
    bench = Bench(FakeHandler())
    consumer, pulled = bench.connection()
    producer, sent = bench.connection()

    def slow(request: RemotingCommand) -> RemotingCommand:
        bench.clock.seconds += 0.00015
        return answer(request, 0)

    bench.handler.rule = slow
    consumer.data_received(frames(1, 2, 3, 4, 5, code=PULL))
    bench.loop.turn_over()
    producer.data_received(frames(9))
    assert opaques_of(pulled) == [1, 2]
    bench.loop.turn_over()
    assert opaques_of(sent) == [9]
    assert opaques_of(pulled) == [1, 2, 3, 4]
    bench.loop.run_until_quiet()
    assert opaques_of(pulled) == [1, 2, 3, 4, 5]


def test_sends_are_answered_before_later_pulls_are_processed() -> None:
    bench = Bench(FakeHandler())
    consumer, _ = bench.connection()
    producer, sent = bench.connection()
    seen: list[tuple[int, list[int], int]] = []

    def observe(request: RemotingCommand) -> RemotingCommand:
        seen.append((request.opaque, opaques_of(sent), bench.handler.turns_ended))
        return answer(request, 0)

    bench.handler.rule = observe
    consumer.data_received(frames(1, 2, code=PULL))
    producer.data_received(frames(8, 9))
    bench.loop.turn_over()
    assert seen == [(8, [], 0), (9, [], 0), (1, [8, 9], 1), (2, [8, 9], 1)]
    assert bench.handler.turns_ended == 2


def test_pulls_get_as_much_of_a_turn_as_sends() -> None:
    bench = Bench(FakeHandler())
    consumer, pulled = bench.connection()
    producer, sent = bench.connection()

    def slow(request: RemotingCommand) -> RemotingCommand:
        bench.clock.seconds += 0.0001
        return answer(request, 0)

    bench.handler.rule = slow
    producer.data_received(frames(*range(100, 106)))
    consumer.data_received(frames(*range(10), code=PULL))
    bench.loop.turn_over()
    assert len(opaques_of(sent)) == len(opaques_of(pulled)) == 6


@pytest.mark.parametrize(
    "outcome",
    [
        lambda request: answer(request, 0),
        lambda request: "deferred",
        lambda request: 1 / 0,
    ],
)
def test_a_oneway_request_is_never_answered(outcome: Callable[[RemotingCommand], Any]) -> None:
    bench = Bench(FakeHandler(outcome), capacity=2)
    connection, transport = bench.connection(refused=frozenset({PULL}))
    connection.data_received(frames(1, 2, 3, flag=ONEWAY_FLAG))
    connection.data_received(frames(4, code=PULL, flag=ONEWAY_FLAG))
    bench.loop.run_until_quiet()
    for _, reply in bench.deferred:
        reply(RemotingCommand(0))
    bench.loop.run_until_quiet()
    assert bench.handler.processed == [1, 2]
    assert transport.taken == b""


def test_none_is_no_answer() -> None:
    bench = Bench(FakeHandler(lambda request: None))
    connection, transport = bench.connection()
    connection.data_received(frames(1))
    bench.loop.run_until_quiet()
    assert bench.handler.processed == [1]
    assert transport.taken == b""


@pytest.mark.parametrize(
    ("error", "code", "remark"),
    [
        (ValueError("no such thing"), 1, "builtins.ValueError: no such thing"),
        (RemoteProtocolError(16, "not allowed"), 16, "not allowed"),
    ],
)
def test_an_exception_becomes_an_answer_and_the_connection_stays(
    error: Exception, code: int, remark: str
) -> None:
    def rule(request: RemotingCommand) -> RemotingCommand:
        if request.opaque == 1:
            raise error
        return answer(request, 0)

    bench = Bench(FakeHandler(rule))
    connection, transport = bench.connection()
    connection.data_received(frames(1, 2))
    bench.loop.run_until_quiet()
    first, second = transport.answers()
    assert (first.opaque, first.code, first.remark) == (1, code, remark)
    assert (second.opaque, second.code) == (2, 0)
    assert not connection.closed
    assert bench.turn.statistics().failures_count == 1


def test_over_the_capacity_says_overload_with_the_measured_wait() -> None:
    bench = Bench(FakeHandler(), capacity=2)
    connection, transport = bench.connection()
    bench.lag.due_seconds = bench.clock() - 0.125  # the loop was away for 125 ms
    connection.data_received(frames(1, 2, 3))
    bench.loop.run_until_quiet()
    by_opaque = {one.opaque: one for one in transport.answers()}
    assert [by_opaque[opaque].code for opaque in (1, 2, 3)] == [0, 0, ResponseCode.SYSTEM_BUSY]
    assert by_opaque[3].remark == (
        "[OVERLOAD]system busy, start flow control for a while, "
        "period in queue: 125ms, size of queue: 2"
    )


def test_a_request_that_waited_too_long_is_refused_and_not_processed() -> None:
    bench = Bench(FakeHandler())
    connection, transport = bench.connection()
    connection.data_received(frames(1))
    bench.pass_time(0.1)
    connection.data_received(frames(2))
    bench.pass_time(0.15)
    bench.loop.run_until_quiet()
    assert bench.handler.processed == [2]
    by_opaque = {one.opaque: one for one in transport.answers()}
    assert by_opaque[1].code == ResponseCode.SYSTEM_BUSY
    assert by_opaque[1].remark == (
        "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, "
        "period in queue: 250ms, size of queue: 1"
    )


def test_the_lag_of_the_loop_counts_as_waiting() -> None:
    bench = Bench(FakeHandler())
    connection, transport = bench.connection()
    bench.lag.due_seconds = bench.clock() - 0.5
    connection.data_received(frames(1) + frames(2, code=PULL))
    bench.loop.run_until_quiet()
    assert bench.handler.processed == [2]
    assert "period in queue: 500ms" in (transport.answers()[0].remark or "")


def test_a_port_refuses_codes_that_it_does_not_serve() -> None:
    bench = Bench(FakeHandler())
    connection, transport = bench.connection(refused=frozenset({PULL}))
    connection.data_received(frames(1, code=PULL) + frames(2))
    bench.loop.run_until_quiet()
    refused, served = transport.answers()
    assert (refused.opaque, refused.code) == (1, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    assert refused.remark == " request type 11 not supported"
    assert (served.opaque, served.code) == (2, 0)


def test_a_deferred_request_is_answered_later_and_once() -> None:
    bench = Bench(FakeHandler(lambda request: "until flushed"))
    connection, transport = bench.connection()
    connection.data_received(frames(1))
    bench.loop.run_until_quiet()
    assert transport.taken == b""
    ((outcome, reply),) = bench.deferred
    assert outcome == "until flushed"
    reply(answer(RemotingCommand(SEND, 1), 0))
    assert transport.taken == b""
    bench.loop.run_until_quiet()
    assert opaques_of(transport) == [1]
    with pytest.raises(AssertionError):
        reply(answer(RemotingCommand(SEND, 1), 0))


def test_a_deferred_answer_after_the_connection_is_gone_is_dropped() -> None:
    bench = Bench(FakeHandler(lambda request: "until flushed"))
    connection, transport = bench.connection()
    connection.data_received(frames(1))
    bench.loop.run_until_quiet()
    transport.abort()
    bench.deferred[0][1](answer(RemotingCommand(SEND, 1), 0))
    bench.loop.run_until_quiet()
    assert transport.taken == b""
    assert bench.turn.statistics().answers_dropped_count == 1
    assert bench.handler.closed == [connection.id]


def test_a_closed_channel_is_reported_after_its_last_request() -> None:
    bench = Bench(FakeHandler())
    connection, transport = bench.connection()
    calls: list[str] = []

    def rule(request: RemotingCommand) -> None:
        calls.append(f"request {request.opaque}")
        bench.clock.seconds += 1

    bench.handler.rule = rule
    bench.handler.channel_closed = lambda channel, now_ms: calls.append("closed")  # type: ignore[method-assign]
    connection.data_received(frames(1, 2, code=PULL))
    transport.close()
    bench.loop.run_until_quiet()
    assert calls == ["request 1", "request 2", "closed"]


def test_closed_channels_are_reported_for_as_long_as_a_turn_may_take() -> None:
    bench = Bench(FakeHandler())
    bench.handler.channel_closed = lambda *_: bench.clock.spend(0.001)  # type: ignore[method-assign]
    for connection in [bench.connection()[0] for _ in range(5)]:
        bench.turn.channel_closed(connection)
    bench.loop.run_until_quiet()
    assert bench.turn.statistics().turns_count == 3


def test_a_push_leaves_with_the_turn_and_not_after_the_end() -> None:
    bench = Bench(FakeHandler())
    connection, transport = bench.connection()
    assert bench.turn.push(connection, RemotingCommand(40, 5))
    assert transport.taken == b""
    bench.loop.run_until_quiet()
    assert [(one.code, one.opaque) for one in transport.answers()] == [(40, 5)]
    transport.abort()
    assert not bench.turn.push(connection, RemotingCommand(40, 6))


def test_responses_without_a_request_are_counted_and_dropped() -> None:
    bench = Bench(FakeHandler())
    connection, _ = bench.connection()
    connection.data_received(frames(1, flag=RESPONSE_FLAG))
    bench.loop.run_until_quiet()
    assert bench.handler.processed == []
    assert connection.peer.unsolicited_count == 1


def test_an_answer_that_cannot_be_written_becomes_code_1() -> None:
    bench = Bench(FakeHandler(lambda request: answer(request, 0, ext_fields={"k": "v"}, body=b"")))
    connection, transport = bench.connection()

    def rule(request: RemotingCommand) -> RemotingCommand:
        response = answer(request, 0)
        response.opaque = request.opaque
        response.ext_fields = {"key": object()}  # type: ignore[dict-item]
        return response

    bench.handler.rule = rule
    connection.data_received(frames(7))
    bench.loop.run_until_quiet()
    (only,) = transport.answers()
    assert (only.opaque, only.code) == (7, ResponseCode.SYSTEM_ERROR)


def test_a_crowded_lane_stops_the_reading_until_half_is_done() -> None:
    bench = Bench(FakeHandler(), crowded=4)
    connection, transport = bench.connection()

    def slow(request: RemotingCommand) -> RemotingCommand:
        bench.clock.seconds += 0.002
        bench.lag.expect_probe(bench.clock())
        return answer(request, 0)

    bench.handler.rule = slow
    connection.data_received(frames(1, 2, 3, 4))
    assert not transport.reading
    bench.loop.turn_over()
    assert not transport.reading
    bench.loop.turn_over()
    assert transport.reading
    bench.loop.run_until_quiet()
    assert opaques_of(transport) == [1, 2, 3, 4]


def test_statistics_count_bytes_of_both_ways() -> None:
    bench = Bench(FakeHandler())
    connection, transport = bench.connection()
    data = frames(1, 2, 3)
    connection.data_received(data)
    bench.loop.run_until_quiet()
    statistics = bench.turn.statistics()
    assert statistics.received_bytes == len(data)
    assert statistics.written_bytes == len(transport.taken)
    assert (statistics.requests_count, statistics.answers_count) == (3, 3)


@pytest.mark.parametrize("deferred", [False, True])
@pytest.mark.parametrize(("code", "polls"), [(SEND, True), (PULL, False)])
def test_the_loop_stays_awake_after_responses_except_to_pulls(
    code: int, polls: bool, deferred: bool
) -> None:
    rule = (lambda _: "deferred") if deferred else (lambda request: answer(request, 0))
    bench = Bench(FakeHandler(rule), poll_seconds=0.0002)
    connection, transport = bench.connection()
    for opaque in (1, 2):
        connection.data_received(frames(opaque, code=code))
        bench.loop.turn_over()
        for _, reply in bench.deferred:
            reply(RemotingCommand(0, opaque, RESPONSE_FLAG))
            bench.loop.turn_over()
        bench.deferred.clear()
    assert opaques_of(transport) == [1, 2]
    assert bool(bench.loop.ready) is polls
    bench.pass_time(0.001)
    bench.loop.turn_over()
    assert not bench.loop.ready


def test_long_work_goes_on_in_steps_beside_other_requests() -> None:
    bench = Bench(FakeHandler())
    bench.handler.rule = lambda request: (
        work_of(10, answer(request, 0), bench.clock) if request.opaque < 3 else answer(request, 0)
    )
    connection, transport = bench.connection()
    connection.data_received(frames(1, 2))
    for number in range(3, 6):
        connection.data_received(frames(number))
        began = bench.clock.seconds
        bench.loop.turn_over()
        assert bench.clock.seconds - began < 0.0025
        assert opaques_of(transport) == list(range(3, number + 1))
    bench.loop.run_until_quiet()
    assert opaques_of(transport) == [3, 4, 5, 1, 2]


def test_large_bodies_wait_unparsed_for_those_that_are_under_way() -> None:
    begun: list[int] = []

    def parse(opaque: int) -> Steps[Any]:
        begun.append(opaque)
        return (yield from work_of(10, answer(RemotingCommand(SEND, opaque), 0), bench.clock))

    bench = Bench(FakeHandler())
    bench.handler.rule = lambda request: parse(request.opaque)
    connection, transport = bench.connection()
    large, small = bytes(driver.LARGE_BODY_BYTES), b""
    for opaque, body in enumerate((large, large, large, large, small), 1):
        connection.data_received(encode_frame(RemotingCommand(SEND, opaque, body=body)))
    bench.loop.turn_over()
    assert set(begun) <= {1, 2, 5}
    bench.loop.run_until_quiet()
    assert opaques_of(transport) == [5, 1, 2, 3, 4]


def test_the_handler_hears_of_a_closed_connection_after_its_last_step() -> None:
    bench = Bench(FakeHandler())
    steps = work_of(10, None, bench.clock)
    bench.handler.rule = lambda request: steps
    connection, transport = bench.connection()
    connection.data_received(frames(1))
    bench.loop.turn_over()
    transport.abort()
    assert bench.handler.closed == []
    bench.loop.run_until_quiet()
    assert bench.handler.closed == [connection.id]
    assert list(steps) == [], "it is over"


def test_steps_that_raise_are_answered_like_a_request_and_may_defer() -> None:
    raised: list[weakref.ref[RemoteProtocolError]] = []

    def raises() -> Steps[Any]:
        yield
        made = [RemoteProtocolError(ResponseCode.MESSAGE_ILLEGAL, "why")]
        raised.append(weakref.ref(made[0]))
        raise made.pop()

    bench = Bench(FakeHandler())
    made = {1: raises(), 2: work_of(2, "later", bench.clock), 3: work_of(0, "at once", bench.clock)}
    bench.handler.rule = lambda request: made[request.opaque]
    connection, transport = bench.connection()
    with no_collections():
        connection.data_received(frames(1, 2, 3))
        bench.loop.run_until_quiet()
        assert raised[0]() is None, "it is in a cycle with the request's body"
    assert [(one.opaque, one.code) for one in transport.answers()] == [(1, 13)]
    assert [outcome for outcome, _ in bench.deferred] == ["at once", "later"]


def test_too_much_long_work_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "NEW_TASKS_MAX", 1)
    bench = Bench(FakeHandler())
    bench.handler.rule = lambda request: work_of(5, answer(request, 0), bench.clock)
    connection, transport = bench.connection()
    connection.data_received(frames(1, 2))
    bench.loop.run_until_quiet()
    assert [(one.opaque, one.code) for one in transport.answers()] == [(2, 2), (1, 0)]


def test_a_request_that_takes_a_whole_turn_lets_the_other_lanes_go_first() -> None:
    bench = Bench(FakeHandler())

    def rule(request: RemotingCommand) -> RemotingCommand:
        bench.clock.seconds += 0.01 if request.code == SEND else 0.0
        return answer(request, 0)

    bench.handler.rule = rule
    connection, _ = bench.connection()
    connection.data_received(frames(1, 2, 3) + frames(4, code=PULL))
    bench.loop.run_until_quiet()
    assert bench.handler.processed == [1, 4, 2, 3]
