"""Requests: what a broker's requests go through, from the server's turn to their answers.

It carries and does not decide. A request goes from the server to the core; what the core defers is
kept here until the watermark, the neighbour or the pool answers; what the core instructs is done.

    a turn   process ..., then end_of_turn: write what was put, say how far the log reaches

Everything but the work of `RunInPool` runs on the loop's thread.

Invariants:
    - Reput knows a filter before it may read what was put after the filter was registered.
    - no answer leaves before `write_pending` returned after its put: the server's turn sees to
      that, and whatever else puts calls `end_of_turn` before it lets an answer go.

Source: org.apache.rocketmq.broker.BrokerController.registerProcessor (4.9.3).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from wakelog.actors.broker.filter_file import FilterPublisher
from wakelog.actors.broker.log_progress import LogProgress
from wakelog.actors.broker.name_servers import NameServers
from wakelog.actors.broker.queue_looks import LOOK_SECONDS, AwaitDispatch, QueueLooks
from wakelog.actors.broker.request_times import RequestTimes
from wakelog.actors.broker.table_files import TableFiles
from wakelog.actors.broker.work_pool import WorkPool
from wakelog.actors.services.broker_services import BrokerServices
from wakelog.actors.transport.clocks import wall_ms
from wakelog.broker.broker import Broker
from wakelog.broker.decision import (
    AwaitFlush,
    CloseChannel,
    Continue,
    Deferred,
    ForgetHolds,
    HoldPull,
    Instruction,
    Lane,
    Outcome,
    Persist,
    Push,
    ReadAhead,
    RegisterBroker,
    RunInPool,
    WriteLine,
)
from wakelog.broker.error_answer import error_answer
from wakelog.broker.processors import PROCESSORS
from wakelog.network.handler import Channel, Reply
from wakelog.network.server import Server
from wakelog.protocol.command import RemotingCommand
from wakelog.storage.errors import NotWriteable
from wakelog.storage.message_store import MessageStore
from wakelog.telemetry.logs import LineBudget, Log, logger

SENDS = frozenset(code for code, row in PROCESSORS.items() if row.lane is Lane.SEND)
"""Whoever sends does not look at queues."""


class Requests:
    """The Handler of one broker's server."""

    def __init__(
        self,
        links: BrokerServices,
        pool: WorkPool,
        tables: TableFiles,
        name_servers: NameServers,
        *,
        set_timer: Callable[[], None],
    ) -> None:
        """Carry nothing until `begin`.

        set_timer: told when somebody waits who may give up earlier than all before.
        """
        self._loop = asyncio.get_running_loop()
        self._links = links
        self._pool = pool
        self._tables = tables
        self._name_servers = name_servers
        self._set_timer = set_timer
        self._times = RequestTimes()
        self._looks = QueueLooks()
        self._notes: list[HoldPull] = []
        self._has_failed = False
        self._parked_count = 0
        self._line_budget = LineBudget()
        self._store_errors = logger(Log.STORE_ERROR)

    def begin(
        self,
        server: Server,
        broker: Broker,
        store: MessageStore,
        progress: LogProgress,
        *,
        published: FilterPublisher | None,
    ) -> None:
        """Take requests of `server` to `broker` from now on.

        published: where Reput reads the filters of groups, if it is to calculate bitmaps.
        """
        self._published = published
        self._server = server
        self._broker = broker
        self._store = store
        self._progress = progress

    def process(
        self, request: RemotingCommand, channel: Channel, now_ms: int
    ) -> Outcome | AwaitDispatch:
        """Ask the core, or let the request wait for what was acknowledged before it."""
        self._links.dispatch.look()
        if request.code not in SENDS:
            until = self._looks.wait(
                request,
                dispatched=self._store.dispatched,
                readable=self._progress.readable,
                now_ms=now_ms,
                entries_ahead=self._broker.entries_ahead,
            )
            if until is not None:
                self._links.dispatch.hurry()
                return until
        return self._process(request, channel, now_ms)

    def _process(self, request: RemotingCommand, channel: Channel, now_ms: int) -> Outcome:
        began = self._times.began()
        outcome = self._broker.process(request, channel, now_ms)
        self._times.processed(request, began)
        return outcome

    def channel_closed(self, channel: Channel, now_ms: int) -> None:
        """Tell the core."""
        self._broker.channel_closed(channel, now_ms)

    def end_of_turn(self) -> None:
        """Write what was put, say how far the log reaches, do what the core instructed.

        Raises: NotWriteable, once; nothing put in this turn may then be acknowledged. Later turns
            put nothing, and their answers are about what was written before.
        """
        if self._published is not None:
            self._published.publish(self._broker.filters)
        try:
            if not self._has_failed:
                appended = self._store.write_pending()
                has_put = appended != self._progress.appended
                self._times.end_turn(has_put=has_put)
                if has_put:
                    self._progress.note_appended(appended)
                    if self._broker.parked_count != self._parked_count:
                        self._parked_count = self._broker.parked_count
                        self._links.parked(appended)
        except NotWriteable as error:
            self._has_failed = True
            # Their time would run out with code 10, which a client takes for stored.
            self._progress.waiters.unwritten(self._progress.appended, str(error))
            raise
        finally:
            if self._notes:
                notes, self._notes = self._notes, []
                self._links.holds.hold(notes)
                self._links.dispatch.hurry()
            if self._broker.instructions:
                for instruction in self._broker.take_instructions():
                    self._do(instruction)

    def end_of_turn_logged(self) -> None:
        """End what was no turn of the server's; a failure is told to who asks next."""
        try:
            self.end_of_turn()
        except NotWriteable as error:
            self._store_errors.error("log not writeable", cause=str(error))

    def wake(self, hold_ids: Sequence[int]) -> None:
        """Run held pulls again and send what they found."""
        began = self._times.began()
        self._broker.wake(hold_ids, wall_ms())
        self._times.woken(began, len(hold_ids))
        self.end_of_turn_logged()

    def statistics(self) -> dict[str, Any]:
        """Return how long requests took, and how many waited for the queues."""
        return {
            "durations": self._times.statistics(),
            "queue_looks": {"waited_count": self._looks.waited_count},
        }

    def defer(
        self,
        outcome: Deferred | AwaitDispatch,
        request: RemotingCommand,
        channel: Channel,
        reply: Reply,
    ) -> None:
        """Keep a request until what it waits for has come."""
        match outcome:
            case AwaitDispatch():
                if not self._looks:
                    self._loop.call_later(LOOK_SECONDS, self._look_again)
                self._looks.add(outcome, partial(self._take_up, request, channel, reply))
            case HoldPull():
                self._notes.append(outcome)
            case AwaitFlush():
                if self._progress.await_flush(outcome, reply):
                    self._set_timer()
            case RunInPool():
                done = partial(self._settle, request, reply)
                self._pool.run(request, outcome, self._times.in_pool(request, done))
            case _:
                # AwaitRegistration: the instruction to register comes with it.
                answer = partial(reply, outcome.response)
                self._name_servers.after_registration(answer, oneway=outcome.oneway)

    def _look_again(self) -> None:
        """Take up requests that wait for the queues: nobody rings when those have grown."""
        self._links.dispatch.look()
        self._looks.take_up(dispatched=self._store.dispatched, now_ms=wall_ms())
        if self._looks:
            self._loop.call_later(LOOK_SECONDS, self._look_again)

    def _take_up(self, request: RemotingCommand, channel: Channel, reply: Reply) -> None:
        """Process a request that has waited for the queues."""
        try:
            outcome = self._process(request, channel, wall_ms())
        except Exception as error:
            outcome = error_answer(request, error)
        self._settle(request, reply, outcome)

    def _settle(self, request: RemotingCommand, reply: Reply, outcome: Outcome) -> None:
        """Take in what work in the pool, or a held pull, came to."""
        try:
            self.end_of_turn()
        except NotWriteable as error:
            outcome = error_answer(request, error)
        if outcome is None or isinstance(outcome, RemotingCommand):
            reply(outcome)
            return
        self.defer(outcome, request, _GONE, reply)
        self._server.schedule_turn()

    def _do(self, instruction: Instruction) -> None:
        match instruction:
            case Push(channel_id, command):
                self._server.push(channel_id, command)
            case Continue(channel_id, request, deferred):
                reply = partial(self._reply_to, channel_id)
                self.defer(deferred, request, _GONE, reply)
                self._server.schedule_turn()
            case Persist(name):
                self._tables.save_soon(self._broker, name)
            case RegisterBroker(oneway=oneway):
                self._name_servers.register_soon(self._broker, oneway=oneway)
            case ReadAhead(physical_offset, length_bytes):
                self._pool.try_to(partial(self._store.read_ahead, physical_offset, length_bytes))
            case CloseChannel(channel_id):
                self._server.close_channel(channel_id)
            case ForgetHolds(hold_ids):
                self._links.holds.forget(hold_ids)
            case WriteLine(appender, event, values):
                if self._line_budget.allows(time.monotonic()):
                    logger(Log[appender.name]).info(event, **values)

    def _reply_to(self, channel_id: int, response: RemotingCommand | None) -> None:
        if response is not None:
            self._server.push(channel_id, response)


class _NoChannel:
    """Stands for the connection of a request that went on after its turn: nobody looks at it."""

    id = -1
    remote_host = ""
    remote_port = 0

    def push(self, command: RemotingCommand) -> bool:
        """Refuse: what goes on pushes through the server, by the connection's id."""
        raise AssertionError("a request that went on pushes nothing")


_GONE = _NoChannel()
