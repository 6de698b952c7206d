"""Turn: one turn of the event loop, from requests in lanes to one write for each connection.

Connections call ``deliver`` for each chunk. That asks for one ``run``, which comes after every
readable socket was read, so that requests which arrived together are processed together. Decoding
has a budget, too. Beyond it longer chunks are put off: some of them are decoded after each turn, in
the order in which they came.

    1. refuse what waited too long
    2. process requests in the lanes' order, until none is left or the budget is spent; 4 and 5
       come before a large one, and after LARGE_BODIES_BYTES_MAX the turn ends
    3. do some steps of the requests whose work is long (``long_work``)
    4. handler.end_of_turn(): write pending appends, once for all requests
    5. encode the responses and write to each connection once
    6. decode chunks that were put off, for one budget
    7. if anything is left, ask for another run, after the next reads

Requests of lanes that yield (pulls) come after 4 and 5 were done for the others. They get as much
time as the others took, or ``YIELD_SECONDS``. A request that alone took a turn's time ends the
round of its lane: the next one is from another lane. So do large ones, of which most of the time
is their write at the end of the turn.

Invariants:
    - no response reaches a socket before an ``end_of_turn`` that came after its request; if that
      raised, every response of the turn is code 1.
    - a one-way request is never answered, whatever its outcome.
    - ``_put_off`` has the connections with chunks that were put off, but for those that the lanes
      have paused: decoded requests take several times what was sent.

Source: org.apache.rocketmq.remoting.netty.NettyRemotingAbstract#processRequestCommand (4.9.3).
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import GeneratorType
from typing import Any, Final

from wakelog.network import refusals
from wakelog.network.busy_poll import BusyPoll
from wakelog.network.connection import PAUSED_BY_LANE, PAUSED_BY_ORDER, Connection
from wakelog.network.handler import AnswerError, Handler, OnDeferred
from wakelog.network.lanes import LARGE_BYTES, Lanes, Offer, Waiting
from wakelog.network.limits import ServerLimits
from wakelog.network.long_work import Done, LongWork, is_large, take_step
from wakelog.network.loop_lag import LoopLag
from wakelog.protocol.command import ONEWAY_FLAG, RemotingCommand
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.steps import InOrder, Steps
from wakelog.telemetry.logs import LineBudget, Log, logger

# An attribute of an Enum takes 50 ns.
REFUSED, CROWDED, HELD = Offer.REFUSED, Offer.CROWDED, Offer.HELD

PAUSED_BY_LANES = PAUSED_BY_LANE | PAUSED_BY_ORDER

YIELD_SECONDS = 0.0002
"""One or two pulls of 32 messages. A send that arrives meanwhile waits for no more of them, even if
a consumer that catches up has many under way. A send that arrived before waits for none."""


LARGE_BODIES_BYTES_MAX: Final = 1_048_576
"""Of the large requests of one turn. To write so much takes 0.2 to 1.5 ms. One of 300 KB alone in
each turn made four turns where one does: a third of all messages a second."""


@dataclass(slots=True)  # not a Struct: its attributes are set at each turn, three times as fast
class TurnStatistics:
    """Counts since the start."""

    turns_count: int = 0
    requests_count: int = 0
    answers_count: int = 0
    failures_count: int = 0
    answers_dropped_count: int = 0
    received_bytes: int = 0
    written_bytes: int = 0
    busy_seconds: float = 0.0
    longest_seconds: float = 0.0


class PendingReply:
    """The Reply of one deferred request: it can be given once.

    It keeps no request: a thousand sends of 4 MiB may wait for a slave that acknowledges nothing.
    """

    __slots__ = ("_code", "_connection", "_is_oneway", "_turn")

    def __init__(self, turn: "Turn", connection: Connection, request: RemotingCommand) -> None:
        self._turn: Turn | None = turn
        self._connection = connection
        self._code = request.code
        self._is_oneway = request.is_oneway

    def __call__(self, response: RemotingCommand | None) -> None:
        """Send the response; None ends the request without one."""
        turn, self._turn = self._turn, None
        if response is None or self._is_oneway:
            return
        assert turn is not None, "a deferred request was answered twice"
        turn.reply(self._connection, self._code, response)


class Turn:
    """The part of a server that processes requests; it owns no socket and no timer."""

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
        """Do nothing until a connection delivers; ``call_soon`` runs a function after the reads."""
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
        self._long_work = LongWork(clock_seconds)
        self._log = logger(Log.REMOTING)
        self._line_budget = LineBudget()
        self.is_scheduled = False
        self._is_replying = False
        self._has_answered = False
        self._answers: list[tuple[Connection, RemotingCommand]] = []
        self._unflushed: list[Connection] = []
        self._closed: deque[Connection] = deque()
        self._put_off: deque[Connection] = deque()
        self._reads_end_seconds = 0.0
        self._counts = TurnStatistics()

    @property
    def long_work_count(self) -> int:
        """How many requests are between two of their steps, or wait for their first."""
        return len(self._long_work)

    def schedule(self) -> None:
        """Ask for a run, if none is scheduled yet."""
        if not self.is_scheduled:
            self.is_scheduled = True
            self._call_soon(self.run)

    def deliver(
        self, connection: Connection, requests: Sequence[RemotingCommand], size_bytes: int
    ) -> None:
        """Put the requests of one chunk of ``size_bytes`` into the lanes."""
        now_seconds = self._clock_seconds()
        since_seconds = now_seconds - self._loop_lag.note_read(now_seconds)
        if connection.put_off_seconds:
            since_seconds = min(since_seconds, connection.put_off_seconds)
        self._counts.received_bytes += size_bytes
        share_bytes = size_bytes // len(requests)
        offer = self._lanes.offer
        refused_codes = connection.refused_codes
        for request in requests:
            if request.code in refused_codes:
                self._answer(connection, request, refusals.unsupported(request))
                continue
            outcome = offer(Waiting(connection, request, since_seconds, share_bytes))
            if outcome is REFUSED:
                refusal = refusals.overloaded(
                    request,
                    waited_ms=int((now_seconds - since_seconds) * 1000),
                    waiting_count=self._lanes.depth(request.code),
                )
                self._answer(connection, request, refusal)
                continue
            connection.waiting_count += 1
            if outcome is CROWDED:
                connection.pause_reading(PAUSED_BY_LANE)
            elif outcome is HELD:
                connection.pause_reading(PAUSED_BY_ORDER)
        self.schedule()

    def puts_off(self, connection: Connection) -> bool:
        """Return whether reads have had their share, so that this connection waits with a chunk.

        The share is time, from the first longer chunk after a turn. It has what the kernel copies,
        and chunks of large frames, which complete no request.
        """
        now_seconds = self._clock_seconds()
        if not self._reads_end_seconds:
            self._reads_end_seconds = now_seconds + self._budget_seconds
            self.schedule()
        if now_seconds < self._reads_end_seconds:
            return False
        if not connection.is_paused(PAUSED_BY_LANES):
            self._put_off.append(connection)
        return True

    def _read_on(self) -> None:
        end_seconds = self._clock_seconds() + self._budget_seconds
        while self._put_off and self._clock_seconds() < end_seconds:
            connection = self._put_off.popleft()
            if connection.read_on() and not connection.is_paused(PAUSED_BY_LANES):
                self._put_off.append(connection)

    def _resume(self, connection: Connection, by: int) -> None:
        """Read a connection again that the lanes had paused, and what it has put off."""
        was_paused = connection.is_paused(PAUSED_BY_LANES)
        connection.resume_reading(by)
        if was_paused and connection.put_off_seconds and not connection.is_paused(PAUSED_BY_LANES):
            self._put_off.append(connection)
            self.schedule()

    def channel_closed(self, connection: Connection) -> None:
        """Report a closed connection to the handler, after its last request."""
        if not connection.waiting_count:
            self._closed.append(connection)
            self.schedule()

    def run(self) -> None:
        """Do one turn."""
        self.is_scheduled = False
        self._reads_end_seconds = 0.0
        counts = self._counts
        began_seconds = self._clock_seconds()
        now_ms = self._wall_ms()
        for expired in self._lanes.expire(began_seconds):
            request = expired.waiting.request
            refusal = refusals.waited_too_long(
                request, waited_ms=expired.waited_ms, waiting_count=expired.left_count
            )
            self._answer(expired.waiting.owner, request, refusal)
            self._release(expired.waiting.owner)
        processed_count = self._drain(began_seconds, now_ms)
        counts.requests_count += processed_count
        if self._long_work.under_way:
            self._long_work.run()
        if self._closed:
            self._report_closed(now_ms)
        self._end()
        for connection in self._lanes.relieved():
            self._resume(connection, PAUSED_BY_LANE)
        counts.turns_count += 1
        ended_seconds = self._clock_seconds()
        took_seconds = ended_seconds - began_seconds
        counts.busy_seconds += took_seconds
        counts.longest_seconds = max(counts.longest_seconds, took_seconds)
        if self._put_off:
            self._read_on()
        if self._lanes.waiting_count or self._closed or self._put_off or self._long_work.under_way:
            self.schedule()
        if processed_count or self._has_answered:
            self._note_turn(began_seconds, ended_seconds)

    def _drain(self, began_seconds: float, now_ms: int) -> int:
        """Process requests until none is left or the budget is spent; return how many."""
        lanes, clock_seconds = self._lanes, self._clock_seconds
        take, process = lanes.take, self._handler.process
        end_seconds = began_seconds + self._budget_seconds
        now_seconds = began_seconds
        processed_count = large_bytes = 0
        yielding = False
        while (waiting := take()) is not None:
            connection = waiting.owner
            request = waiting.request
            if lanes.yields and not yielding:
                yielding = True
                others_seconds = now_seconds - began_seconds
                end_seconds = min(end_seconds, now_seconds + max(others_seconds, YIELD_SECONDS))
                if processed_count:
                    self._end()
            if len(request.body) >= LARGE_BYTES:
                self._end()  # else its write would keep the answers to the others
                large_bytes += len(request.body)
            processed_count += 1
            try:
                outcome = process(request, connection, now_ms)
                if outcome.__class__ is RemotingCommand:
                    self._answer(connection, request, outcome)
                elif outcome is not None:
                    self._defer(connection, request, outcome)
            except Exception as error:
                self._fail(connection, request, error)
            self._release(connection)
            before_seconds, now_seconds = now_seconds, clock_seconds()
            has_large = large_bytes >= LARGE_BODIES_BYTES_MAX
            if has_large or now_seconds >= end_seconds:
                if has_large or yielding or now_seconds - before_seconds >= self._budget_seconds:
                    lanes.end_round()
                break
        return processed_count

    def _defer(self, connection: Connection, request: RemotingCommand, outcome: Any) -> None:
        """Hand a deferred outcome to its owner, or do the first step of long work."""
        if outcome.__class__ is InOrder:
            self._defer_in_order(connection, request, outcome)
            return
        if outcome.__class__ is not GeneratorType:
            self._on_deferred(outcome, request, PendingReply(self, connection, request))
            return

        def done_later(result: Any, error: Exception | None) -> None:
            self._end_steps(connection, request, result, error)
            self._release(connection)

        done = partial(self._end_steps, connection, request)
        self._begin_steps(connection, request, outcome, done, done_later, lambda: connection.closed)

    def _defer_in_order(
        self, connection: Connection, request: RemotingCommand, work: InOrder
    ) -> None:
        """Do the first step of long work; if more are left, hold later requests until the last."""

        def done(result: Any, error: Exception | None) -> None:
            if error is None:
                try:
                    result = work.finish(result, self._wall_ms())
                except Exception as raised:
                    error = raised
            self._end_steps(connection, request, result, error)

        def done_later(result: Any, error: Exception | None) -> None:
            done(result, error)
            self._lanes.release(connection, request.code, self._clock_seconds())
            self._resume(connection, PAUSED_BY_ORDER)
            self._release(connection)

        if self._begin_steps(connection, request, work.steps, done, done_later, lambda: False):
            self._lanes.hold(connection, request.code)

    def _begin_steps(
        self,
        connection: Connection,
        request: RemotingCommand,
        steps: Steps[Any],
        done: Done,
        done_later: Done,
        is_over: Callable[[], bool],
    ) -> bool:
        """Do the first step; True if more follow, and `done_later` has their result."""
        body_bytes = len(request.body)
        if not is_large(body_bytes) and take_step(steps, done):
            return False
        is_begun = self._long_work.add(steps, done_later, is_over, body_bytes=body_bytes)
        if is_begun:
            connection.waiting_count += 1  # the handler hears of its end after the last step
        else:
            self._answer(connection, request, self._too_long(request))
        return is_begun

    def _end_steps(
        self,
        connection: Connection,
        request: RemotingCommand,
        result: Any,
        error: Exception | None,
    ) -> None:
        """Answer a request whose steps are done, or defer it again."""
        if error is not None:
            self._fail(connection, request, error)
            return
        try:
            if result.__class__ is RemotingCommand:
                self._answer(connection, request, result)
            elif result is not None:
                self._defer(connection, request, result)
        except Exception as raised:
            self._fail(connection, request, raised)

    def _too_long(self, request: RemotingCommand) -> RemotingCommand:
        return refusals.overloaded(request, waited_ms=0, waiting_count=len(self._long_work))

    def run_steps(
        self, steps: Steps[Any], request: RemotingCommand, done: Callable[[Any], None]
    ) -> None:
        """Do long work of a request that was deferred before, and give `done` its outcome."""

        def settle(result: Any, error: Exception | None) -> None:
            done(result if error is None else self._answer_error(request, error))

        body_bytes = len(request.body)
        if not is_large(body_bytes) and take_step(steps, settle):
            return
        if not self._long_work.add(steps, settle, lambda: False, body_bytes=body_bytes):
            done(self._too_long(request))
        self.schedule()

    def _release(self, connection: Connection) -> None:
        connection.waiting_count -= 1
        if connection.closed and not connection.waiting_count:
            self._closed.append(connection)

    def _answer(
        self, connection: Connection, request: RemotingCommand, response: RemotingCommand
    ) -> None:
        """Keep a response until the end of the turn."""
        if not request.flag & ONEWAY_FLAG:
            self._note_answer(request.code)
            self._answers.append((connection, response))

    def _note_answer(self, code: int) -> None:
        """Remember an answer whose client probably sends its next request at once."""
        if not self._lanes.yields_for(code):
            self._has_answered = True

    def _fail(self, connection: Connection, request: RemotingCommand, error: Exception) -> None:
        self._counts.failures_count += 1
        self._answer(connection, request, self._answer_error(request, error))
        if not self._line_budget.allows(self._clock_seconds()):
            return
        is_peers_fault = isinstance(error, RemoteProtocolError)
        self._log.warning(
            "request failed",
            code=request.code,
            peer=connection.address,
            error=repr(error),
            exc_info=None if is_peers_fault else error,
        )

    def _report_closed(self, now_ms: int) -> None:
        """Report closed connections until the budget is spent: thousands may close at once."""
        end_seconds = self._clock_seconds() + self._budget_seconds
        while self._closed:
            connection = self._closed.popleft()
            try:
                if self._handler.channel_closed(connection, now_ms):
                    self._closed.append(connection)
            except Exception as error:
                self._counts.failures_count += 1
                self._log.error("closing failed", peer=connection.address, exc_info=error)
            if self._clock_seconds() >= end_seconds:
                break

    def _note_turn(self, began_seconds: float, ended_seconds: float) -> None:
        """Let the loop stay awake after a response; after a push no request follows."""
        answered, self._has_answered = self._has_answered, False
        self._busy_poll.turn_ended(began_seconds, ended_seconds, answered=answered)

    def _end(self) -> None:
        answers, self._answers = self._answers, []
        try:
            self._handler.end_of_turn()
        except Exception as error:
            self._counts.failures_count += 1
            self._log.error("end of turn failed", answers=len(answers), exc_info=error)
            answers = [(to, self._answer_error(response, error)) for to, response in answers]
        for connection, response in answers:
            self._send(connection, response)
        self._write()

    def _write(self) -> None:
        unflushed, self._unflushed = self._unflushed, []
        for connection in unflushed:
            self._counts.written_bytes += connection.flush()

    def reply(self, connection: Connection, code: int, response: RemotingCommand) -> None:
        """Send the response to a deferred request: the shell has waited for what it needs."""
        self._note_answer(code)
        self._send(connection, response)
        if not (self.is_scheduled or self._is_replying):
            self._is_replying = True
            self._call_soon(self._write_replies)

    def _write_replies(self) -> None:
        """Write the replies given between turns, together for each connection."""
        self._is_replying = False
        if self._unflushed:
            began_seconds = self._clock_seconds()
            self._write()
            ended_seconds = self._clock_seconds()
            self._counts.busy_seconds += ended_seconds - began_seconds
            self._note_turn(began_seconds, ended_seconds)

    def push(self, connection: Connection, command: RemotingCommand) -> bool:
        """Send a request of the server with this turn's responses; False if it is closed."""
        if connection.closed:
            return False
        self._send(connection, command)
        self.schedule()
        return True

    def _send(self, connection: Connection, command: RemotingCommand) -> None:
        if connection.closed:
            self._counts.answers_dropped_count += 1
            return
        try:
            is_first = connection.buffer(command)
        except Exception as error:
            self._counts.failures_count += 1
            self._log.error("answer cannot be encoded", peer=connection.address, exc_info=error)
            is_first = connection.buffer(self._answer_error(command, error))
        self._counts.answers_count += 1
        if is_first:
            self._unflushed.append(connection)

    def statistics(self) -> TurnStatistics:
        """Return a copy of the counts."""
        return replace(self._counts)
