"""Requests: carries the requests of a broker from the server's turn to their responses.

It decides nothing. A request goes from the server to the core. A request that the core defers stays
here until the watermark, the service or the pool responds. Instructions of the core are executed.

    a turn   process ..., then end_of_turn: write what was put, publish how far the log reaches

Everything but the work of `RunInPool` runs on the loop's thread.

Invariants:
    - Reput has a filter before it may read a message that was put after its registration.
    - no response leaves before `write_pending` has returned after its put: the server's turn
      ensures that, and every other put calls `end_of_turn` before its response.

Source: org.apache.rocketmq.broker.BrokerController.registerProcessor (4.9.3).
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from functools import partial
from typing import Any

from wakelog.actors.broker.filter_file import FilterPublisher
from wakelog.actors.broker.log_progress import LogProgress
from wakelog.actors.broker.name_servers import NameServers
from wakelog.actors.broker.request_times import RequestTimes
from wakelog.actors.broker.work_pool import WorkPool
from wakelog.actors.services.broker_services import BrokerServices
from wakelog.actors.services.pull_hold import PullHoldClient
from wakelog.actors.services.reput import ReputClient
from wakelog.actors.services.schedule import ScheduleClient
from wakelog.actors.table_files import TableFiles
from wakelog.actors.transport.clocks import wall_ms
from wakelog.broker.broker import Broker
from wakelog.broker.decision import (
    AskClient,
    AwaitDispatch,
    AwaitFlush,
    AwaitSave,
    CloseChannel,
    Continue,
    Deferred,
    ForgetHolds,
    HoldPull,
    Instruction,
    Outcome,
    Persist,
    Push,
    ReadAhead,
    RegisterBroker,
    RemoveQueues,
    RunInPool,
    UseSettings,
    WriteLine,
)
from wakelog.broker.error_response import error_response
from wakelog.broker.lane_table import broker_lanes
from wakelog.broker.read_after_write import CHECK_SECONDS
from wakelog.network.background import run_once
from wakelog.network.errors import RemotingError, TooManyCalls
from wakelog.network.handler import Channel, Reply
from wakelog.network.long_work import STEPS_SECONDS
from wakelog.network.server import Server
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.steps import InOrder
from wakelog.storage.errors import NotWriteable
from wakelog.telemetry.logs import LineBudget, Log, logger

QUESTIONS_MAX = 4_096
"""Questions to clients that may wait for a response; 4.9.3 blocks a thread for each."""

QUESTIONS_BYTES_MAX = 67_108_864
"""Of all these questions. One may have a MiB, and more with a message to consume."""


class Requests:
    """The Handler of one broker's server."""

    def __init__(
        self,
        services: BrokerServices,
        pool: WorkPool,
        tables: TableFiles,
        *,
        set_timer: Callable[[], None],
    ) -> None:
        """Carry nothing until `begin`.

        set_timer: called when the earliest deadline of a response or a notice may have changed.
        """
        self._loop = asyncio.get_running_loop()
        self._services = services
        self._pool = pool
        self._tables = tables
        self._set_timer = set_timer
        self.times = RequestTimes()
        self._notes: list[HoldPull] = []
        self._woken: deque[deque[int]] = deque()
        self._is_waking = False
        self._has_failed = False
        self._parked_count = 0
        self._asked_bytes = 0
        self._removing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._line_budget = LineBudget()
        self._store_errors = logger(Log.STORE_ERROR)

    def begin(
        self,
        server: Server,
        broker: Broker,
        progress: LogProgress,
        name_servers: NameServers,
        *,
        published: FilterPublisher | None,
    ) -> None:
        """Carry requests from `server` to `broker` from now on.

        published: where Reput reads the filters of groups; None if it calculates no bitmaps.
        """
        self._published = published
        self._server = server
        self._broker = broker
        self.channel_closed = broker.channel_closed
        self._store = broker.state.store
        self._progress = progress
        self._name_servers = name_servers
        self._reput = self._services.get(ReputClient)
        self._pull_hold = self._services.get(PullHoldClient)
        self._schedule = self._services.find(ScheduleClient)

    def process(self, request: RemotingCommand, channel: Channel, now_ms: int) -> Outcome:
        """Hand a request to the core, with the latest progress of dispatch."""
        self._reput.read_watermark()
        began = self.times.began()
        outcome = self._broker.process(request, channel, now_ms)
        if type(outcome) is AwaitDispatch:
            self._reput.dispatch_now()
        else:
            self.times.processed(request, began)
        return outcome

    def end_of_turn(self) -> None:
        """Write what was put, publish how far the log reaches, carry out the instructions.

        Raises: NotWriteable, once; nothing put in this turn may then be acknowledged. Later turns
            put nothing, and their responses are about earlier writes.
        """
        if self._published is not None:
            self._published.publish()
        try:
            if not self._has_failed:
                appended = self._store.write_pending()
                has_put = appended != self._progress.appended
                self.times.end_turn(has_put=has_put)
                if has_put:
                    self._progress.note_appended(appended)
                    parked_count = self._broker.state.delayed.parked_count
                    if parked_count != self._parked_count and self._schedule is not None:
                        self._parked_count = parked_count
                        self._schedule.note_delayed(appended)
        except NotWriteable as error:
            self._has_failed = True
            # At their deadline they would get code 10, which means that the message is stored.
            self._progress.fail_unwritten(str(error))
            raise
        finally:
            if self._notes:
                notes, self._notes = self._notes, []
                self._pull_hold.hold(notes)
                self._reput.dispatch_now()
            if self._broker.state.instructions:
                for instruction in self._broker.take_instructions():
                    self._do(instruction)
            if self._broker.state.notices.is_pending:
                self._set_timer()

    def end_of_turn_logged(self) -> None:
        """End work that was no turn of the server; log the failure that a turn would report."""
        try:
            self.end_of_turn()
        except NotWriteable as error:
            self._store_errors.error("log not writeable", cause=str(error))

    def wake(self, hold_ids: Sequence[int]) -> None:
        """Run held pulls again and send their responses, some at a time: thousands may wait.

        Those of each call take turns, so that a crowd at one queue does not hold up another's.
        """
        if hold_ids:
            self._woken.append(deque(hold_ids))
        if not self._is_waking:
            self._wake_some()

    def _wake_some(self) -> None:
        began, is_enough, woken_count = self.times.began(), self._share_over(), 0
        now_ms = wall_ms()
        try:
            while self._woken:
                woken_count += 1
                self._broker.wake((self._next_woken(),), now_ms)
                if is_enough():
                    break
            self.times.woken(began, woken_count)
            self.end_of_turn_logged()
        finally:
            self._is_waking = bool(self._woken)
            if self._is_waking:
                self._loop.call_soon(self._wake_some)

    def _next_woken(self) -> int:
        together = self._woken[0]
        hold_id = together.popleft()
        if together:
            self._woken.rotate(-1)
        else:
            self._woken.popleft()
        return hold_id

    @staticmethod
    def _share_over() -> Callable[[], bool]:
        """Return what tells whether others of the loop should have their turn."""
        end_seconds = time.monotonic() + STEPS_SECONDS
        return lambda: time.monotonic() >= end_seconds

    def statistics(self) -> dict[str, Any]:
        """Return how long requests took, and how many waited for dispatch."""
        return {
            "durations": self.times.statistics(),
            "read_after_write": {"waited_count": self._broker.read_after_write.waited_count},
        }

    def defer(self, outcome: Deferred, request: RemotingCommand, reply: Reply) -> None:
        """Keep a request until its response is ready."""
        assert not isinstance(outcome, InOrder), "the server's turn does it"
        match outcome:
            case AwaitFlush():
                if self._progress.await_flush(outcome, reply):
                    self._set_timer()
            case AwaitDispatch():
                self._await_dispatch(outcome, reply)
            case HoldPull():
                self._notes.append(outcome)
            case RunInPool():
                began = self.times.clock_seconds()
                settle = partial(self._settle, request, reply, began)
                self._pool.run(request, outcome, settle, self._server.run_steps)
            case AskClient():
                self._begin_task(self._ask(outcome, request, reply), request, reply)
            case RemoveQueues():
                self._begin_task(self._remove(outcome, request, reply), request, reply)
            case AwaitSave():
                self._save(outcome, request, reply)
            case Generator():
                began = self.times.clock_seconds()
                settle = partial(self._settle, request, reply, began)
                self._server.run_steps(outcome, request, settle)
            case _:
                # AwaitRegistration: the instruction to register comes with it.
                answer = partial(reply, outcome.response)
                self._name_servers.after_registration(answer, seconds_max=outcome.seconds_max)

    def _begin_task(
        self, work: Coroutine[Any, Any, None], request: RemotingCommand, reply: Reply
    ) -> None:
        """Begin what answers a request; if it fails, the error is the answer."""
        began = self.times.clock_seconds()
        task = run_once(
            work,
            lambda error: self._settle(request, reply, began, error_response(request, error)),
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _remove(self, wanted: RemoveQueues, request: RemotingCommand, reply: Reply) -> None:
        """Have queues removed, and make the outcome."""
        began = self.times.clock_seconds()
        # One after the other: between two of thousands Reput has time for new messages.
        async with self._removing:
            why_not = await self._reput.remove_queues(wanted.removal)
        self._settle(request, reply, began, wanted.finish(why_not, wall_ms()))

    def _save(self, wanted: AwaitSave, request: RemotingCommand, reply: Reply) -> None:
        """Save the tables that changed, and make the outcome when all are saved."""
        began, tables, broker = self.times.clock_seconds(), self._tables, self._broker
        results: list[tuple[Persist, BaseException | None]] = []

        def note(save: Persist, failure: BaseException | None) -> None:
            results.append((save, failure))
            if len(results) < len(wanted.saves):
                return
            asked = [(each, error) for each, error in results if each.undo is not None]
            why_not = next((str(error) for _, error in asked if error is not None), "")
            for each, error in asked:
                if why_not and error is None and each.undo is not None:
                    each.undo()  # this one was saved, and has to be again
                    tables.save_soon(broker, each.name)
            try:
                outcome = wanted.finish(why_not, wall_ms())
            except Exception as error:
                outcome = error_response(request, error)
            self._settle(request, reply, began, outcome)

        for save in wanted.saves:
            tables.save_soon(broker, save.name, partial(note, save), undo=save.undo)

    async def _ask(self, question: AskClient, request: RemotingCommand, reply: Reply) -> None:
        """Send a request to a client, and make the outcome of its response."""
        response: RemotingCommand | RemotingError
        channel_id, began = question.channel_id, self.times.clock_seconds()
        size_bytes = question.command.size_bytes
        self._asked_bytes += size_bytes
        try:
            if len(self._tasks) > QUESTIONS_MAX or self._asked_bytes > QUESTIONS_BYTES_MAX:
                why = f"{len(self._tasks)} questions of {self._asked_bytes} bytes wait"
                raise TooManyCalls(f"channel {channel_id}", why)
            response = await self._server.request(
                channel_id, question.command, timeout_seconds=question.timeout_seconds
            )
        except RemotingError as error:
            response = error
        finally:
            self._asked_bytes -= size_bytes
        self._settle(request, reply, began, question.finish(response, wall_ms()))

    def _await_dispatch(self, deferred: AwaitDispatch, reply: Reply) -> None:
        gate = self._broker.read_after_write
        if not gate:
            self._loop.call_later(CHECK_SECONDS, self._check_dispatch)
        gate.add(deferred, partial(self._resume, deferred, reply))

    def _check_dispatch(self) -> None:
        """Resume requests that wait for dispatch; no notification comes when the queues grow."""
        self._reput.read_watermark()
        gate = self._broker.read_after_write
        gate.resume_due(wall_ms(), self._share_over())
        if gate:
            self._loop.call_later(CHECK_SECONDS, self._check_dispatch)

    def _resume(self, deferred: AwaitDispatch, reply: Reply) -> None:
        request = deferred.request.command
        began = self.times.began()
        try:
            outcome = self._broker.resume(deferred, wall_ms())
        except Exception as error:
            outcome = error_response(request, error)
        self._settle(request, reply, began, outcome)

    def _settle(
        self, request: RemotingCommand, reply: Reply, began: float, outcome: Outcome
    ) -> None:
        """Give the response to a request that was resumed or ran in the pool, or defer it again."""
        self.times.processed(request, began)
        try:
            self.end_of_turn()
        except NotWriteable as error:
            outcome = error_response(request, error)
        if outcome is None or isinstance(outcome, RemotingCommand):
            reply(outcome)
            return
        self.defer(outcome, request, reply)
        self._server.schedule_turn()

    def _do(self, instruction: Instruction) -> None:
        match instruction:
            case Push(channel_id, command):
                self._server.push(channel_id, command)
            case Continue(channel_id, request, deferred):
                reply = partial(self._reply_to, channel_id)
                self.defer(deferred, request, reply)
                self._server.schedule_turn()
            case Persist(name):
                self._tables.save_soon(self._broker, name)
            case RegisterBroker(topics):
                self._name_servers.register_soon(topics)
            case ReadAhead(physical_offset, length_bytes):
                self._pool.try_to(partial(self._store.read_ahead, physical_offset, length_bytes))
            case CloseChannel(channel_id):
                self._server.close_channel(channel_id)
            case ForgetHolds(hold_ids):
                self._pull_hold.forget(hold_ids)
            case UseSettings():
                self._server.change_waits(broker_lanes(self._broker.state.config))
                self._store.use_settings()
                self._progress.use_settings()
                self._services.use_settings()
            case WriteLine():
                self._write_line(instruction)

    def _write_line(self, line: WriteLine) -> None:
        if self._line_budget.allows(time.monotonic()):
            logger(Log[line.appender.name]).info(line.event, **line.values)

    def _reply_to(self, channel_id: int, response: RemotingCommand | None) -> None:
        if response is not None:
            self._server.push(channel_id, response)
