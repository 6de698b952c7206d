"""A turn with its lanes, a clock and a loop that a test drives by hand."""

from collections.abc import Collection, Sequence
from typing import Any

from tests.network.fakes import (
    FakeClock,
    FakeHandler,
    FakeLoop,
    FakeTransport,
    connect,
)
from wakelog.network import refusals
from wakelog.network.activity import CloseReason
from wakelog.network.connection import Connection
from wakelog.network.handler import AnswerError, AnswerLoneSend, Reply
from wakelog.network.lanes import Lanes, LaneSpec
from wakelog.network.limits import ServerLimits
from wakelog.network.loop_lag import LoopLag
from wakelog.network.turn import Turn
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.frame import encode_frame
from wakelog.protocol.steps import Steps

SEND, PULL = 10, 11


class Bench:
    """A turn with its lanes, and the owner that its connections report to."""

    def __init__(
        self,
        handler: FakeHandler,
        *,
        capacity: int = 100,
        crowded: int = 1000,
        answer_error: AnswerError = refusals.failed,
        poll_seconds: float = 0.0,
        in_order_codes: Collection[int] = (),
        answer_lone_send: AnswerLoneSend | None = None,
    ) -> None:
        self.clock = FakeClock()
        self.loop = FakeLoop()
        self.handler = handler
        self.limits = ServerLimits(turn_budget_seconds=0.002, poll_seconds=poll_seconds)
        self.deferred: list[tuple[Any, Reply]] = []
        self.asked: list[float] = []
        self.lag = LoopLag(lambda: None)
        self.lag.on_read(self.clock())
        self.lanes: Lanes[Connection] = Lanes(
            [
                LaneSpec(
                    name="send",
                    capacity_count=capacity,
                    weight=32,
                    crowded_count=crowded,
                    wait_seconds_max=0.2,
                ),
                LaneSpec(
                    name="pull", capacity_count=100, weight=32, crowded_count=1000, yields=True
                ),
            ],
            lane_of_code={SEND: "send"},
            default_lane="pull",
            bytes_max=1_000_000,
        )
        self.turn = Turn(
            handler,
            self.lanes,
            loop_lag=self.lag,
            limits=self.limits,
            park=self.keep,
            executors={},
            in_order_codes=in_order_codes,
            answer_error=answer_error,
            process_run=None,
            answer_lone_send=answer_lone_send,
            call_soon=self.loop.call_soon,
            call_later=self.loop.call_later,
            clock_seconds=self.clock,
            wall_ms=self.clock.wall_ms,
        )
        self.send, self.defers = self.turn.push, self.turn.defers
        self._answers_alone = self.turn.answers_alone if answer_lone_send else None

    def keep(self, outcome: Any, request: RemotingCommand, reply: Reply) -> None:
        self.deferred.append((outcome, reply))

    def opened(self, connection: Connection) -> CloseReason | None:
        return None

    def deliver(
        self, connection: Connection, requests: Sequence[RemotingCommand], size_bytes: int
    ) -> None:
        self.turn.deliver(connection, requests, size_bytes)

    def closed(self, connection: Connection, reason: CloseReason, detail: str) -> None:
        self.turn.channel_closed(connection)

    def on_held(self, size_bytes: int) -> None:
        pass

    def connection(self, refused: frozenset[int] = frozenset()) -> tuple[Connection, FakeTransport]:
        made = Connection(
            self,
            self.limits,
            refused_codes=refused,
            clock_seconds=self.clock,
            answers_alone=self._answers_alone,
        )
        return made, connect(made)

    def pass_time(self, seconds: float) -> None:
        self.clock.seconds += seconds
        self.lag.expect_probe(self.clock())


def frames(*opaques: int, code: int = SEND, flag: int = 0) -> bytes:
    return b"".join(encode_frame(RemotingCommand(code, opaque, flag)) for opaque in opaques)


def opaques_of(transport: FakeTransport) -> list[int]:
    return [command.opaque for command in transport.answers()]


def work_of(pieces: int, result: Any, clock: FakeClock, seconds: float = 0.0004) -> Steps[Any]:
    for _ in range(pieces):
        clock.seconds += seconds
        yield
    return result
