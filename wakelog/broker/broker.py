"""Broker: the object a shell drives; every request, tick and wake of one broker goes through it.

The shell (an actor, a test, the in-process runner) owns the clock, the sockets and the files. It
calls one of the methods below on one thread, acts on what came back, and then drains
``instructions``; after a turn in which anything was put it calls ``store.write_pending`` before an
answer leaves. Requests are dispatched by the table in ``processors``.

    at start      load each config file; when the queues have reached the log's end, the first tick
    each turn     process(...), write_pending(), answers; take_instructions()
    by time       tick(now_ms) at next_tick_ms()
    PullHold      gets every HoldPull, and held() when it starts anew; says wake(ids)
    Schedule      starts at delay_offsets(); read_due (any thread), then deliver_due
    at the end    files_to_write(), unregistration()

Source: org.apache.rocketmq.broker.BrokerController (4.9.3).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any, Protocol

import msgspec

from wakelog.broker import route
from wakelog.broker.config_file import BrokerSettings
from wakelog.broker.consumer_offsets import ConsumerOffsetStatistics
from wakelog.broker.decision import (
    AwaitRegistration,
    Channel,
    Continue,
    ForgetHolds,
    HoldPull,
    Instruction,
    Outcome,
    Persist,
    Push,
    RegisterBroker,
    RunInPool,
)
from wakelog.broker.delayed_delivery import DelayedDeliveryStatistics
from wakelog.broker.error_answer import error_answer
from wakelog.broker.housekeeping import Housekeeping
from wakelog.broker.lock_table import LockTableStatistics
from wakelog.broker.membership import MembershipStatistics
from wakelog.broker.names import SCHEDULE_TOPIC
from wakelog.broker.processors import PROCESSORS, unsupported_remark
from wakelog.broker.processors.pull import resume_pull
from wakelog.broker.processors.queue_progress import Selection, select
from wakelog.broker.schedule import DueMessage
from wakelog.broker.state import BrokerState
from wakelog.broker.subscription_groups import SubscriptionGroupStatistics
from wakelog.broker.topics import TopicStatistics
from wakelog.broker.traffic import TrafficStatistics
from wakelog.filter.consumer_filters import ConsumerFilters
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import ONEWAY_FLAG, RemotingCommand, answer
from wakelog.protocol.errors import ProtocolError
from wakelog.protocol.record import MessageRecord
from wakelog.storage.errors import DamagedStore, StoreError
from wakelog.storage.log.append import MessageDraft, PutStatus
from wakelog.storage.message_store import MessageStore

UNKNOWN_CODE = -1
"""Under which requests without a processor are counted: made-up codes must not grow a table."""


_REGISTER_ONEWAY = RegisterBroker(oneway=True)


class BrokerStatistics(msgspec.Struct, frozen=True):
    """What a broker can say about itself."""

    requests_by_code: dict[int, int]
    topics: TopicStatistics
    groups: SubscriptionGroupStatistics
    offsets: ConsumerOffsetStatistics
    consumers: MembershipStatistics
    producers: MembershipStatistics
    locks: LockTableStatistics
    delayed: DelayedDeliveryStatistics
    traffic: TrafficStatistics
    held_count: int


class ConfigFile(Protocol):
    """A table that lives on in a file of the config directory."""

    def load(self, text: str) -> None:
        """Take over the contents of the file."""
        ...

    def snapshot(self) -> Callable[[], str]:
        """Copy the table and return what encodes the copy."""
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
    ) -> None:
        """Start with the system's topics and groups; ``load`` then reads the config files."""
        self._state = BrokerState(settings, store, random or Random(now_ms), now_ms)
        self._housekeeping = Housekeeping(self._state, self._wake_one, now_ms)
        self._request_counts: Counter[int] = Counter()
        self._has_ticked = False
        self._files: dict[str, ConfigFile] = {
            "topics": self._state.topics,
            "subscriptionGroup": self._state.groups,
            self._state.offsets.file_name: self._state.offsets,
            "delayOffset": self._state.delayed,
            "consumerFilter": self._state.filters,
        }

    @property
    def filters(self) -> ConsumerFilters:
        """The filters that messages are tried against when dispatched; not to be changed."""
        return self._state.filters

    @property
    def instructions(self) -> list[Instruction]:
        """What the shell has to do and has not taken yet."""
        return self._state.instructions

    def take_instructions(self) -> list[Instruction]:
        """Return what the shell has to do, in order, and forget it."""
        taken = list(self._state.instructions)
        self._state.instructions.clear()
        return taken

    def process(self, request: RemotingCommand, channel: Channel, now_ms: int) -> Outcome:
        """Answer one request."""
        processor = PROCESSORS.get(request.code)
        instructions = self._state.instructions
        begin = len(instructions)
        if processor is None:
            self._request_counts[UNKNOWN_CODE] += 1
            outcome: Outcome = _unsupported(request)
        else:
            self._request_counts[request.code] += 1
            try:
                outcome = processor.handle(self._state, request, channel, now_ms)
            except (ProtocolError, StoreError) as error:
                outcome = error_answer(request, error)
        if type(outcome) is RemotingCommand and not request.flag & ONEWAY_FLAG:
            if len(instructions) == begin or _REGISTER_ONEWAY not in instructions[begin:]:
                return outcome
            return AwaitRegistration(outcome, oneway=True)  # it has created a topic
        return self._settle(request, outcome)

    def entries_ahead(self, request: RemotingCommand) -> int | None:
        """Return how many entries a pull has between its offset and its queue's end.

        Negative if it begins beyond the end. None of a pull that is ill-formed, or if the disk
        would have to be waited for.
        """
        fields = request.ext_fields
        topic = self._state.topics.get(fields.get("topic", ""))
        queue_id, queue_offset = fields.get("queueId", ""), fields.get("queueOffset", "")
        if topic is None or not (queue_id.isdecimal() and queue_offset.isdecimal()):
            return None
        if int(queue_id) >= topic.read_queue_nums:
            return None
        end = self._state.store.max_queue_offset_nowait(topic.topic_name, int(queue_id))
        return None if end is None else end - int(queue_offset)

    def error_answer(self, request: RemotingCommand, error: Exception) -> RemotingCommand:
        """Return the answer to a request whose processing raised."""
        return error_answer(request, error)

    def channel_closed(self, channel: Channel, now_ms: int) -> None:
        """Forget a connection: its clients, its held pulls."""
        self._state.producers.channel_closed(channel.id)
        for change in self._state.consumers.channel_closed(channel.id):
            self._state.tell_consumers(change)
            self._state.forget_filters(change, now_ms)
        hold_ids = self._state.held.forget_channel(channel.id)
        if hold_ids:
            self._state.instructions.append(ForgetHolds(hold_ids))

    def tick(self, now_ms: int) -> None:
        """Do what is due by time; see ``housekeeping``.

        The first tick has to come when readers see all of the log and before any client is let
        in: queues that a truncation has shortened are noticed then.
        """
        if not self._has_ticked:
            self._has_ticked = True
            self._state.delayed.correct(partial(self._state.store.max_queue_offset, SCHEDULE_TOPIC))
        self._housekeeping.tick(now_ms)

    def next_tick_ms(self) -> int:
        """Return when ``tick`` next has something to do."""
        return self._housekeeping.next_tick_ms()

    def wake(self, hold_ids: Sequence[int], now_ms: int) -> None:
        """Run held pulls again; answers are in ``instructions``. Unknown ids are ignored."""
        for hold_id in hold_ids:
            self._wake_one(hold_id, now_ms)

    @property
    def held_count(self) -> int:
        """How many pulls are held."""
        return len(self._state.held)

    def held(self) -> list[HoldPull]:
        """Return a note for each held pull, for a PullHold that starts anew."""
        return self._state.held.notes()

    @property
    def parked_count(self) -> int:
        """How many messages were put to be delivered later."""
        return self._state.delayed.parked_count

    def delay_offsets(self) -> dict[int, int]:
        """Return the queue offset of the next message to deliver, by delay level."""
        return self._state.delayed.offsets()

    def read_due(self, due: Sequence[DueMessage]) -> list[MessageRecord | None]:
        """Read due messages from the log; may block, and may run on any thread."""
        look = self._state.store.message_at
        return [look(message.physical_offset, message.size_bytes) for message in due]

    def deliver_due(
        self, due: Sequence[DueMessage], records: Sequence[MessageRecord | None], now_ms: int
    ) -> dict[int, int]:
        """Put due messages into their real topics, each once; return the next offset by level."""

        def put(draft: MessageDraft) -> PutStatus:
            result = self._state.store.put_message(draft, now_ms)
            if result.status is PutStatus.PUT_OK:
                self._state.traffic.count_put(draft.topic, 1, result.size_bytes)
            return result.status

        return self._state.delayed.deliver(due, records, put)

    def registration(self) -> Callable[[], RemotingCommand]:
        """Return what makes the request for the name servers; any thread may call it."""
        return route.registration(self._state)

    def unregistration(self) -> RemotingCommand:
        """Return the request that takes this broker out of every route."""
        return route.unregistration(self._state)

    def registered(self, response: RemotingCommand, now_ms: int) -> None:
        """Take over what a name server answered to a registration."""
        route.registered(self._state, response, now_ms)

    def file_names(self) -> list[str]:
        """Return the stems of the config files, in the order in which to load them."""
        return list(self._files)

    def load(self, name: str, text: str) -> None:
        """Take over the contents of a config file.

        Raises: DamagedStore if the text is not what 4.9.3 or we would have written.
        """
        try:
            self._files[name].load(text)
        except (ProtocolError, ValueError, TypeError, AttributeError) as error:
            remedy = "put back a sound copy, such as its .bak, or remove it to start without it"
            raise DamagedStore(f"config/{name}.json", str(error), remedy) from error

    def snapshot(self, name: str) -> Callable[[], str]:
        """Copy a table and return what makes the text of its file; any thread may call that."""
        return self._files[name].snapshot()

    def to_json(self, name: str) -> str:
        """Return the text of a config file."""
        return self.snapshot(name)()

    def files_to_write(self) -> list[Persist]:
        """Return what has to be written before the broker stops."""
        return [Persist(name) for name in self._files]

    def committed_offsets(self) -> Selection:
        """Return the consumer offsets that ``queue_progress.measure`` compares with queues."""
        return select(self._state.offsets)

    def statistics(self) -> BrokerStatistics:
        """Return the counters of this broker and of its tables."""
        state = self._state
        return BrokerStatistics(
            requests_by_code=dict(self._request_counts),
            topics=state.topics.statistics(),
            groups=state.groups.statistics(),
            offsets=state.offsets.statistics(),
            consumers=state.consumers.statistics(),
            producers=state.producers.statistics(),
            locks=state.locks.statistics(),
            delayed=state.delayed.statistics(),
            traffic=state.traffic.statistics(),
            held_count=len(state.held),
        )

    def validate(self) -> None:
        """Assert the invariants of every table."""
        self._state.validate()

    def _settle(self, request: RemotingCommand, outcome: Outcome) -> Outcome:
        """Guard what runs later, and drop the answers that nobody waits for."""
        if isinstance(outcome, RunInPool):
            return RunInPool(outcome.work, partial(self._finish, request, outcome.finish))
        if not request.is_oneway:
            return outcome
        if isinstance(outcome, HoldPull):
            self._state.held.take(outcome.hold_id)
        return None

    def _finish(
        self,
        request: RemotingCommand,
        finish: Callable[[Any, int], Outcome],
        result: Any,
        now_ms: int,
    ) -> Outcome:
        try:
            outcome = finish(result, now_ms)
        except (ProtocolError, StoreError) as error:
            outcome = error_answer(request, error)
        return self._settle(request, outcome)

    def _wake_one(self, hold_id: int, now_ms: int) -> None:
        held = self._state.held.take(hold_id)
        if held is None:
            return
        try:
            outcome = resume_pull(self._state, held, now_ms)
        except (ProtocolError, StoreError) as error:
            outcome = error_answer(held.request, error)
        outcome = self._settle(held.request, outcome)
        channel_id = held.channel.id
        if isinstance(outcome, RemotingCommand):
            self._state.instructions.append(Push(channel_id, outcome))
        elif outcome is not None:
            self._state.instructions.append(Continue(channel_id, held.request, outcome))


def _unsupported(request: RemotingCommand) -> RemotingCommand:
    remark = unsupported_remark(request.code)
    return answer(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)
