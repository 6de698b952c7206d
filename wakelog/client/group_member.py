"""GroupMember: which queues a consumer has, where each begins, and how far each has come.

    balance        topics -> queues of this member; the others are given up
    renew_locks    ordered queues stay this member's
    commit         what was acknowledged -> the offset store

A member balances every `BALANCE_SECONDS`, and when a broker says that the group has changed. It
comes back soon for what it could not get: a route, a lock, its own place in the list of members.

Invariants:
    - an ordered queue is read only under the broker's lock. It is unlocked when its message in hand
      was acknowledged and its offset committed, or after `RELEASE_SECONDS_MAX`.
    - the offset of a queue is committed before the queue is given up, if the broker answers.

Source: org.apache.rocketmq.client.impl.consumer.{RebalanceImpl, RebalancePushImpl},
ConsumeMessageOrderlyService#lockMQPeriodically (4.9.3).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Final, NamedTuple

from wakelog.client.allocation import Strategy, allocate
from wakelog.client.clocks import steady_ms
from wakelog.client.consumer_message import Settler
from wakelog.client.errors import ClientError, unexpected
from wakelog.client.failure_lines import place_of
from wakelog.client.group_calls import GroupCalls
from wakelog.client.inbox import Inbox, Queue
from wakelog.client.instance import ClientInstance
from wakelog.client.offset_stores import OffsetStore
from wakelog.client.plain import moment_milliseconds
from wakelog.client.process_queue import ProcessQueue
from wakelog.client.queue_reader import QueueReader
from wakelog.network.background import OnFailed, keep, run_once
from wakelog.protocol.bodies import SubscriptionData
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.names import RETRY_PREFIX

BALANCE_SECONDS: Final = 20.0
"""rocketmq.client.rebalance.waitInterval."""
LOCK_SECONDS: Final = 20.0
"""rocketmq.client.rebalance.lockInterval."""
COMMIT_SECONDS: Final = 5.0
"""persistConsumerOffsetInterval."""
AGAIN_SECONDS: Final = 1.0
"""After a balance that left something open."""
RELEASE_SECONDS_MAX: Final = 20.0
"""UNLOCK_DELAY_TIME_MILLS: how long an ordered queue waits for the message in hand."""

ROUTES_AGAIN_SECONDS: Final = (0.5, 0.5, 1.0, 2.0, 4.0, 8.0)
"""After a broker was lost: a planned switch takes a second or two, a kill some ten."""

# The broker has not heard of the group, or of its newest subscription: a heartbeat helps.
_FORGOTTEN: Final = frozenset(
    {ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST}
)
# The user has to know: no further attempt helps before somebody has changed something.
_LASTING: Final = frozenset(
    {
        ResponseCode.NO_PERMISSION, ResponseCode.SUBSCRIPTION_PARSE_FAILED,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    }
)  # fmt: skip

_BALANCE: Final = "sharing out the queues"

logger = logging.getLogger("wakelog.client")


class MemberOptions(NamedTuple):
    """How a member consumes.

    start: where a queue begins that has no offset yet.
    strategy: None for all queues of every topic, as when broadcasting.
    """

    is_ordered: bool = False
    start: str | datetime = "last"
    strategy: Strategy | None = None


class GroupMember:
    """See the module. One loop, one thread.

    Attributes:
        subscriptions: by topic, the retry topic's among them.
        late_from: of each topic that came after the start, where `last` begins: when that was.
        failure: what the user has to know, until it was raised.
    """

    def __init__(
        self,
        instance: ClientInstance,
        calls: GroupCalls,
        offsets: OffsetStore,
        inbox: Inbox,
        settler: Settler,
        options: MemberOptions,
        *,
        now_ms: Callable[[], int] = steady_ms,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Ask nothing yet."""
        self.subscriptions: dict[str, SubscriptionData] = {}
        self.late_from: dict[str, datetime] = {}
        self.failure: ClientError | None = None
        self._instance = instance
        self._calls = calls
        self._offsets = offsets
        self._inbox = inbox
        self._settler = settler
        self._options = options
        self._now_ms = now_ms
        self._pause = pause
        self._readers: dict[MessageQueue, QueueReader] = {}
        self._committed: dict[MessageQueue, int] = {}
        self._releasing: dict[MessageQueue, asyncio.Task[None]] = {}
        self._settled: dict[MessageQueue, asyncio.Event] = {}
        self._loops: list[asyncio.Task[None]] = []
        self._balance_now = asyncio.Event()
        self._balancing = asyncio.Lock()
        self._heartbeat: asyncio.Task[None] | None = None
        self._following: asyncio.Task[None] | None = None  # brokers to another master

    @property
    def is_ordered(self) -> bool:
        """Whether queues are read in order."""
        return self._options.is_ordered

    # Loops

    async def start(self) -> None:
        """Balance once, and go on by itself. Raises: ClientError if a broker refuses."""
        if self.subscriptions:
            is_done = await self.balance()
            self.raise_failure()
            first_seconds = BALANCE_SECONDS if is_done else AGAIN_SECONDS
            self._loops.append(
                keep(partial(self._balance_forever, first_seconds), self.failed(_BALANCE))
            )
            if self._options.is_ordered:
                self.repeat("renewing locks", self.renew_locks, LOCK_SECONDS)
        self.repeat("committing offsets", self.commit, COMMIT_SECONDS)

    def repeat(self, work: str, step: Callable[[], Awaitable[None]], seconds: float) -> None:
        """Do something every so many seconds until `close`. work: how a failure names it."""
        self._loops.append(keep(partial(self._repeat, work, step, seconds), self.failed(work)))

    async def close(self) -> None:
        """Pull no more, commit, and give the queues up. Raises: ClientError if it cannot commit."""
        tasks = [*self._loops, *self._releasing.values()]
        tasks += [task for task in (self._heartbeat, self._following) if task is not None]
        for task in tasks:
            task.cancel()
        for reader in self._readers.values():
            reader.stop()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            await self.commit()
        finally:
            if self._options.is_ordered:
                await self._unlock(list(self._inbox.queues))

    def balance_soon(self) -> None:
        """Balance again: the group has changed."""
        self._balance_now.set()

    async def _balance_forever(self, seconds: float) -> None:
        while True:
            await _wait(self._balance_now, seconds)
            self._balance_now.clear()  # before the members are read: they may change meanwhile
            seconds = BALANCE_SECONDS if await self.balance() else AGAIN_SECONDS

    async def _repeat(self, work: str, step: Callable[[], Awaitable[None]], seconds: float) -> None:
        while True:
            await self._pause(seconds)
            try:
                await step()
            except ClientError as error:
                self._write(work, error)
            else:
                self._instance.failures.forget(work)

    # Queues

    async def balance(self) -> bool:
        """Take and give up queues; return whether nothing was left open."""
        async with self._balancing:
            done = True
            for topic in self.subscriptions:
                try:
                    done &= await self._balance_topic(topic)
                    self._instance.failures.forget(f"{_BALANCE} of {topic}")
                except ClientError as error:
                    await self._note(f"{_BALANCE} of {topic}", self._refusal or error)
                    done = False
                except Exception as error:  # the other topics are balanced all the same
                    self.failed(_BALANCE)(error)
                    done = False
            return done

    @property
    def _refusal(self) -> ClientError | None:
        """Why a broker does not know this member, although it was told."""
        return next(iter(self._instance.refusals.values()), None)

    async def _balance_topic(self, topic: str) -> bool:
        queues = await self._calls.queues(topic)
        if not queues:
            return False
        if self._options.strategy is None:
            mine = queues
        else:
            members = await self._members({queue.broker_name for queue in queues})
            if self._instance.client_id not in members:
                await self._instance.heartbeat()
                if self._refusal is not None:
                    raise self._refusal
                return False
            mine = allocate(self._options.strategy, queues, members, self._instance.client_id)
        for queue in [one for one in self._inbox.queues if one.topic == topic]:
            if queue not in mine:
                await self._release(queue)
        return await self.add(queue for queue in mine if queue not in self._inbox.queues)

    async def _members(self, broker_names: Iterable[str]) -> list[str]:
        """Ask the brokers of a topic in turn. Raises: ClientError if none answers."""
        failed: ClientError | None = None
        for broker_name in sorted(broker_names):
            try:
                return await self._calls.members(broker_name)
            except ClientError as error:
                failed = error
        assert failed is not None
        raise failed

    async def add(self, queues: Iterable[MessageQueue]) -> bool:
        """Begin to read queues; return whether all could be had.

        Raises: ClientError of the last broker that failed; the queues of the others are read.
        """
        wanted = list(queues)
        free = [queue for queue in wanted if queue not in self._releasing]
        failed: ClientError | None = None
        done = len(free) == len(wanted)
        for part in _by_broker(free):
            try:
                had = await self._lock(part) if self._options.is_ordered else part
                for queue in had:
                    offset = await self._first_offset(queue)
                    self._read(ProcessQueue(queue, offset, is_ordered=self._options.is_ordered))
            except ClientError as error:
                failed = error
            else:
                done &= len(had) == len(part)
        if failed is not None:
            raise failed
        return done

    async def _first_offset(self, queue: MessageQueue) -> int:
        offset = await self._offsets.read(queue)
        if offset is not None:
            return offset
        # What failed once is consumed again, wherever the group begins.
        if queue.topic.startswith(RETRY_PREFIX):
            return 0
        place = self._options.start
        if place == "last":
            place = self.late_from.get(queue.topic, place)
        return await self.offset_at(queue, place)

    async def offset_at(self, queue: MessageQueue, place: int | str | datetime) -> int:
        """Return the offset of `first`, `last`, a time or an offset. Raises: ClientError."""
        if isinstance(place, int):
            return place
        at, offsets = self._calls.at(queue), self._calls.offsets
        if isinstance(place, datetime):
            return await offsets.first_at(at, moment_milliseconds("place", place))
        return await (offsets.max_offset(at) if place == "last" else offsets.min_offset(at))

    def _read(self, process_queue: Queue) -> None:
        queue = process_queue.queue
        subscription = self.subscriptions.get(queue.topic)
        self._inbox.add(process_queue)
        self._readers[queue] = reader = QueueReader(
            process_queue,
            subscription or SubscriptionData(topic=queue.topic, sub_string="*"),
            self._calls,
            self._inbox,
            self._settler,
            is_known=subscription is not None,
            on_failure=partial(self._note, queue),
            on_success=partial(self._instance.failures.works, queue),
            on_unexpected=self.failed(f"reading {queue}"),
            now_ms=self._now_ms,
            pause=self._pause,
        )
        reader.start()

    def restart(self, queue: MessageQueue, offset: int) -> None:
        """Go on reading a queue at another offset; what was pulled of it is forgotten."""
        self._inbox.queues[queue].restart(offset)
        self._readers[queue].start()

    def check_room(self, queue: MessageQueue) -> None:
        """Let a reader go on if it may: a message left the queue, or the user resumed it."""
        if queue in self._readers:
            self._readers[queue].check_room()
        elif queue in self._settled and not self._inbox.queues[queue].in_hand_count:
            self._settled[queue].set()

    async def release(self, queues: Iterable[MessageQueue]) -> None:
        """Give queues up."""
        for queue in queues:
            await self._release(queue)

    async def _release(self, queue: MessageQueue) -> None:
        if queue in self._releasing:
            return
        self._readers.pop(queue).stop()
        self._inbox.leaving.add(queue)
        if self._options.is_ordered:
            self._releasing[queue] = run_once(
                self._release_ordered(self._inbox.queues[queue]), self.failed(f"giving up {queue}")
            )
        else:
            await self._leave(queue)

    async def _release_ordered(self, process_queue: Queue) -> None:
        queue = process_queue.queue
        try:
            if process_queue.in_hand_count:
                self._settled[queue] = asyncio.Event()
                await _wait(self._settled[queue], RELEASE_SECONDS_MAX)
            await self._leave(queue)
            await self._unlock([queue])
        finally:
            self._forget(queue)
            del self._releasing[queue]
            self._settled.pop(queue, None)
            self._balance_now.set()

    async def _leave(self, queue: MessageQueue) -> None:
        try:
            await self.commit()
        except ClientError as error:
            logger.warning("offsets are not committed: %s", error)
        finally:
            self._forget(queue)

    def _forget(self, queue: MessageQueue) -> None:
        self._inbox.remove(queue)
        self._committed.pop(queue, None)
        self._instance.failures.forget(queue)

    # Locks

    async def _lock(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Return the queues that their broker locked for this client. Raises: ClientError."""
        now_ms = self._now_ms()
        found = sorted(await self._calls.lock(queues))
        for queue in found:
            self._inbox.locked(queue, now_ms)
        return found

    async def renew_locks(self) -> None:
        """Lock all queues again. One that another client got is left to it.

        A broker that does not answer is asked at the next renewal.
        """
        held = [queue for queue in self._inbox.queues if queue not in self._releasing]
        for part in _by_broker(held):
            source = f"renewing locks at {part[0].broker_name}"
            try:
                locked = await self._lock(part)
            except ClientError as error:
                self._write(source, error, "queues are not locked again: ")
                continue
            self._instance.failures.works(source)
            for queue in set(part).difference(locked):
                logger.warning("%s is locked by another client", queue)
                if (reader := self._readers.pop(queue, None)) is not None:
                    reader.stop()
                self._forget(queue)
                self._balance_now.set()

    async def _unlock(self, queues: Iterable[MessageQueue]) -> None:
        for part in _by_broker(queues):
            try:
                await self._calls.unlock(part)
            except ClientError as error:
                logger.warning("queues stay locked for a minute: %s", error)

    # Offsets

    async def commit(self) -> None:
        """Store the offsets that have changed.

        Raises: ClientError, the first of those of several brokers; the others have their offsets.
        """
        changed = {
            queue: process_queue.committable
            for queue, process_queue in self._inbox.queues.items()
            if process_queue.committable != self._committed.get(queue)
        }
        if changed:
            failures = await self._offsets.write(changed)
            stored = {queue: at for queue, at in changed.items() if queue not in failures}
            self._committed.update(stored)
            for error in failures.values():
                raise error

    async def reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Go on at other offsets, and store them. Raises: ClientError."""
        for queue, offset in offsets.items():
            if queue in self._readers:
                self.restart(queue, offset)
        await self.commit()

    # Failures

    def raise_failure(self) -> None:
        """Tell the user of a failure, once. Raises: ClientError, if there is one."""
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure

    def failed(self, work: str) -> OnFailed:
        """Return what logs an error that nobody expected of background work, and tells the user.

        Endless work begins again all the same.
        """

        def report(error: Exception) -> None:
            self.failure = unexpected(work, error)
            self._inbox.arrived.set()

        return report

    async def _note(self, source: Hashable, error: ClientError) -> None:
        """Do what helps against a failure, and tell the user what nothing here can help."""
        self._write(source, error)
        if error.code in _FORGOTTEN and (self._heartbeat is None or self._heartbeat.done()):
            self._heartbeat = run_once(self._instance.heartbeat(), self.failed("a heartbeat"))
        if error.passes and (self._following is None or self._following.done()):
            self._following = run_once(self._follow_masters(), self.failed("asking for routes"))
        if error.code in _LASTING or error.refuses_account:
            self.failure = error
            self._inbox.arrived.set()

    async def _follow_masters(self) -> None:
        """Ask for the routes while another broker may be to lead; a slave serves pulls meanwhile.

        Offsets and what is given back would else go to the broker that led for up to 30 s.
        """
        for seconds in ROUTES_AGAIN_SECONDS:
            await self._pause(seconds)
            await self._instance.routes.refresh()

    def _write(self, source: Hashable, error: ClientError, before: str = "") -> None:
        self._instance.failures.failed(source, f"{before}{error}", place_of(error))


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


def _by_broker(queues: Iterable[MessageQueue]) -> list[list[MessageQueue]]:
    parts: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        parts.setdefault(queue.broker_name, []).append(queue)
    return list(parts.values())
