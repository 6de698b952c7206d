"""The consumer that users have: a member of a group, or the reader of queues that it chooses.

    async with Consumer("127.0.0.1:9876", group="billing", topics={"orders": "paid"}) as consumer:
        async for message in consumer:
            await message.ack()

A message that was neither acknowledged nor given back after `consume_timeout` goes to the retry
topic. Messages are given at least once: what was not acknowledged when a consumer ends, or loses a
queue, is given again.

Invariants: the offset that is committed never passes a message that waits for `ack`.

Source: org.apache.rocketmq.client.consumer.{DefaultMQPushConsumer, DefaultLitePullConsumer},
org.apache.rocketmq.client.impl.consumer.{DefaultMQPushConsumerImpl,
ConsumeMessageConcurrentlyService, ConsumeMessageOrderlyService} (4.9.3).
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, Unpack

from wakelog.client.allocation import STRATEGIES, Strategy, find_strategy
from wakelog.client.arrow import table_of
from wakelog.client.arrow_tables import ArrowTables
from wakelog.client.clocks import steady_ms, wall_ms
from wakelog.client.consumer_arguments import (
    Topics,
    check_absent,
    check_message,
    check_messages,
    check_modes,
    check_used,
    plain_instance,
    plain_place,
    plain_queue,
    plain_queues,
    plain_retries,
    plain_start,
    plain_start_timeout,
    read_topics,
    unknown_topic,
)
from wakelog.client.consumer_message import ConsumerMessage, by_origin
from wakelog.client.consumer_questions import ConsumerQuestions
from wakelog.client.consumer_trace import ConsumerTracer, Outcome
from wakelog.client.delays import Delays
from wakelog.client.errors import ClientError, InvalidArgument
from wakelog.client.group_calls import GroupCalls
from wakelog.client.group_member import GroupMember, MemberOptions
from wakelog.client.inbox import Inbox, Queue
from wakelog.client.instance import ClientInstance, OpenedByUser
from wakelog.client.late_topics import meet_topics
from wakelog.client.messages import SendRequest
from wakelog.client.offset_stores import LOCAL_FOLDER, BrokerOffsets, FileOffsets, OffsetStore
from wakelog.client.options import Settings, Target, make_options, with_namespace
from wakelog.client.plain import (
    delay_milliseconds,
    not_accepted,
    plain_path,
    plain_topic,
    positive_milliseconds,
    seconds,
    whole_number,
)
from wakelog.client.requests import make_reply
from wakelog.client.sender import Sender
from wakelog.client.taken_ahead import AHEAD_MAX, ITERATION_SECONDS, TakenAhead
from wakelog.client.trace import CONSUME, Tracer
from wakelog.client.unique_ids import UniqueIds
from wakelog.compiled.library import CHOICE
from wakelog.protocol.bodies import (
    FROM_FIRST_OFFSET,
    FROM_LAST_OFFSET,
    FROM_TIMESTAMP,
    MODEL_BROADCASTING,
    MODEL_CLUSTERING,
    ConsumerData,
)
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.names import RETRY_PREFIX
from wakelog.protocol.subscription import build_subscription

RETRIES_MAX: Final = 16
"""maxReconsumeTimes of 4.9.3: then a message is a dead letter."""
CONSUME_TIMEOUT: Final = timedelta(minutes=15)
"""consumeTimeout of 4.9.3."""
INSTANCE_NAME: Final = "DEFAULT"
"""instanceName of 4.9.3."""
TIMEOUT_CHECK_SECONDS: Final = 60.0
SUSPENDED: Final = timedelta(seconds=1)
"""suspendCurrentQueueTimeMillis: an ordered queue's pause after `nack`."""
SENT_BACK_AGAIN: Final = timedelta(seconds=5)
"""Until a message is given again that no broker took back."""
FETCH_MAX: Final = 32
ARROW_MAX: Final = 10_000
DEAD_LETTER: Final = -1
"""A delay level of 4.9.3."""
RETRY_LEVEL: Final = 3
"""The level of the first retry, and of a message that was not acknowledged in time."""

