"""Broker: the object that a shell drives; every request, tick and wake goes through it.

The shell (an actor, a test, the in-process runner) owns the clock, the sockets and the files. It
calls the methods below on one thread, acts on what they return, and then takes the instructions.
After a turn that put messages it calls ``store.write_pending`` before a response leaves.

    at start      load each of ``tables``; the first tick comes when the queues reach the log's end
    PullHold      gets every HoldPull, and held.notes() after its restart; returns ids for wake(ids)
    Schedule      starts at delayed.offsets(); read_due (any thread), then deliver_due
    the check     begin_check, then read_due (any thread), then carry_out_check
    at the end    write a snapshot of each of ``tables``; registration.unregistration(...)

The shell may also read what ``state`` has: tables, counts and the instructions.

Source: org.apache.rocketmq.broker.BrokerController (4.9.3).
"""

from collections.abc import Callable, Generator, Sequence
from functools import partial
from random import Random
from types import GeneratorType
from typing import Any, Protocol

from wakelog.broker import half_checks
from wakelog.broker.access.administrators import AdministrationRefused, Administrators
from wakelog.broker.access.control import AccessControl, AccessRefused
from wakelog.broker.changes import Changes
from wakelog.broker.config_file import BrokerSettings
from wakelog.broker.decision import (
    Appender,
    AwaitFlush,
    CloseChannel,
    Continue,
    ForgetHolds,
    HoldPull,
    Instruction,
    Outcome,
    Persist,
    Push,
    WriteLine,
)
from wakelog.broker.effects import Dispatched, Registered, Saved, Work, rest_of
from wakelog.broker.error_response import LimitReached, error_response
from wakelog.broker.housekeeping import Housekeeping
from wakelog.broker.processors.body_limits import MESSAGE
from wakelog.broker.processors.config import use_settings
from wakelog.broker.processors.pull import pull_message
from wakelog.broker.processors.send_run import count_runs, store_run
from wakelog.broker.processors.table import BRINGS_MESSAGES, PROCESSORS, unsupported_hint
from wakelog.broker.read_after_write import ReadAfterWriteGate
from wakelog.broker.schedule import DueMessage
from wakelog.broker.state import BrokerState
from wakelog.broker.store_stats import RuntimeMeasures
from wakelog.broker.subscription_groups import SubscriptionGroups
from wakelog.broker.topics import Topics
from wakelog.broker.transaction_check import CheckBatch, CheckRequest, Decision
from wakelog.network.audit_line import AuditLine, audit_line
from wakelog.network.driver import NOW
from wakelog.network.handler import Channel
from wakelog.network.refusals import unsupported
from wakelog.network.request import ADMINISTRATION, BodyTooLarge, Processor, Request
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import ONEWAY_FLAG, RemotingCommand, answer
from wakelog.protocol.errors import ProtocolError
from wakelog.protocol.ext_fields import Header, read_header
from wakelog.protocol.frame import BODY_BYTES_UNCHECKED
from wakelog.protocol.names import SCHEDULE_TOPIC
from wakelog.protocol.record import MessageRecord
from wakelog.protocol.send_run import SendRun
from wakelog.storage.durability.config_files import damage_words
from wakelog.storage.errors import DamagedStore, StoreError
from wakelog.storage.live_settings import TABLE
from wakelog.storage.log.append import MessageDraft, PutStatus
from wakelog.storage.message_store import MessageStore

POSITIONS = frozenset({"consumerOffset", "lmqConsumerOffset", "delayOffset"})
"""The tables that count messages of the log: a save waits until those are durable.

A delivered message, or a half message that was put back, is a new record. Where the position has
passed the old one and a power cut takes the new one, a message that was acknowledged long ago is
lost.
"""

UNKNOWN_CODE = -1
"""Counts requests without a processor: made-up codes must not grow a table."""

NEW_TOPIC_SECONDS_MAX = 1.0
"""How long a response waits until a topic is registered that its request created; a producer gives
up after 3 s. 4.9.3 does not wait for the name servers, and its client may ask for the route first.
"""

_COUNTED = (
    *("topics", "groups", "offsets", "consumers", "producers"),
    *("locks", "delayed", "transactions"),
)
"""The tables of BrokerState whose statistics are few numbers."""


