"""Turn: one turn of the event loop, from requests in lanes to one write for each connection.

Connections call ``deliver`` for each chunk. That asks for one ``run``, which comes after every
readable socket was read, so that requests which arrived together are processed together. Decoding
has a budget, too. Beyond it longer chunks are deferred. Some of them are decoded after each turn,
in the order in which they came.

    1. refuse what waited too long
    2. process requests in the lanes' order, until none is left or the budget is spent; 4 and 5
       come before a large one, and after LARGE_BODIES_BYTES_MAX the turn ends
    3. go on with requests that have paused or whose effects have ended (``driver``)
    4. handler.write(): write pending appends, once for all requests
    5. encode the responses, write to each connection once, and then handler.end_of_turn()
    6. decode chunks that were deferred, for one budget
    7. if anything is left, ask for another run, after the next reads

A plain send that comes alone does not wait for a turn: ``answers_alone``.

Requests of lanes that yield (pulls) come after 4 and 5 were done for the others. They get as much
time as the others took, or ``YIELD_SECONDS``. A request that alone took a turn's time ends the
round of its lane: the next one is from another lane. So do large ones, of which most of the time
is their write at the end of the turn.

Invariants:
    - no response reaches a socket before a ``write`` that came after its request; if that raised,
      every response of the turn is code 1. ``answer_lone_send`` writes before it returns.
    - a one-way request is never answered, whatever its outcome.
    - ``_deferred`` has the connections with chunks that were deferred, but for those that the lanes
      have paused: decoded requests take several times what was sent.

Source: org.apache.rocketmq.remoting.netty.NettyRemotingAbstract#processRequestCommand (4.9.3).
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import GeneratorType
from typing import Any, Final

from wakelog.network import refusals
from wakelog.network.busy_poll import BusyPoll
from wakelog.network.connection import PAUSED_BY_LANE, PAUSED_BY_ORDER, Connection
from wakelog.network.driver import Driver, Executor, PendingReply, Task
from wakelog.network.handler import AnswerError, AnswerLoneSend, Handler, Park, ProcessRun
from wakelog.network.lanes import LARGE_BYTES, InLane, Lanes, Offer
from wakelog.network.limits import ServerLimits
from wakelog.network.loop_lag import LoopLag
from wakelog.network.rests import CallLater, Rests
from wakelog.network.time_share import run_for_a_share
from wakelog.network.turn_statistics import TurnStatistics
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import ONEWAY_FLAG, RemotingCommand
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.run_responses import RunResponses
from wakelog.protocol.send_run import PLAIN_RUN_MESSAGES_MAX, RUN_MESSAGES_MAX, SendRun
from wakelog.telemetry.logs import LineBudget, Log, logger

# An attribute of an Enum takes 50 ns.
REFUSED, CROWDED, HELD = Offer.REFUSED, Offer.CROWDED, Offer.HELD

PAUSED_BY_LANES = PAUSED_BY_LANE | PAUSED_BY_ORDER

YIELD_SECONDS = 0.0002
"""One or two pulls of 32 messages. A send that arrives meanwhile waits for no more of them, even if
a consumer that catches up has many under way. A send that arrived before waits for none."""


EXPIRE_SECONDS: Final = 0.01
"""How often requests are looked for that waited too long, as by 4.9.3's BrokerFastFailure."""

CROWD_SECONDS: Final = 0.00005
"""What comes so soon after a turn has come with its requests: it shares the next one with others.
Nobody sends a request so soon after a response."""

LARGE_BODIES_BYTES_MAX: Final = 1_048_576
"""Of the large requests of one turn. To write so much takes 0.2 to 1.5 ms. One of 300 KB alone in
each turn made four turns where one does: a third of all messages a second."""