Taken = TypeVar("Taken")

if TYPE_CHECKING:
    import pyarrow

logger = logging.getLogger("wakelog.client")


class Consumer(OpenedByUser):
    """See the module. One loop, one thread.

    is_open: between `start` and `close`.
    """

    _kind = "consumer"

    def __init__(
        self,
        name_servers: Target,
        *,
        group: str,
        topics: Topics = (),
        start: str | datetime = "last",
        ordered: bool = False,
        broadcast: bool = False,
        allocation: str | Strategy = "AVG",
        max_retries: int | None = None,
        consume_timeout: timedelta = CONSUME_TIMEOUT,
        offset_folder: Path | str = LOCAL_FOLDER,
        instance_name: str = INSTANCE_NAME,
        trace: bool = False,
        start_timeout: timedelta | None = None,
        connect: Callable[..., ClientInstance] = ClientInstance,
        now_ms: Callable[[], int] = steady_ms,
        **settings: Unpack[Settings],
    ) -> None:
        """Make no connection yet.

        name_servers: `HOST:PORT`, several with semicolons between; or `wakelog.attach()`.
        topics: one, several, or each with its tags, as `"paid || refunded"` or `"*"`, or with
            `Sql(...)`. Without topics, `assign` says what is read.
        start: where a queue begins that has no offset yet: `"first"`, `"last"` or a time.
        ordered: each queue in order, one message at a time, under the broker's lock;
            not with `broadcast`.
        broadcast: every consumer gets every message; offsets are in a file in `offset_folder`, of
            the client `ADDRESS@instance_name`.
        allocation: the name of a strategy, the same in the whole group, or a function.
        max_retries: before a message is a dead letter; 16, and without end if ordered.
        trace: True notes what became of messages in RMQ_SYS_TRACE_TOPIC (`traceTopicEnable`).
        start_timeout: how long `start` may wait for topics that are not there yet. Without it
            `start` does not wait: a topic is read from when it is there.
        Raises: InvalidArgument, also for certificates that cannot be used.
        """
        self._options = make_options(name_servers, group, settings)
        self._is_ordered, self._is_broadcast = ordered, broadcast
        self._start = plain_start(start)
        check_modes(ordered=ordered, broadcast=broadcast, trace=trace)
        self._retries_max = plain_retries(max_retries)
        self._start_seconds_max = plain_start_timeout(start_timeout)
        self._consume_timeout_ms = positive_milliseconds("consume_timeout", consume_timeout)
        self._now_ms = now_ms
        self.namespace = self._options.namespace
        self._subscriptions = read_topics(topics, self.namespace, version=wall_ms())
        strategy = find_strategy(allocation)
        self._check_used(strategy, consume_timeout)
        self._instance = connect(self._options)
        self._sender = Sender(
            self._instance.connections, self._options, routes=self._instance.routes
        )
        self._ids = UniqueIds(self._instance.address)
        tracer = Tracer(self._sender, self._options, self._ids, kind=CONSUME)
        self._tracer = ConsumerTracer(tracer, self._options, self._ids) if trace else None
        self._delays = Delays(self._instance.connections, self._options)
        self._calls = GroupCalls(self._instance, self._options.group)
        self._inbox = Inbox()
        self._member = GroupMember(
            self._instance,
            self._calls,
            self._offsets_in(plain_path("offset_folder", offset_folder), instance_name),
            self._inbox,
            self,
            MemberOptions(ordered, self._start, None if broadcast else strategy),
            now_ms=now_ms,
        )
        self._questions = ConsumerQuestions(self, self._instance, self._member, self._inbox)
        self.is_open, self._has_queues = False, bool(self._subscriptions)

    def _check_used(self, strategy: Strategy, consume_timeout: timedelta) -> None:
        has_topics = bool(self._subscriptions)
        is_shared = has_topics and not self._is_broadcast
        times_out = not (self._is_ordered or self._is_broadcast)
        check_used(
            allocation=is_shared or strategy is STRATEGIES["AVG"],
            start_timeout=has_topics or self._start_seconds_max is None,
            consume_timeout=times_out or consume_timeout == CONSUME_TIMEOUT,
        )

    def _offsets_in(self, folder: Path, instance_name: str) -> OffsetStore:
        instance_name = plain_instance(instance_name)
        if not self._is_broadcast:
            check_used(
                offset_folder=folder == plain_path("offset_folder", LOCAL_FOLDER),
                instance_name=instance_name == INSTANCE_NAME,
            )
            return BrokerOffsets(self._calls)
        client = f"{self._instance.address}@{instance_name}"
        return FileOffsets(folder, client, self._options.group)

    @cached_property
    def _tables(self) -> ArrowTables:
        functions = None if self._is_ordered or self._tracer is not None else CHOICE.library
        own = self._now_ms, self._given, self._settle_all, self._go_on
        return ArrowTables(self._inbox, self, functions, *own)

    # Begin and end

    async def start(self) -> None:
        """Join the group, and begin to read.

        Raises: ClientError for a topic that is not there within `start_timeout`, a filter that a
        broker refuses, a missing right; also for a consumer that is open or was closed.
        """
        self._check_new()
        self._loop = asyncio.get_running_loop()
        await self._instance.start()
        started = datetime.now(UTC)
        late = await meet_topics(
            self._calls, self._subscriptions, self.namespace, self._start_seconds_max
        )
        self._member.late_from = dict.fromkeys(late, started)
        if self._subscriptions:
            subscriptions = dict(self._subscriptions)
            if not self._is_broadcast:
                retry = RETRY_PREFIX + self._options.group
                version = wall_ms()
                subscriptions[retry] = build_subscription(retry, "*", sub_version=version)
            self._member.subscriptions = subscriptions
            self._instance.consumers = self._consumer_data
            await self._instance.heartbeat()
        self._instance.answers.update(self._questions.answers)
        await self._member.start()
        if not self._is_broadcast and not self._is_ordered:
            self._member.repeat("sending back what timed out", self.time_out, TIMEOUT_CHECK_SECONDS)
        self.is_open = self._was_started = True

    def _consumer_data(self) -> list[ConsumerData]:
        where = FROM_FIRST_OFFSET if self._start == "first" else FROM_LAST_OFFSET
        return [
            ConsumerData(
                group_name=self._options.group,
                message_model=MODEL_BROADCASTING if self._is_broadcast else MODEL_CLUSTERING,
                consume_from_where=FROM_TIMESTAMP if isinstance(self._start, datetime) else where,
                subscription_data_set=list(self._member.subscriptions.values()),
            )
        ]

    async def close(self) -> None:
        """Commit what was acknowledged, give up the queues, and leave the group."""
        self.is_open = False
        self._was_closed = True
        self._inbox.arrived.set()
        try:
            await self._member.close()
            if self._tracer is not None:
                await self._tracer.close()
        except ClientError as error:
            logger.warning("not committed: acknowledged messages come again: %s", error)
        finally:
            await self._instance.close()

    # Messages

    async def fetch(
        self, max: int = FETCH_MAX, wait: float | timedelta = 1.0
    ) -> list[ConsumerMessage]:
        """Return up to `max` messages, after `wait` at the latest; maybe none.

        wait: seconds, or a timedelta.
        Raises: InvalidArgument; ClientError if a broker refuses what the consumer needs, if the
        consumer is not open, or if it has neither topics nor queues.
        """
        return await self._fetch(max, wait)

    async def _fetch(self, max: int, wait: float | timedelta) -> list[ConsumerMessage]:
        """Do what `fetch` does, for an iteration, too: tools may watch `fetch` itself."""
        max = whole_number("max", max, 1)
        self._check_reading()
        deadline = asyncio.get_running_loop().time() + seconds("wait", wait)
        self._inbox.take_messages(self)
        messages = (
            await self._wait_next(lambda: self._inbox.take(self._now_ms(), max), deadline) or []
        )
        with self._inbox.handing_over(messages):
            self._given(messages)
        return messages

    def _given(self, messages: Sequence[ConsumerMessage]) -> None:
        if self._tracer is not None:
            self._tracer.given(messages)

    async def _wait_next(self, take: Callable[[], Taken], deadline: float) -> Taken | None:
        """Return what `take` has, as soon as it has something; else None. Raises: ClientError."""
        while self.is_open:
            if found := take():
                return found
            self._member.raise_failure()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._inbox.arrived.wait()
            except TimeoutError:
                break
        return None

    def untake(self, messages: Sequence[ConsumerMessage]) -> None:
        """Give messages of a `fetch` again, in their order: nobody has got them.

        Raises: InvalidArgument.
        """
        if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
            raise not_accepted("messages", messages, "what `fetch` returned")
        for message in messages:
            check_message(message)
        self._inbox.untake(messages)

    def _check_reading(self) -> None:
        """Check that messages can come. Raises: ClientError."""
        self._check_loop()
        if not self._has_queues:
            remedy = "Give topics=, or call `assign`"
            raise ClientError("this consumer has no topics and no queues", remedy)

    @property
    def _ahead_max(self) -> int:
        """How much an iteration takes at once."""
        return 1 if self._is_ordered or self._tracer is not None else AHEAD_MAX

    async def __aiter__(self) -> AsyncIterator[ConsumerMessage]:
        """Yield messages until the consumer is closed. Raises: ClientError as `fetch` does."""
        self._check_reading()
        while self.is_open:
            taken = await self._fetch(self._ahead_max, ITERATION_SECONDS)
            with TakenAhead(self._inbox, self, taken).given_back_soon() as ahead:
                while (message := ahead.next()) is not None:
                    yield message

    async def ack(self, *messages: ConsumerMessage) -> None:
        """Consider messages consumed. Raises: ClientError if the consumer is not open."""
        self._check_open()
        check_messages(messages)
        for message in self._settle_all(messages):
            await message.ack()

    def _settle_all(self, messages: Iterable[ConsumerMessage]) -> list[ConsumerMessage]:
        """Forget what is still in hand of these. Return those of others than this consumer."""
        others: list[ConsumerMessage] = []
        for origin, run in by_origin(messages).items():
            if origin.settler is not self:
                others += run
            elif (queue := self._inbox.queues.get(origin.queue)) is not None:
                self._settle(queue, run, Outcome.SUCCESS)
        return others

    def _settle(self, queue: Queue, messages: Sequence[ConsumerMessage], outcome: Outcome) -> None:
        """Forget what is still in hand of these messages of one queue."""
        settled = queue.ack(messages)
        if self._tracer is not None:
            for message in settled:
                self._tracer.ended(message, outcome)
        if settled:
            self._go_on(queue)

    def _go_on(self, queue: Queue) -> None:
        """Read the queue further, and give more of it, if it waited for what has been settled."""
        self._member.check_room(queue.queue)
        if queue.is_ordered:
            self._inbox.wake(queue.queue)

    async def fetch_arrow(
        self, max: int = ARROW_MAX, wait: float | timedelta = 1.0
    ) -> "pyarrow.Table":
        """Return up to `max` messages as a table, after `wait` at the latest; maybe none.

        It does not wait for more than a queue may have unacknowledged (`pulled_rows`). A message
        with a body that cannot be read is given back as by `nack`, and named in the log.
        Raises: ClientError, also without the package pyarrow, or if no body can be read.
        """
        max = whole_number("max", max, 1)
        self._check_reading()
        return table_of(await self._tables.fetch(max, seconds("wait", wait), self._wait_next))

    def arrow(
        self, max: int = ARROW_MAX, wait: float | timedelta = 0.02, *, ack: bool = True
    ) -> "AsyncGenerator[pyarrow.RecordBatch, None]":
        """Yield messages as record batches until the consumer is closed.

        max: rows of a batch. wait: how long a batch may wait for more after its first message.
        ack: acknowledge a batch when the next one is asked for. Raises: as `fetch_arrow` does.
        """
        max = whole_number("max", max, 1)
        self._check_reading()
        return self._tables.stream(max, seconds("wait", wait), self._wait_next, acks=ack)

    async def ack_arrow(self, table: "pyarrow.Table | pyarrow.RecordBatch") -> None:
        """Consider the messages of a table or a batch consumed. Raises: ClientError if not open."""
        self._check_open()
        self._tables.ack(table)

    async def nack(self, message: ConsumerMessage, delay: timedelta | None = None) -> None:
        """Have a message consumed again: see `ConsumerMessage.nack`."""
        self._check_open()
        check_message(message)
        queue = self._inbox.holder(message)
        if queue is None:
            return
        if self._is_ordered or self._is_broadcast:
            retries_max = RETRIES_MAX if self._is_broadcast else None
            retries_max = retries_max if self._retries_max is None else self._retries_max
            if retries_max is None or message.reconsume_times < retries_max:
                self._put_back(queue, message, SUSPENDED if delay is None else delay)
            else:
                await self._give_up(queue, message)
            return
        level = 0  # the broker's steps
        if delay is not None:
            level = await self._delays.level(delay, self._calls.address(message.broker)) or 1
        await self._send_back(message, level)

    async def reject(self, message: ConsumerMessage) -> None:
        """Make a message a dead letter: see `ConsumerMessage.reject`."""
        self._check_open()
        check_message(message)
        queue = self._inbox.holder(message)
        if queue is not None:
            await self._give_up(queue, message)

    async def _give_up(self, queue: Queue, message: ConsumerMessage) -> None:
        if self._is_broadcast:
            logger.warning("%r is dropped after %s retries", message, message.reconsume_times)
            self._settle(queue, [message], Outcome.FAILED)
        else:
            await self._send_back(message, DEAD_LETTER)

    async def _send_back(
        self, message: ConsumerMessage, delay_level: int, outcome: Outcome = Outcome.FAILED
    ) -> None:
        """Give what is still in hand to its broker, or keep it if the broker does not take it."""
        if (queue := self._inbox.holder(message)) is None:
            return
        retries_max = RETRIES_MAX if self._retries_max is None else self._retries_max
        try:
            await self._calls.send_back(message, delay_level, retries_max)
        except ClientError as error:
            if self._inbox.holder(message) is queue:
                logger.warning("%r is given again here: %s", message, error)
                self._put_back(queue, message, SENT_BACK_AGAIN)
        else:
            self._settle(queue, [message], outcome)

    def _put_back(self, queue: Queue, message: ConsumerMessage, delay: timedelta) -> None:
        delay_ms = delay_milliseconds(delay)
        if self._tracer is not None:
            self._tracer.ended(message, Outcome.FAILED)
        message.local_returns_count += 1
        queue.put_back(message, self._now_ms() + delay_ms)
        self._member.check_room(queue.queue)
        loop = asyncio.get_running_loop()
        loop.call_later(delay.total_seconds() + 0.001, self._inbox.wake, queue.queue)

    async def reply(
        self,
        message: ConsumerMessage,
        body: bytes | str,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Answer the producer that waits in `request`. Raises: ClientError."""
        self._check_open()
        check_message(message)
        reply = make_reply(message, body, self._ids.make(), properties)
        await self._sender.send(SendRequest((reply,)))

    async def time_out(self) -> None:
        """Send back what was taken `consume_timeout` ago and not acknowledged since."""
        before_ms = self._now_ms() - self._consume_timeout_ms
        for queue in list(self._inbox.queues.values()):
            for rows, taken_ms in queue.rows.take_overdue(before_ms):
                queue.adopt(rows.messages(self), taken_ms)
            for message in queue.overdue(before_ms):
                await self._send_back(message, RETRY_LEVEL, Outcome.TIME_OUT)

    # Queues and offsets

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that are read now, without the retry topic's."""
        return sorted(
            queue for queue in self._inbox.queues if not queue.topic.startswith(RETRY_PREFIX)
        )

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic. Raises: ClientError, also for an unknown topic."""
        self._check_open()
        topic = plain_topic(topic)
        found = await self._calls.queues(with_namespace(self.namespace, topic))
        if found is None:
            raise unknown_topic(topic)
        return found

    async def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Read these queues and no others.

        Raises: ClientError; InvalidArgument in a group, or for a queue that is not there.
        """
        self._check_open()
        if self._subscriptions:
            cause = "the group shares out the queues of a consumer that has topics"
            raise InvalidArgument(cause, "Make one without topics= to assign queues")
        wanted = plain_queues(queues)
        held = set(self._inbox.queues)
        for topic in {queue.topic for queue in wanted - held}:
            there = await self._calls.queues(topic)
            if there is None:
                raise unknown_topic(topic)
            absent = wanted - held - set(there)
            check_absent(queue for queue in absent if queue.topic == topic)
        self._has_queues = bool(wanted)
        await self._member.release(held - wanted)
        add = self._member.add
        if not await self._instance.wait_out(lambda: add(sorted(wanted - set(self._inbox.queues)))):
            raise ClientError("another client has locked some of the queues", "Assign them later")

    async def seek(self, queue: MessageQueue, place: int | str | datetime) -> None:
        """Go on at an offset, at a time, at `"first"` or at `"last"`.

        What was pulled of the queue is forgotten: an `ack` for it does nothing.
        Raises: ClientError; InvalidArgument for a queue that is not assigned.
        """
        [queue] = self._check_assigned([queue])
        place = plain_place(place)
        offset_at = partial(self._member.offset_at, queue, place)
        self._member.restart(queue, await self._instance.wait_out(offset_at))

    def pause(self, *queues: MessageQueue) -> None:
        """Give no more messages of these queues, or of any, and pull none."""
        queues = self._check_assigned(queues)
        self._inbox.paused.update(queues or self._inbox.queues)

    def resume(self, *queues: MessageQueue) -> None:
        """Go on with paused queues, or with all."""
        queues = self._check_assigned(queues)
        for queue in queues or list(self._inbox.queues):
            self._inbox.paused.discard(queue)
            self._inbox.wake(queue)
            self._member.check_room(queue)

    def _check_assigned(self, queues: Iterable[MessageQueue]) -> tuple[MessageQueue, ...]:
        """Return plain queues, which are read here. Raises: ClientError."""
        self._check_open()
        found = tuple(map(plain_queue, queues))
        for queue in found:
            if queue not in self._inbox.queues:
                raise InvalidArgument(f"{queue} is not read here", "See `assignment`")
        return found

    def position(self, queue: MessageQueue) -> int:
        """Return the offset that would be committed now. Raises: InvalidArgument."""
        [queue] = self._check_assigned([queue])
        return self._inbox.queues[queue].committable

    async def lag(self) -> dict[MessageQueue, int]:
        """Return how many messages of each queue are not acknowledged. Raises: ClientError."""
        self._check_open()
        queues = self.assignment
        end_of = partial(self._member.offset_at, place="last")
        ends = await asyncio.gather(
            *(self._instance.wait_out(partial(end_of, queue)) for queue in queues)
        )
        return {
            queue: max(end - self._inbox.queues[queue].committable, 0)
            for queue, end in zip(queues, ends, strict=True)
            if queue in self._inbox.queues
        }

    async def commit(self) -> None:
        """Store the offsets now; it happens every five seconds, and at the end, too.

        Raises: ClientError, also if the consumer is not open.
        """
        self._check_open()
        await self._instance.wait_out(self._member.commit)