class ConfigFile(Protocol):
    """A table that is kept in a file of the config directory."""

    def load(self, text: str) -> None:
        """Read the contents of the file."""
        ...

    def snapshot(self) -> Callable[[], str]:
        """Copy the table and return a function that encodes the copy, on any thread."""
        ...


class Broker:
    """One broker over one store."""

    def __init__(
        self,
        settings: BrokerSettings,
        store: MessageStore,
        now_ms: int,
        *,
        random: Random | None = None,
        readable: Callable[[], int] | None = None,
        access: AccessControl | None = None,
        administrators: Administrators | None = None,
        measure: Callable[[], RuntimeMeasures] = RuntimeMeasures,
    ) -> None:
        """Start with the system's topics and groups; ``load`` then reads the config files.

        readable: returns how far consumers may read the log; None if nothing waits for dispatch.
        access: checks every request; None if access control is off.
        administrators: who may administer if it is off; None for peers on this host only.
        measure: measures what only the shell can, for code 28.
        """
        self.state = BrokerState(settings, store, random or Random(now_ms), now_ms)
        self.state.access = access
        self._administrators = administrators or Administrators()
        self.state.measure = measure
        self.read_after_write = ReadAfterWriteGate(
            store, self.state.topics, readable or (lambda: 0)
        )
        self._housekeeping = Housekeeping(self.state, self._wake_one, now_ms)
        self._request_counts = dict.fromkeys([*PROCESSORS, UNKNOWN_CODE], 0)
        self._has_ticked = False
        self._started_ms = now_ms
        # By the stem of the file, in the order in which to load them.
        self.tables: dict[str, ConfigFile] = {
            TABLE: self.state.live,
            "topics": self.state.topics,
            "subscriptionGroup": self.state.groups,
            self.state.offsets.file_name: self.state.offsets,
            "delayOffset": self.state.delayed,
            "consumerFilter": self.state.filters,
        }

    def take_instructions(self) -> list[Instruction]:
        """Return the instructions in order, and clear the list."""
        taken = list(self.state.instructions)
        self.state.instructions.clear()
        return taken

    def process(self, command: RemotingCommand, channel: Channel, now_ms: int) -> Outcome | Work:
        """Decode a request and handle it, or return the work that will."""
        processor = PROCESSORS.get(command.code)
        if processor is None:
            return self._unsupported(command, channel, now_ms)
        self._request_counts[command.code] += 1
        instructions = self.state.instructions
        begin = len(instructions)
        failed, header = False, None
        outcome: Outcome | Work
        try:
            if command.missing_body_bytes:
                raise self._body_too_large(command, processor)
            if len(command.body) > processor.unchecked_bytes_max:
                processor.body.check(command.body, self.state.config.request_limit_factor)
            header = self._admit(command, processor, channel, now_ms)
            if command.body and not processor.body.is_read:
                command.body = b""
            request = Request(command, header, channel, now_ms)
            wait = self.read_after_write.check(request) if processor.reads_queues else None
            if wait is not None:
                outcome = self._when_dispatched(processor, request, wait)
            else:
                outcome = processor.handle(self.state, request)
        except (ProtocolError, StoreError) as error:
            outcome, failed = self._refuse(command, error), True
        if len(instructions) != begin or outcome.__class__ is GeneratorType:
            outcome = self._finish(
                command, outcome, begin, failed=failed, is_audited=processor.is_audited
            )
        elif command.flag & ONEWAY_FLAG:
            outcome = self._unanswered(outcome)
        if processor.is_audited:
            return self._audited(partial(audit_line, command, header, channel, processor), outcome)
        return outcome

    def process_run(
        self, run: SendRun, channel: Channel, now_ms: int
    ) -> RemotingCommand | AwaitFlush | None:
        """Take and store sends of a run up to one that `process` has to handle, and answer them."""
        if self.state.access is not None:
            self.state.access.admit(run, PROCESSORS[run.code], channel.remote_host)
        return store_run(self.state, run, channel, now_ms)

    def end_of_turn(self) -> None:
        """Count what this turn has stored; its responses were sent."""
        if self.state.uncounted_runs:
            count_runs(self.state, self._request_counts)

    def _finish(
        self,
        command: RemotingCommand,
        outcome: Outcome | Work,
        begin: int,
        *,
        failed: bool,
        is_audited: bool,
    ) -> Outcome | Work:
        """Return the work that is left of a request: its own, or to keep what it has changed.

        begin: where its instructions begin.
        is_audited: whether a line names what its body does.
        """
        changes = Changes()
        changes.take(self.state.instructions, begin)
        if isinstance(outcome, Generator):
            return self._carry_out(command, outcome, changes)
        if failed:
            changes.undo()
        elif changes.were_asked_for or (changes and _is_awaited(command, outcome)):
            if not is_audited:
                command.body = b""  # nothing reads it while the response waits
            return self._keep(command, outcome, changes)
        return self._unanswered(outcome) if command.is_oneway else outcome

    def _audited(
        self, line: Callable[[RemotingCommand | None], AuditLine], outcome: Outcome | Work
    ) -> Outcome | Work:
        """Have the audit log say what becomes of a request."""
        if isinstance(outcome, Generator):
            return self._audited_at_its_end(line, outcome)
        response = outcome.response if isinstance(outcome, AwaitFlush) else outcome
        event, values, is_failed = line(response if isinstance(response, RemotingCommand) else None)
        self.state.instructions.append(
            WriteLine(Appender.AUDIT, event, values, is_kept=not is_failed)
        )
        return outcome

    def _audited_at_its_end(
        self, line: Callable[[RemotingCommand | None], AuditLine], work: Work
    ) -> Work:
        outcome: Outcome = None
        try:
            outcome = yield from work
        finally:
            self._audited(line, outcome)
        return outcome

    @property
    def sends_count(self) -> int:
        """How many requests came that bring messages."""
        return sum(self._request_counts[code] for code in BRINGS_MESSAGES)

    def begin_drain(self, now_ms: int) -> None:
        """Have the next registration take the write permission of every topic away."""
        self.state.is_draining = True
        self.state.topics.next_version(now_ms)

    def body_bytes_max(self, code: int) -> int:
        """Return how long the body of a request may be; a longer one need not be read."""
        processor = PROCESSORS.get(code)
        if processor is None:
            return ADMINISTRATION.body_bytes_max
        if processor.body is MESSAGE:
            return max(BODY_BYTES_UNCHECKED, self.state.store_config.message_bytes_max)
        return self.state.config.request_limit_factor * processor.body.body_bytes_max

    def _body_too_large(self, command: RemotingCommand, processor: Processor) -> BodyTooLarge:
        limit = self.body_bytes_max(command.code)
        return BodyTooLarge(command.missing_body_bytes, "bytes", limit, processor.body.refusal)

    def _carry_out(self, command: RemotingCommand, work: Work, changes: Changes) -> Work:
        """Do the work of a request: answer what it raises, and save what it changes, or undo it.

        What it was asked to change is saved before it has anything else done: queues of a topic
        are not removed while the topic may come back.
        """
        instructions, result = self.state.instructions, None
        failure: Exception | None = None
        try:
            while True:
                begin = len(instructions)
                try:
                    effect = work.send(result) if failure is None else work.throw(failure)
                except StopIteration as end:
                    outcome: Outcome = end.value
                    break
                finally:
                    failure = None  # its traceback has this frame
                    changes.take(instructions, begin)
                if changes.were_asked_for and effect is not None and effect is not NOW:
                    why_not = yield Saved(changes.saves())
                    if why_not:
                        return self._not_saved(command, why_not)
                    instructions += changes.registrations
                    changes = Changes()
                try:
                    result = yield effect
                except Exception as error:
                    failure = error
        except (ProtocolError, StoreError) as error:
            changes.undo()
            refusal = self._refuse(command, error)
            return None if command.is_oneway else refusal
        except GeneratorExit:
            # The client has left. What it has changed until here is saved all the same.
            instructions += [Persist(each.name) for each in changes.saves()]
            instructions += changes.registrations
            raise
        finally:
            work.close()
        return (yield from self._keep(command, outcome, changes))

    def _keep(self, command: RemotingCommand, outcome: Outcome, changes: Changes) -> Work:
        """Wait until what a request changed is saved, and its topics are registered."""
        saves = changes.saves()
        if changes.were_asked_for or (saves and _is_awaited(command, outcome)):
            why_not = yield Saved(saves)
            if why_not:
                return self._not_saved(command, why_not)
            if changes.were_asked_for:
                self.state.instructions += changes.registrations
        if command.is_oneway:
            return self._unanswered(outcome)
        if changes.registrations and isinstance(outcome, RemotingCommand):
            yield Registered(NEW_TOPIC_SECONDS_MAX)
        return outcome

    def _not_saved(self, command: RemotingCommand, why_not: str) -> RemotingCommand | None:
        """Return the response to a change that was undone; 4.9.3 logs it and answers success."""
        remark = f"not saved: {why_not}"
        return None if command.is_oneway else answer(command, ResponseCode.SYSTEM_ERROR, remark)

    def _unanswered(self, outcome: object) -> Outcome:
        """Drop the outcome of a one-way request."""
        if isinstance(outcome, HoldPull):
            self.state.held.remove(outcome.hold_id)
        return None

    def _when_dispatched(
        self, processor: Processor, request: Request[Any], wait: Dispatched
    ) -> Work:
        """Handle a request once the queues show what was acknowledged before it came."""
        yield wait
        request.now_ms = yield NOW
        return (yield from rest_of(processor.handle(self.state, request)))

    def channel_closed(self, channel: Channel, now_ms: int) -> bool:
        """Remove the clients and some held pulls of a connection; True if it has more of these."""
        self.state.producers.remove_channel(channel.id)
        self.state.filter_servers.remove(channel.id)
        for change in self.state.consumers.channel_closed(channel.id):
            self.state.notify_consumers(change, now_ms=now_ms)
            self.state.forget_filters(change, now_ms)
        hold_ids = self.state.held.forget_channel(channel.id)
        if hold_ids:
            self.state.instructions.append(ForgetHolds(hold_ids))
        return self.state.held.has_channel(channel.id)

    def tick(self, now_ms: int) -> None:
        """Do what is due by time; see ``housekeeping``.

        The first tick has to come when readers see all of the log, before the first client. It
        corrects offsets beyond queues that a truncation has shortened: those of the delay levels
        and of the check of half messages. A slave's are those of its master, which uses them.
        """
        if not self._has_ticked and not self.state.is_slave:
            self._has_ticked = True
            self.state.delayed.correct(partial(self.state.store.max_queue_offset, SCHEDULE_TOPIC))
            half_checks.correct(self.state, now_ms)
        self._housekeeping.tick(now_ms)
        self.state.send_notices(now_ms)

    def next_tick_ms(self) -> int:
        """Return when ``tick`` next has something to do."""
        next_ms = self._housekeeping.next_tick_ms()
        notices_ms = self.state.notices.next_ms()
        return next_ms if notices_ms is None else min(next_ms, notices_ms)

    def wake(self, hold_ids: Sequence[int], now_ms: int) -> None:
        """Run held pulls again; responses are in ``instructions``. Unknown ids are ignored."""
        for hold_id in hold_ids:
            self._wake_one(hold_id, now_ms)

    def woken_by_arrivals(self, readable: int) -> list[int] | None:
        """Return the held pulls to run again for what became readable, None to leave all to Reput.

        readable: how far consumers may see.
        """
        held, store = self.state.held, self.state.store
        if not held.waits_for(store.take_grown(readable)):
            return []
        arrivals = store.recent.arrivals(readable)
        return None if arrivals is None else held.woken_by(arrivals)

    def read_due(self, due: Sequence[DueMessage | Decision]) -> list[MessageRecord | None]:
        """Read due messages, or those of decisions, from the log.

        May block, and may run on any thread.
        """
        read = self.state.store.message_at
        return [read(message.physical_offset, message.size_bytes) for message in due]

    def deliver_due(
        self, due: Sequence[DueMessage], records: Sequence[MessageRecord | None], now_ms: int
    ) -> dict[int, int]:
        """Put due messages into their real topics, each once; return the next offset by level."""

        counts = self.state.store_config.enable_schedule_message_stats

        def put(draft: MessageDraft, level: int) -> PutStatus:
            result = self.state.store.put_message(draft, now_ms)
            if counts and result.status is PutStatus.PUT_OK:
                self.state.traffic.count_delivered(draft.topic, level - 1, result.size_bytes)
            return result.status

        return self.state.delayed.deliver(due, records, put)

    def begin_check(self, started_ms: int, now_ms: int) -> CheckRequest:
        """Return where the check of half messages goes on in the round that began then."""
        return half_checks.begin_batch(self.state, started_ms, now_ms)

    def carry_out_check(
        self, batch: CheckBatch, records: Sequence[MessageRecord | None], now_ms: int
    ) -> bool:
        """Put half messages back and ask producers; return whether the round goes on."""
        return half_checks.carry_out(self.state, batch, records, now_ms)

    def load(self, name: str, text: str) -> None:
        """Read the contents of a config file.

        Raises: DamagedStore if neither 4.9.3 nor wakelog writes such a text.
        """
        self._read(name, self.tables[name].load, text)
        if name == TABLE:
            use_settings(self.state, self.state.live.changes, self._started_ms)

    def replace(self, name: str, text: str) -> None:
        """Have the contents of a master's table, and nothing of before. Raises: DamagedStore."""
        table = self.tables[name]
        read = table.replace if isinstance(table, Topics | SubscriptionGroups) else table.load
        self._read(name, read, text)

    def _read(self, name: str, read: Callable[[str], None], text: str) -> None:
        try:
            read(text)
        except (ProtocolError, ValueError, TypeError, AttributeError) as error:
            remedy = "restore a sound copy, such as its .bak, or remove it to start without it"
            raise DamagedStore(f"config/{name}.json", damage_words(error), remedy) from error

    def statistics(self) -> dict[str, Any]:
        """Return the counters of this broker and of its tables."""
        state = self.state
        return {
            "requests_by_code": {
                code: count for code, count in self._request_counts.items() if count
            },
            **{name: getattr(state, name).statistics() for name in _COUNTED},
            "held_count": len(state.held),
            "access": (self.state.access or self._administrators).statistics(),
        }

    def _admit(
        self,
        command: RemotingCommand,
        processor: Processor | None,
        channel: Channel,
        now_ms: int,
    ) -> Header | None:
        """Return the header of a request that its sender may make. Raises: RemoteProtocolError."""
        if self.state.access is not None:
            try:
                return self.state.access.check(command, processor, channel.remote_host, now_ms)
            except AccessRefused as error:
                if error.closes_connection:
                    self.state.instructions.append(CloseChannel(channel.id))
                raise
        if processor is None:
            return None
        if processor.is_administration:
            self._administrators.check(command, channel, now_ms)
        if processor.header is None:
            return None
        return read_header(processor.header, command.ext_fields)

    def _unsupported(
        self, command: RemotingCommand, channel: Channel, now_ms: int
    ) -> RemotingCommand | None:
        self._request_counts[UNKNOWN_CODE] += 1
        try:
            self._admit(command, None, channel, now_ms)
            response = unsupported(command, unsupported_hint(command.code))
        except AccessRefused as error:
            response = self._refuse(command, error)
        return None if command.is_oneway else response

    def _refuse(self, command: RemotingCommand, error: Exception) -> RemotingCommand:
        if isinstance(error, LimitReached | BodyTooLarge):
            self.state.log_refusal("limit reached", error, command.code)
        elif isinstance(error, AccessRefused | AdministrationRefused):
            self.state.log_refusal("access refused", error, command.code)
        return error_response(command, error)

    def _wake_one(self, hold_id: int, now_ms: int) -> None:
        held = self.state.held.remove(hold_id)
        if held is None:
            return
        command, channel = held.request.command, held.request.channel
        request = Request(command, held.request.header, channel, now_ms)
        outcome: Outcome | Work
        try:
            outcome = pull_message(self.state, request, held)
        except (ProtocolError, StoreError) as error:
            outcome = self._refuse(command, error)
        if isinstance(outcome, RemotingCommand):
            self.state.instructions.append(Push(channel.id, outcome))
            return
        if isinstance(outcome, Generator):
            outcome = self._carry_out(command, outcome, Changes())
        if outcome is not None:
            self.state.instructions.append(Continue(channel.id, command, outcome))


def _is_awaited(command: RemotingCommand, outcome: Outcome) -> bool:
    """Whether it is a response that someone waits for, or one that waits for the disk alone."""
    return isinstance(outcome, RemotingCommand | AwaitFlush) and not command.is_oneway
