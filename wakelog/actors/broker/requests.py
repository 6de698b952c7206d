"""Requests: carries the requests of a broker from the server's turn to their responses.

It decides nothing. A request goes from the server to the core. It begins the effects that the work
of a request yields, keeps what waits for a watermark, and executes the core's instructions.

    a turn   process ..., then write what was put; after the responses end_of_turn: publish how far
             the log reaches, carry out the instructions

Everything but the work of `InPool` runs on the loop's thread.

Invariants:
    - Reput has a filter before it may read a message that was put after its registration.
    - no response leaves before `write_pending` has returned after its put: the server's turn and
      `answer_lone_send` ensure that, and every other put calls `end_of_turn` before its response.

Source: org.apache.rocketmq.broker.BrokerController.registerProcessor (4.9.3).
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from types import GeneratorType
from typing import Any

from wakelog.actors.broker.filter_file import FilterPublisher
from wakelog.actors.broker.filter_places import FilterPlaces
from wakelog.actors.broker.log_progress import LogProgress
from wakelog.actors.broker.name_servers import NameServers
from wakelog.actors.broker.request_times import PULL_MESSAGE, RequestTimes
from wakelog.actors.broker.work_pool import WorkPool
from wakelog.actors.services.broker_services import BrokerServices
from wakelog.actors.services.pull_hold import PullHoldClient
from wakelog.actors.services.reput import ReputClient
from wakelog.actors.services.schedule import ScheduleClient
from wakelog.actors.table_files import TableFiles
from wakelog.actors.transport.clocks import wall_ms
from wakelog.broker.broker import Broker
from wakelog.broker.decision import (
    AwaitFlush,
    CloseChannel,
    Continue,
    ForgetHolds,
    HoldPull,
    Instruction,
    Outcome,
    Persist,
    Push,
    ReadAhead,
    RegisterBroker,
    UseSettings,
    WriteLine,
)
from wakelog.broker.effects import (
    Ask,
    Dispatched,
    FilterPlace,
    InPool,
    Registered,
    Removed,
    Saved,
    Work,
)
from wakelog.broker.error_response import error_response
from wakelog.broker.lane_table import broker_lanes
from wakelog.broker.processors.send_run import store_run
from wakelog.broker.processors.table import IN_ORDER_CODES, PROCESSORS, READS_QUEUES
from wakelog.broker.read_after_write import CHECK_SECONDS
from wakelog.compiled.library import CHOICE
from wakelog.network.background import run_once
from wakelog.network.busy_poll import POLL_SECONDS
from wakelog.network.connection import Connection
from wakelog.network.driver import CROWDED, STEPS_SECONDS, Task
from wakelog.network.errors import TooManyCalls
from wakelog.network.handler import Channel, Reply
from wakelog.network.lanes import Lanes
from wakelog.network.limits import ServerLimits
from wakelog.network.server import Server
from wakelog.network.time_share import run_for_a_share
from wakelog.network.tls import ServerContext
from wakelog.protocol import frame
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.run_responses import RunResponses
from wakelog.storage.errors import NotWriteable
from wakelog.storage.file_system import process_descriptors_max
from wakelog.telemetry.logs import LineBudget, Log, logger

QUESTIONS_MAX = 4_096
"""Questions to clients that may wait for a response; 4.9.3 blocks a thread for each."""

QUESTIONS_BYTES_MAX = 67_108_864
"""Of all these questions. One may have a MiB, and more with a message to consume."""


class Requests:
    """The Handler of one broker's server."""

    def __init__(
        self,
        broker: Broker,
        services: BrokerServices,
        progress: LogProgress,
        name_servers: NameServers,
        tables: TableFiles,
        pool: WorkPool,
        tls: ServerContext,
        *,
        published: FilterPublisher | None,
        set_timer: Callable[[], None],
    ) -> None:
        """Make the server; it listens nowhere yet.

        published: where Reput reads the filters of groups; None if it calculates no bitmaps.
        set_timer: called when the earliest deadline of a response or a notice may have changed.
        """
        self._loop = asyncio.get_running_loop()
        self._broker = broker
        self.channel_closed = broker.channel_closed
        self._store = broker.state.store
        self._services = services
        self._reput = services.get(ReputClient)
        self._pull_hold = services.get(PullHoldClient)
        self._schedule = services.find(ScheduleClient)
        self._progress = progress
        self._name_servers = name_servers
        self._tables = tables
        self._pool = pool
        self._published = published
        self._set_timer = set_timer
        self.times = RequestTimes()
        self._put_seconds: float | None = None
        self._notes: list[HoldPull] = []
        self._woken: deque[deque[int]] = deque()
        self._is_waking = False
        self._is_ending_turn = False
        self._has_failed = False
        self._delayed_count = 0
        self._asked_count = 0
        self._asked_bytes = 0
        self._removing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._line_budget = LineBudget()
        self._store_errors = logger(Log.STORE_ERROR)
        config = broker.state.config
        limits = ServerLimits(
            idle_seconds_max=float(config.server_channel_max_idle_time_seconds),
            backlog=config.server_socket_backlog,
            poll_seconds=POLL_SECONDS,
        )
        self.lanes = Lanes[Connection](
            broker_lanes(config),
            lane_of_code={code: row.lane for code, row in PROCESSORS.items()},
            default_lane="admin",
            bytes_max=limits.lane_bytes_max,
        )
        self.server = self._make_server(limits, tls)

    def _make_server(self, limits: ServerLimits, tls: ServerContext) -> Server:
        return Server(
            self,
            self.lanes,
            limits=limits,
            descriptors_max=process_descriptors_max(),
            park=self.park,
            executors={
                InPool: self._in_pool,
                FilterPlace: FilterPlaces().take,
                Ask: self._ask,
                Removed: self._remove,
                Saved: self._save,
                Registered: self._await_registration,
                Dispatched: self._await_dispatch,
            },
            in_order_codes=IN_ORDER_CODES,
            answer_error=error_response,
            tls=tls,
            body_bytes_max=self._broker.body_bytes_max,
            process_run=self._broker.process_run,
            answer_lone_send=self.answer_lone_send if CHOICE.is_compiled else None,
            wall_ms=wall_ms,
        )

    def process(self, request: RemotingCommand, channel: Channel, now_ms: int) -> Outcome | Work:
        """Hand a request to the core; with the latest progress of dispatch if it reads queues."""
        if request.code in READS_QUEUES:
            self._reput.read_watermark()
        began_seconds = self.times.clock_seconds()
        outcome = self._broker.process(request, channel, now_ms)
        if request.code == PULL_MESSAGE and outcome.__class__ is not GeneratorType:
            self.times.processed(request, began_seconds)
        return outcome

    def answer_lone_send(
        self, chunk: bytes | memoryview, channel: Channel, began_seconds: float
    ) -> bytes | None:
        """Store and write a plain send that came alone (AnswerLoneSend).

        What is refused here, or fails before it is stored, is left to a turn, which answers it.

        Raises: anything, once the send is stored.
        """
        state = self._broker.state
        if state.puts_may_wait or state.access is not None or self._has_failed:
            return None
        if int.from_bytes(chunk[:4], "big") + 4 != len(chunk):  # more than one frame, or less
            return None
        found = frame.read_run(memoryview(chunk), 0, 1)
        if found is None:
            return None
        run = found[0]
        try:
            responses = store_run(state, run, channel, wall_ms())
        except Exception:
            if run.taken_count:
                raise
        if not run.taken_count:
            return None
        try:
            self._store.write_pending()
        except NotWriteable as error:
            self._write_failed(error)
            self._store_errors.error("log not writeable", cause=str(error))
            state.uncounted_runs.clear()  # its turn counts it
            return None
        self._put_seconds = self.times.clock_seconds() - began_seconds
        return responses.encode() if isinstance(responses, RunResponses) else b""

    def write(self, began_seconds: float | None = None) -> None:
        """Write what was put.

        began_seconds: of the turn that has put it, None if none has.

        Raises: NotWriteable, once; nothing put in this turn may then be acknowledged. Later turns
            put nothing, and their responses are about earlier writes.
        """
        if self._has_failed:
            return
        try:
            appended = self._store.write_pending()
        except NotWriteable as error:
            self._write_failed(error)
            raise
        if began_seconds is not None and appended != self._progress.appended:
            self._put_seconds = self.times.clock_seconds() - began_seconds

    def _write_failed(self, error: NotWriteable) -> None:
        self._has_failed = True
        # At their deadline they would get code 10, which means that the message is stored.
        self._progress.fail_unwritten(str(error))

    def end_of_turn(self) -> None:
        """Write what was put, publish how far the log reaches, carry out the instructions.

        Raises: NotWriteable as `write` does.
        """
        self._is_ending_turn = True
        try:
            self.write()
            self._broker.end_of_turn()
            if self._published is not None:
                self._published.publish()
            if self._put_seconds is not None:
                self.times.put(self._put_seconds)
                self._put_seconds = None
            appended = self._store.log.appended_offset
            if appended != self._progress.appended and not self._has_failed:
                self._progress.on_appended(appended)
                delayed_count = self._broker.state.delayed.delayed_count
                if delayed_count != self._delayed_count and self._schedule is not None:
                    self._delayed_count = delayed_count
                    self._schedule.on_delayed(appended)
        finally:
            self._is_ending_turn = False
            if self._notes:
                self._hold()
            if self._broker.state.instructions:
                for instruction in self._broker.take_instructions():
                    self._do(instruction)
            notices = self._broker.state.notices
            if notices.waiting or notices.leaving:
                self._set_timer()

    def _hold(self) -> None:
        """Give the notes of held pulls to PullHold; Reput has what these pulls did not see."""
        notes, self._notes = self._notes, []
        self._pull_hold.hold(notes)
        if not self._store.recent.shows_all(self._progress.readable):
            self._pull_hold.send_kept()
            self._reput.dispatch_now()

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

    def wake_for_arrivals(self, readable: int) -> bool:
        """Wake the pulls that wait for what may be read now; return whether Reput has to.

        readable: how far consumers may see.
        """
        hold_ids = self._broker.woken_by_arrivals(readable)
        if hold_ids is None:
            self._pull_hold.send_kept()
        elif self._is_ending_turn:  # its responses go first
            self._loop.call_soon(self.wake, hold_ids)
        else:
            self.wake(hold_ids)
        return hold_ids is None

    def _wake_some(self) -> None:
        began_seconds, now_ms = self.times.clock_seconds(), wall_ms()
        woken: list[int] = []
        try:
            run_for_a_share(partial(self._wake_next, now_ms, woken), STEPS_SECONDS)
            self.times.woken(began_seconds, len(woken))
            self.end_of_turn_logged()
        finally:
            self._is_waking = bool(self._woken)
            if self._is_waking:
                self._loop.call_soon(self._wake_some)
        self.server.run_turn()

    def _wake_next(self, now_ms: int, woken: list[int]) -> bool:
        """Run a held pull again, of another call than the last one; True if there are more."""
        together = self._woken[0]
        hold_id = together.popleft()
        if together:
            self._woken.rotate(-1)
        else:
            self._woken.popleft()
        woken.append(hold_id)
        self._broker.wake((hold_id,), now_ms)
        return bool(self._woken)

    def publish_filters(self) -> None:
        """Write the filters of groups for Reput, if they have changed."""
        if self._published is not None:
            self._published.publish()

    def retry_filters(self) -> None:
        """Write them again if that has failed."""
        if self._published is not None:
            self._published.retry()

    def remove_filters(self) -> None:
        """Remove their file: Reput is released."""
        if self._published is not None:
            self._published.remove()

    def statistics(self) -> dict[str, Any]:
        """Return how long requests took, and how many waited for dispatch."""
        return {
            "durations": self.times.statistics(),
            "read_after_write": {"waited_count": self._broker.read_after_write.waited_count},
        }

    def park(self, outcome: AwaitFlush | HoldPull, request: RemotingCommand, reply: Reply) -> None:
        """Keep a response until its watermarks are reached, or note a pull that is held."""
        if isinstance(outcome, HoldPull):
            self._notes.append(outcome)
        elif self._progress.await_flush(outcome, reply):
            self._set_timer()

    def _in_pool(self, effect: InPool, task: Task) -> None:
        if task.at_end is None:  # else it counts since its first work in the pool
            began_seconds = self.times.clock_seconds()
            task.at_end = partial(self.times.processed, task.request, began_seconds)
        self._pool.run(effect, task)

    def _begin(self, work: Coroutine[Any, Any, Any], task: Task) -> None:
        """Begin work on the loop; the task gets what it returns or raises."""

        async def do() -> None:
            task.resume(await work)

        begun = run_once(do(), lambda error: task.resume(error=error))
        self._tasks.add(begun)
        begun.add_done_callback(self._tasks.discard)

    def _remove(self, effect: Removed, task: Task) -> None:
        if self.server.is_crowded:
            task.resume(CROWDED)
            return

        async def remove() -> str:
            # One after the other: between two of thousands Reput has time for new messages.
            async with self._removing:
                return await self._reput.remove_queues(effect.removal)

        self._begin(remove(), task)

    def _save(self, effect: Saved, task: Task) -> None:
        """Save the tables that changed; the task goes on when all are saved."""
        if self.server.is_crowded:
            self._save_nothing(effect, task)
            return
        results: list[tuple[Persist, BaseException | None]] = []

        def note(save: Persist, failure: BaseException | None) -> None:
            results.append((save, failure))
            if len(results) < len(effect.saves):
                return
            asked = [(each, error) for each, error in results if each.undo is not None]
            why_not = next((str(error) for _, error in asked if error is not None), "")
            for each, error in asked:
                if why_not and error is None and each.undo is not None:
                    each.undo()  # this one was saved, and has to be again
                    self._tables.save_soon(each.name)
            task.resume(why_not)

        for save in effect.saves:
            self._tables.save_soon(save.name, partial(note, save), undo=save.undo)

    def _save_nothing(self, effect: Saved, task: Task) -> None:
        """Undo what was asked for; the rest is saved without this task."""
        was_asked = False
        for save in reversed(effect.saves):
            if save.undo is not None:
                was_asked = True
                save.undo()
            self._tables.save_soon(save.name)
        task.resume(CROWDED if was_asked else "")

    def _ask(self, effect: Ask, task: Task) -> None:
        """Send a request to a client. Raises: TooManyCalls."""
        size_bytes = effect.command.size_bytes
        count, asked_bytes = self._asked_count + 1, self._asked_bytes + size_bytes
        if count > QUESTIONS_MAX or asked_bytes > QUESTIONS_BYTES_MAX:
            why = f"with it {count} questions of {asked_bytes} bytes would wait"
            raise TooManyCalls(f"channel {effect.channel_id}", why)
        self._asked_count, self._asked_bytes = count, asked_bytes

        async def ask() -> RemotingCommand:
            try:
                return await self.server.request(
                    effect.channel_id, effect.command, timeout_seconds=effect.timeout_seconds
                )
            finally:
                self._asked_count -= 1
                self._asked_bytes -= size_bytes

        self._begin(ask(), task)

    def _await_registration(self, effect: Registered, task: Task) -> None:
        if self.server.is_crowded:
            task.resume()
            return
        # The instruction to register comes with it.
        self._name_servers.after_registration(task.resume, seconds_max=effect.seconds_max)

    def _await_dispatch(self, effect: Dispatched, task: Task) -> None:
        """Resume a task at a position of the queues. Raises: RemoteProtocolError."""
        if self.server.is_crowded:
            raise RemoteProtocolError(ResponseCode.SYSTEM_BUSY, f"[OVERLOAD]system busy, {CROWDED}")
        self._reput.dispatch_now()
        gate = self._broker.read_after_write
        if not gate:
            self._loop.call_later(CHECK_SECONDS, self._check_dispatch)
        gate.add(effect, partial(self._resume, task))

    def _resume(self, task: Task) -> None:
        task.at_end = partial(self.times.processed, task.request, self.times.clock_seconds())
        task.resume()

    def _check_dispatch(self) -> None:
        """Resume requests that wait for dispatch; no notification comes when the queues grow."""
        self._reput.read_watermark()
        gate = self._broker.read_after_write
        gate.resume_due(wall_ms())
        if gate:
            self._loop.call_later(CHECK_SECONDS, self._check_dispatch)

    def _do(self, instruction: Instruction) -> None:
        match instruction:
            case Push(channel_id, command):
                self.server.push(channel_id, command)
            case Continue(channel_id, request, outcome):
                self.server.carry_on(channel_id, request, outcome)
            case Persist(name):
                self._tables.save_soon(name)
            case RegisterBroker(topics):
                self._name_servers.register_soon(topics)
            case ReadAhead(physical_offset, length_bytes):
                self._pool.try_to(partial(self._store.read_ahead, physical_offset, length_bytes))
            case CloseChannel(channel_id):
                self.server.close_channel(channel_id)
            case ForgetHolds(hold_ids):
                self._pull_hold.forget(hold_ids)
            case UseSettings():
                self.server.change_waits(broker_lanes(self._broker.state.config))
                self._store.use_settings()
                self._progress.use_settings()
                self._services.use_settings()
            case WriteLine():
                self._write_line(instruction)

    def _write_line(self, line: WriteLine) -> None:
        if line.is_kept or self._line_budget.allows(time.monotonic()):
            logger(Log[line.appender.name]).info(line.event, **line.values)
