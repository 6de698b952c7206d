"""Turn: one turn of the event loop, from requests in lanes to one write for each connection.

Connections call ``deliver`` for each chunk they decoded. That asks for one ``run``, which happens
after every readable socket was read, so what arrived together is processed together:

    1. refuse what waited too long
    2. take requests in the lanes' order and process them, until none is left or the budget is
       spent; of lanes that yield (pulls) for as long as the others took, or ``YIELD_SECONDS``,
       after 3 and 4 were done for the others
    3. handler.end_of_turn(): pending appends are written, once for all of them
    4. encode the answers and write each connection once
    5. if requests are left, ask for another run behind the reads of the next iteration

Invariants:
    - no answer of a request reaches a socket before ``end_of_turn`` returned after it; if that
      raised, every answer of the turn is code 1.
    - a one-way request is never answered, whatever became of it.

Source: org.apache.rocketmq.remoting.netty.NettyRemotingAbstract#processRequestCommand (4.9.3).
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from wakelog.network import refusals
from wakelog.network.busy_poll import BusyPoll
from wakelog.network.connection import Connection
from wakelog.network.handler import AnswerError, Handler, OnDeferred
from wakelog.network.lanes import Lanes, Offer, Waiting
from wakelog.network.limits import ServerLimits
from wakelog.network.loop_lag import LoopLag
from wakelog.protocol.command import ONEWAY_FLAG, RemotingCommand
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.telemetry.logs import LineBudget, Log, logger

YIELD_SECONDS = 0.0002
"""One or two pulls of 32 messages: a send that comes meanwhile waits for no more than these,
however many a consumer that catches up has under way. One that came before waits for none."""


class TurnStatistics(msgspec.Struct, frozen=True):
    """Counts since the start."""

    turns_count: int
    requests_count: int
    answers_count: int
    failures_count: int
    answers_dropped_count: int
    received_bytes: int
    written_bytes: int
    busy_seconds: float
    longest_seconds: float


class PendingReply:
    """The Reply of one deferred request: it can be given once."""

    __slots__ = ("_connection", "_request", "_turn")

    def __init__(self, turn: "Turn", connection: Connection, request: RemotingCommand) -> None:
        self._turn: Turn | None = turn
        self._connection = connection
        self._request = request

    def __call__(self, response: RemotingCommand | None) -> None:
        """Send the answer; None ends the request without one."""
        turn, self._turn = self._turn, None
        if response is None or self._request.flag & ONEWAY_FLAG:
            return
        assert turn is not None, "a deferred request was answered twice"
        turn.reply(self._connection, self._request, response)


class Turn:
    """The part of a server that runs requests; it owns no socket and no timer."""

    def __init__(
        self,
        handler: Handler,
        lanes: Lanes[Connection],
        *,
        loop_lag: LoopLag,
        limits: ServerLimits,
        on_deferred: OnDeferred,
        answer_error: AnswerError = refusals.failed,
        call_soon: Callable[[Callable[[], None]], Any],
        clock_seconds: Callable[[], float] = time.monotonic,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """Run nothing until a connection delivers; ``call_soon`` puts ``run`` behind the reads."""
        self._handler = handler
        self._lanes = lanes
        self._loop_lag = loop_lag
        self._budget_seconds = limits.turn_budget_seconds
        self._on_deferred = on_deferred
        self._answer_error = answer_error
        self._call_soon = call_soon
        self._clock_seconds = clock_seconds
        self._busy_poll = BusyPoll(
            limits.poll_seconds, call_soon=call_soon, clock_seconds=clock_seconds
        )
        self._wall_ms = wall_ms
        self._log = logger(Log.REMOTING)
        self._line_budget = LineBudget()
        self._scheduled = False
        self._is_replying = False
        self._has_answered = False
        self._answers: list[tuple[Connection, RemotingCommand]] = []
        self._unflushed: list[Connection] = []
        self._closed: list[Connection] = []
        self._turns_count = 0
        self._requests_count = 0
        self._answers_count = 0
        self._failures_count = 0
        self._dropped_count = 0
        self._received_bytes = 0
        self._written_bytes = 0
        self._busy_seconds = 0.0
        self._longest_seconds = 0.0

    @property
    def is_scheduled(self) -> bool:
        """Whether a run is asked for."""
        return self._scheduled

    def schedule(self) -> None:
        """Ask for a run, if none is asked for yet."""
        if not self._scheduled:
            self._scheduled = True
            self._call_soon(self.run)

    def deliver(
        self, connection: Connection, commands: Sequence[RemotingCommand], size_bytes: int
    ) -> None:
        """Put what one chunk held into the lanes; ``size_bytes`` is what was received for it."""
        now_seconds = self._clock_seconds()
        since_seconds = now_seconds - self._loop_lag.behind_seconds(now_seconds)
        self._received_bytes += size_bytes
        share_bytes = size_bytes // len(commands)
        offer = self._lanes.offer
        refused_codes = connection.refused_codes
        for command in commands:
            if command.code in refused_codes:
                self._answer(connection, command, refusals.unsupported(command))
            else:
                outcome = offer(Waiting(connection, command, since_seconds, share_bytes))
                if outcome is Offer.REFUSED:
                    self._refuse(connection, command, now_seconds - since_seconds)
                    continue
                connection.waiting_count += 1
                if outcome is Offer.CROWDED:
                    connection.pause_for_lane()
        self.schedule()

    def _refuse(
        self, connection: Connection, request: RemotingCommand, waited_seconds: float
    ) -> None:
        refusal = refusals.overloaded(
            request,
            waited_ms=int(waited_seconds * 1000),
            waiting_count=self._lanes.depth(request.code),
        )
        self._answer(connection, request, refusal)

    def channel_closed(self, connection: Connection) -> None:
        """Tell the handler of a closed connection once its last request is processed."""
        if not connection.waiting_count:
            self._closed.append(connection)
            self.schedule()

    def run(self) -> None:
        """Do one turn."""
        self._scheduled = False
        taken_before = self._requests_count
        started_seconds = self._clock_seconds()
        now_ms = self._wall_ms()
        for expired in self._lanes.expire(started_seconds):
            request = expired.waiting.request
            refusal = refusals.waited_too_long(
                request, waited_ms=expired.waited_ms, waiting_count=expired.left_count
            )
            self._answer(expired.waiting.owner, request, refusal)
            self._release(expired.waiting.owner)
        self._drain(started_seconds, now_ms)
        self._report_closed(now_ms)
        self._end()
        for connection in self._lanes.relieved():
            connection.resume_for_lane()
        self._turns_count += 1
        ended_seconds = self._clock_seconds()
        took_seconds = ended_seconds - started_seconds
        self._busy_seconds += took_seconds
        self._longest_seconds = max(self._longest_seconds, took_seconds)
        if self._lanes.waiting_count or self._closed:
            self.schedule()
        if self._requests_count != taken_before or self._has_answered:
            self._note_turn(started_seconds, ended_seconds)

    def _drain(self, started_seconds: float, now_ms: int) -> None:
        lanes, clock_seconds = self._lanes, self._clock_seconds
        take, process = lanes.take, self._handler.process
        end_seconds = started_seconds + self._budget_seconds
        now_seconds = started_seconds
        first_count = self._requests_count + 1
        yielding = False
        while (waiting := take()) is not None:
            connection = waiting.owner
            request = waiting.request
            self._requests_count += 1
            if lanes.yields and not yielding:
                yielding = True
                others_seconds = now_seconds - started_seconds
                end_seconds = min(end_seconds, now_seconds + max(others_seconds, YIELD_SECONDS))
                if self._requests_count > first_count:
                    self._end()
            try:
                outcome = process(request, connection, now_ms)
                if outcome.__class__ is RemotingCommand:
                    self._answer(connection, request, outcome)
                elif outcome is not None:
                    self._on_deferred(
                        outcome, request, connection, PendingReply(self, connection, request)
                    )
            except Exception as error:
                self._fail(connection, request, error)
            self._release(connection)
            now_seconds = clock_seconds()
            if now_seconds >= end_seconds:
                if yielding:
                    lanes.end_round()
                return

    def _release(self, connection: Connection) -> None:
        connection.waiting_count -= 1
        if connection.closed and not connection.waiting_count:
            self._closed.append(connection)

    def _answer(
        self, connection: Connection, request: RemotingCommand, response: RemotingCommand
    ) -> None:
        """Keep an answer until the end of the turn."""
        if not request.flag & ONEWAY_FLAG:
            self._note_answer(request)
            self._answers.append((connection, response))

    def _note_answer(self, request: RemotingCommand) -> None:
        """Remember that somebody was answered who is likely to be back at once."""
        if not self._lanes.yields_for(request.code):
            self._has_answered = True

    def _fail(self, connection: Connection, request: RemotingCommand, error: Exception) -> None:
        self._failures_count += 1
        self._answer(connection, request, self._answer_error(request, error))
        if not self._line_budget.allows(self._clock_seconds()):
            return
        peers_fault = isinstance(error, RemoteProtocolError)
        self._log.warning(
            "request failed",
            code=request.code,
            peer=connection.address,
            error=repr(error),
            exc_info=None if peers_fault else error,
        )

    def _report_closed(self, now_ms: int) -> None:
        closed, self._closed = self._closed, []
        for connection in closed:
            try:
                self._handler.channel_closed(connection, now_ms)
            except Exception as error:
                self._failures_count += 1
                self._log.error("closing failed", peer=connection.address, exc_info=error)

    def _note_turn(self, began_seconds: float, ended_seconds: float) -> None:
        """Let the loop stay awake for what follows an answer; nothing follows what is pushed."""
        answered, self._has_answered = self._has_answered, False
        self._busy_poll.turn_ended(began_seconds, ended_seconds, answered=answered)

    def _end(self) -> None:
        answers, self._answers = self._answers, []
        try:
            self._handler.end_of_turn()
        except Exception as error:
            self._failures_count += 1
            self._log.error("end of turn failed", answers=len(answers), exc_info=error)
            answers = [(to, self._answer_error(response, error)) for to, response in answers]
        for connection, response in answers:
            self._send(connection, response)
        self._write()

    def _write(self) -> None:
        unflushed, self._unflushed = self._unflushed, []
        for connection in unflushed:
            self._written_bytes += connection.flush()

    def reply(
        self, connection: Connection, request: RemotingCommand, response: RemotingCommand
    ) -> None:
        """Send the answer of a deferred request; what it rests on is its shell's business."""
        self._note_answer(request)
        self._send(connection, response)
        if not (self._scheduled or self._is_replying):
            self._is_replying = True
            self._call_soon(self._write_replies)

    def _write_replies(self) -> None:
        """Write what was answered between turns, together for each connection."""
        self._is_replying = False
        if self._unflushed:
            began_seconds = self._clock_seconds()
            self._write()
            ended_seconds = self._clock_seconds()
            self._busy_seconds += ended_seconds - began_seconds
            self._note_turn(began_seconds, ended_seconds)

    def push(self, connection: Connection, command: RemotingCommand) -> bool:
        """Send a request of ours with this turn's answers; False if the connection is gone."""
        if connection.closed:
            return False
        self._send(connection, command)
        self.schedule()
        return True

    def _send(self, connection: Connection, command: RemotingCommand) -> None:
        if connection.closed:
            self._dropped_count += 1
            return
        try:
            is_first = connection.buffer(command)
        except Exception as error:
            self._failures_count += 1
            self._log.error("answer cannot be encoded", peer=connection.address, exc_info=error)
            is_first = connection.buffer(self._answer_error(command, error))
        self._answers_count += 1
        if is_first:
            self._unflushed.append(connection)

    def statistics(self) -> TurnStatistics:
        """Return the counts as a value."""
        return TurnStatistics(
            turns_count=self._turns_count,
            requests_count=self._requests_count,
            answers_count=self._answers_count,
            failures_count=self._failures_count,
            answers_dropped_count=self._dropped_count,
            received_bytes=self._received_bytes,
            written_bytes=self._written_bytes,
            busy_seconds=self._busy_seconds,
            longest_seconds=self._longest_seconds,
        )