class Turn:
    """The part of a server that processes requests; it owns no socket and no timer."""

    def __init__(
        self,
        handler: Handler,
        lanes: Lanes[Connection],
        *,
        loop_lag: LoopLag,
        limits: ServerLimits,
        executors: Mapping[type, Executor],
        in_order_codes: Collection[int],
        park: Park,
        answer_error: AnswerError,
        process_run: ProcessRun | None,
        answer_lone_send: AnswerLoneSend | None,
        call_soon: Callable[[Callable[[], None]], Any],
        call_later: CallLater,
        clock_seconds: Callable[[], float],
        wall_ms: Callable[[], int],
    ) -> None:
        """Do nothing until a connection delivers; ``call_soon`` runs a function after the reads.

        park: keeps an outcome that is neither a response nor work.
        executors: begin the effects of work, by their class.
        process_run: handles the sends of a `SendRun`; connections gather none without it.
        answer_lone_send: needed for `answers_alone`.
        call_later: calls a function after some seconds.
        in_order_codes: later requests of a connection and lane wait while work for these pauses.
        """
        self._handler = handler
        self._lanes = lanes
        self._loop_lag = loop_lag
        self._budget_seconds = limits.turn_budget_seconds
        self._park = park
        self._in_order_codes = in_order_codes
        self._answer_error = answer_error
        self._process_run = process_run
        self._answer_lone_send = answer_lone_send
        self._call_soon = call_soon
        self._clock_seconds = clock_seconds
        self._busy_poll = BusyPoll(
            limits.poll_seconds, call_soon=call_soon, clock_seconds=clock_seconds
        )
        self._wall_ms = wall_ms
        self._driver = Driver(self, executors, clock_seconds, wall_ms)
        self._rests = Rests(call_later)
        self._log = logger(Log.REMOTING)
        self._line_budget = LineBudget()
        self.is_scheduled = False
        self._is_replying = False
        self._has_answered = False
        self._answers: list[tuple[Connection, RemotingCommand]] = []
        self._unflushed: list[Connection] = []
        self._closed: deque[Connection] = deque()
        self._deferred: deque[Connection] = deque()
        self._reads_end_seconds = self._expires_seconds = 0.0
        self._began_seconds = self._ended_seconds = 0.0
        self._counts = TurnStatistics()

    @property
    def unfinished_count(self) -> int:
        """How many requests can go on without an effect, or wait for their first step."""
        return len(self._driver)

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
        since_seconds = now_seconds - self._loop_lag.on_read(now_seconds)
        if connection.deferred_seconds:
            since_seconds = min(since_seconds, connection.deferred_seconds)
        if now_seconds - since_seconds >= EXPIRE_SECONDS:
            self._expires_seconds = 0.0  # it may have waited too long already
        self._counts.received_bytes += size_bytes
        share_bytes = size_bytes // len(requests)
        for request in requests:
            self._offer(connection, request, since_seconds, share_bytes)
        if not self.is_scheduled:
            self.is_scheduled = True
            self._call_soon(self.run)

    def answers_alone(self, connection: Connection, chunk: bytes | memoryview) -> bool:
        """Have a plain send answered that is all of a chunk, if nothing waits; else return False.

        It has a turn of its own, without the way through a lane, and before other sockets are read.
        """
        assert self._answer_lone_send is not None
        if self.is_scheduled:
            return False
        now_seconds = self._clock_seconds()
        if (
            now_seconds - self._ended_seconds < CROWD_SECONDS
            or self._lanes.waiting_count
            or self._lanes.held_count
            or self._unflushed
            or connection.refused_codes
            or self._loop_lag.on_read(now_seconds) >= EXPIRE_SECONDS
        ):
            return False
        frames = self._answer_lone_send(chunk, connection, now_seconds)
        if frames is None:
            return False
        counts, activity = self._counts, connection.activity
        activity.read_seconds = now_seconds
        if frames:
            counts.written_bytes += connection.flush(frames)
            counts.answers_count += 1
            activity.oneway_count = 0
            self._has_answered = True
        else:
            self._rests.after_oneway(connection, len(chunk))
        counts.received_bytes += len(chunk)
        self._lanes.count_taken(RequestCode.SEND_MESSAGE_V2)
        self._after_answers()
        self._end_turn(now_seconds, 1)
        return True

    def _offer(
        self,
        connection: Connection,
        request: RemotingCommand,
        since_seconds: float,
        size_bytes: int,
    ) -> None:
        """Put a request into its lane, or refuse it; of a run that has no room, each by itself."""
        count, code = 1, request.code
        if isinstance(request, SendRun):
            count = request.left_count
            if code in connection.refused_codes or not self._lanes.has_room(code, count):
                for each in _requests(request):
                    self._offer(connection, each, since_seconds, size_bytes // count)
                return
        if code in connection.refused_codes:
            self._answer(connection, request, refusals.unsupported(request))
            return
        outcome = self._lanes.offer(InLane(connection, request, since_seconds, size_bytes, count))
        if outcome is REFUSED:
            refusal = refusals.overloaded(
                request,
                waited_ms=int((self._clock_seconds() - since_seconds) * 1000),
                waiting_count=self._lanes.depth(code),
            )
            self._answer(connection, request, refusal)
            return
        connection.waiting_count += 1
        if outcome is CROWDED:
            connection.pause_reading(PAUSED_BY_LANE)
        elif outcome is HELD:
            connection.pause_reading(PAUSED_BY_ORDER)

    def defers(self, connection: Connection) -> bool:
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
            self._deferred.append(connection)
        return True

    def _resume_decoding(self) -> bool:
        """Decode a chunk that was deferred; True if there are more."""
        connection = self._deferred.popleft()
        if connection.resume_decoding() and not connection.is_paused(PAUSED_BY_LANES):
            self._deferred.append(connection)
        return bool(self._deferred)

    def _resume(self, connection: Connection, by: int) -> None:
        """Read a connection again that the lanes had paused, and what it has deferred."""
        was_paused = connection.is_paused(PAUSED_BY_LANES)
        connection.resume_reading(by)
        if was_paused and connection.deferred_seconds and not connection.is_paused(PAUSED_BY_LANES):
            self._deferred.append(connection)
            self.schedule()

    def channel_closed(self, connection: Connection) -> None:
        """Report a closed connection to the handler, after its last request."""
        if not connection.waiting_count:
            self._closed.append(connection)
            self.schedule()

    def run(self) -> None:
        """Do the turn that is scheduled, if that was not done meanwhile."""
        if not self.is_scheduled:
            return
        self.is_scheduled = False
        self._reads_end_seconds = 0.0
        self._began_seconds = began_seconds = self._clock_seconds()
        now_ms = self._wall_ms()
        if began_seconds >= self._expires_seconds:
            self._expires_seconds = began_seconds + EXPIRE_SECONDS
            self._refuse_expired(began_seconds)
        processed_count = self._drain(began_seconds, now_ms)
        driver = self._driver
        if driver.paused or driver.results:
            driver.run()
        if self._closed:  # thousands may close at once
            report = partial(self._report_closed, now_ms)
            run_for_a_share(report, self._budget_seconds, self._clock_seconds)
        self._end()
        for connection in self._lanes.relieved():
            self._resume(connection, PAUSED_BY_LANE)
        self._end_turn(began_seconds, processed_count)

    def _end_turn(self, began_seconds: float, processed_count: int) -> None:
        """Count a turn, decode what was deferred, and ask for another run if anything is left."""
        counts, driver = self._counts, self._driver
        counts.requests_count += processed_count
        counts.turns_count += 1
        self._ended_seconds = ended_seconds = self._clock_seconds()
        took_seconds = ended_seconds - began_seconds
        counts.busy_seconds += took_seconds
        counts.longest_seconds = max(counts.longest_seconds, took_seconds)
        if self._deferred:
            run_for_a_share(self._resume_decoding, self._budget_seconds, self._clock_seconds)
        has_work = driver.paused or driver.results or self._closed or self._deferred
        if has_work or self._lanes.waiting_count:
            self.schedule()
        if processed_count or self._has_answered:
            self._on_turn(began_seconds, ended_seconds)

    def _refuse_expired(self, now_seconds: float) -> None:
        for expired in self._lanes.expire(now_seconds):
            owner = expired.waiting.owner
            for request in _requests(expired.waiting.request):
                refusal = refusals.waited_too_long(
                    request, waited_ms=expired.waited_ms, waiting_count=expired.left_count
                )
                self._answer(owner, request, refusal)
            self._release(owner)

    def _drain(self, began_seconds: float, now_ms: int) -> int:
        """Process requests until none is left or the budget is spent; return how many."""
        lanes, clock_seconds = self._lanes, self._clock_seconds
        take = lanes.take
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
            size_bytes = request.frames_bytes if isinstance(request, SendRun) else len(request.body)
            if size_bytes >= LARGE_BYTES:
                self._end()  # else its write would keep the answers to the others
                large_bytes += size_bytes
            processed_count += waiting.count
            if isinstance(request, SendRun):
                self._take_run(connection, request, now_ms)
            else:
                self._process(connection, request, now_ms)
            self._release(connection)
            before_seconds, now_seconds = now_seconds, clock_seconds()
            has_large = large_bytes >= LARGE_BODIES_BYTES_MAX
            if has_large or now_seconds >= end_seconds:
                if has_large or yielding or now_seconds - before_seconds >= self._budget_seconds:
                    lanes.end_round()
                break
        return processed_count

    def _process(self, connection: Connection, request: RemotingCommand, now_ms: int) -> None:
        """Hand a request that was taken from its lane to the handler, and keep its answer."""
        if request.flag & ONEWAY_FLAG:
            self._rests.after_oneway(connection, len(request.body))
        else:
            connection.activity.oneway_count = 0
        try:
            outcome = self._handler.process(request, connection, now_ms)
            if outcome.__class__ is not RemotingCommand:
                if outcome is not None:
                    self.carry_on(connection, request, outcome)
            elif not request.flag & ONEWAY_FLAG:
                self._answers.append((connection, outcome))
                self._has_answered = self._has_answered or not self._lanes.yields
        except Exception as error:
            self._fail(connection, request, error)

    def _take_run(self, connection: Connection, run: SendRun, now_ms: int) -> None:
        """Have the sends of a run handled: each is stored, or refused, before the next one."""
        assert self._process_run is not None
        is_plain, has_answer = True, False
        while run.left_count:
            taken_count = run.taken_count
            try:
                outcome = self._process_run(run, connection, now_ms)
                if isinstance(outcome, RunResponses):
                    self._answers.append((connection, outcome))
                    self._has_answered = True
                elif outcome is not None:
                    self._park(outcome, run, PendingReply(self.reply, connection, run))
                has_answer = has_answer or outcome is not None
            except Exception as error:
                for request in run.requests(taken_count, run.taken_count):
                    self._fail(connection, request, error)
            if run.left_count:
                is_plain = False
                self._process(connection, run.next_command(), now_ms)
        # The next run may be longer if this one took as little time as its messages may.
        decoder = connection.peer.decoder
        decoder.run_messages_max = PLAIN_RUN_MESSAGES_MAX if is_plain else RUN_MESSAGES_MAX
        if is_plain and not has_answer:
            self._rests.after_oneway(connection, len(run.chunk))
        else:
            connection.activity.oneway_count = 0

    def carry_on(self, connection: Connection, request: RemotingCommand, outcome: Any) -> None:
        """Carry on a request whose answer is not ready: begin its work, or park its outcome."""
        if outcome.__class__ is GeneratorType:
            is_in_order = request.code in self._in_order_codes
            driver = self._driver
            driver.start(Task(driver, connection, request, outcome, is_in_order=is_in_order))
        else:
            self._park(outcome, request, PendingReply(self.reply, connection, request))

    def task_paused(self, task: Task) -> None:
        """Let the handler hear of the connection's end after the task (TaskOwner)."""
        task.connection.waiting_count += 1
        if task.is_in_order:
            self._lanes.hold(task.connection, task.request.code)

    def task_left(self, task: Task) -> None:
        """Count a task with its connection no more (TaskOwner)."""
        if task.is_in_order:
            self._lanes.release(task.connection, task.request.code, self._clock_seconds())
            self._resume(task.connection, PAUSED_BY_ORDER)
        self._release(task.connection)

    def task_ended(self, task: Task, outcome: Any, error: Exception | None) -> None:
        """Answer a request whose work is done (TaskOwner)."""
        connection, request = task.connection, task.request
        try:
            if error is not None:
                self._fail(connection, request, error)
            elif outcome.__class__ is RemotingCommand:
                self._answer(connection, request, outcome)
            elif outcome is not None:
                self._park(outcome, request, PendingReply(self.reply, connection, request))
        except Exception as raised:
            self._fail(connection, request, raised)

    def task_refused(self, task: Task) -> None:
        """Answer a request that finds too many others under way (TaskOwner)."""
        waiting_count = self._driver.new_count
        refusal = refusals.overloaded(task.request, waited_ms=0, waiting_count=waiting_count)
        self._answer(task.connection, task.request, refusal)

    @property
    def is_crowded(self) -> bool:
        """Whether too many requests wait for effects."""
        return self._driver.is_crowded

    def _release(self, connection: Connection) -> None:
        connection.waiting_count -= 1
        if connection.closed and not connection.waiting_count:
            self._closed.append(connection)

    def _answer(
        self, connection: Connection, request: RemotingCommand, response: RemotingCommand
    ) -> None:
        """Keep a response until the end of the turn."""
        if not request.flag & ONEWAY_FLAG:
            self._on_answer(request.code)
            self._answers.append((connection, response))

    def _on_answer(self, code: int) -> None:
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

    def _report_closed(self, now_ms: int) -> bool:
        """Report a closed connection to the handler; True if there are more."""
        connection = self._closed.popleft()
        try:
            if self._handler.channel_closed(connection, now_ms):
                self._closed.append(connection)
        except Exception as error:
            self._counts.failures_count += 1
            self._log.error("closing failed", peer=connection.address, exc_info=error)
        return bool(self._closed)

    def _on_turn(self, began_seconds: float, ended_seconds: float) -> None:
        """Let the loop stay awake after a response; after a push no request follows."""
        answered, self._has_answered = self._has_answered, False
        self._busy_poll.turn_ended(began_seconds, ended_seconds, answered=answered)

    def _end(self) -> None:
        answers, self._answers = self._answers, []
        try:
            self._handler.write(self._began_seconds)
        except Exception as error:
            self._counts.failures_count += 1
            answers = [
                (to, self._answer_error(each, error))
                for to, response in answers
                for each in _responses(response)
            ]
            self._log.error("write failed", answers=len(answers), exc_info=error)
        for connection, response in answers:
            self._send(connection, response)
        if self._unflushed:
            self._write()
        self._after_answers()
        self._began_seconds = self._clock_seconds()

    def _after_answers(self) -> None:
        """Let the handler do what no answer waits for, and write what it pushes."""
        try:
            self._handler.end_of_turn()
        except Exception as error:
            self._counts.failures_count += 1
            self._log.error("end of turn failed", exc_info=error)
        if self._unflushed:
            self._write()

    def _write(self) -> None:
        unflushed, self._unflushed = self._unflushed, []
        for connection in unflushed:
            self._counts.written_bytes += connection.flush()

    def reply(self, connection: Connection, code: int, response: RemotingCommand) -> None:
        """Send the response to a deferred request: the shell has waited for what it needs."""
        self._on_answer(code)
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
            self._on_turn(began_seconds, ended_seconds)

    def push(self, connection: Connection, command: RemotingCommand) -> bool:
        """Send a request of the server at this turn's end; False if the connection is closed."""
        if connection.closed:
            return False
        self._send(connection, command)
        self.schedule()
        return True

    def _send(self, connection: Connection, command: RemotingCommand) -> None:
        count = command.count if isinstance(command, RunResponses) else 1
        if connection.closed:
            self._counts.answers_dropped_count += count
            return
        try:
            if isinstance(command, RunResponses):
                is_first = connection.buffer_frames(command.encode())
            else:
                is_first = connection.buffer(command)
        except Exception as error:
            if isinstance(command, RunResponses):
                for each in command.commands():
                    self._send(connection, each)
                return
            self._counts.failures_count += 1
            self._log.error("answer cannot be encoded", peer=connection.address, exc_info=error)
            is_first = connection.buffer(self._answer_error(command, error))
        self._counts.answers_count += count
        if is_first:
            self._unflushed.append(connection)

    def statistics(self) -> TurnStatistics:
        """Return a copy of the counts."""
        return replace(self._counts)


def _requests(request: RemotingCommand) -> Iterable[RemotingCommand]:
    """Return each request that one stands for."""
    if not isinstance(request, SendRun):
        return (request,)
    return [request.next_command() for _ in range(request.left_count)]


def _responses(response: RemotingCommand) -> Iterable[RemotingCommand]:
    """Return each response that one stands for."""
    return response.commands() if isinstance(response, RunResponses) else (response,)
