"""The same client without asyncio: the same names, and each call blocks until it is done.

    with Producer("127.0.0.1:9876", group="api") as producer:
        receipt = producer.send("orders", b"...")

Each object here has a twin of asyncio, which works on one loop in a thread of its own. The thread
lives while one of the objects is open. Any thread may call, several at a time. A message that is
sent while no other one is goes without the loop (`lone_sender`).

Invariants: nothing here decides about messages; a call that is interrupted ends in the loop, too.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from datetime import datetime, timedelta
from functools import partial, wraps
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Self,
    TypeAlias,
    TypeGuard,
    TypeVar,
    Unpack,
)

from wakelog.client import consumer as aio_consumer
from wakelog.client import producer as aio
from wakelog.client.allocation import Strategy
from wakelog.client.consumer_arguments import Topics
from wakelog.client.consumer_message import ConsumerMessage as AioMessage
from wakelog.client.errors import ClientError
from wakelog.client.lone_sender import LoneSender
from wakelog.client.loop_thread import LoopThread
from wakelog.client.messages import MessageFields, message_of
from wakelog.client.offset_stores import LOCAL_FOLDER
from wakelog.client.options import Settings, Target
from wakelog.client.plain import not_accepted
from wakelog.client.producer import PLAIN_SEND
from wakelog.client.receipts import Receipt
from wakelog.client.received import ReceivedMessage
from wakelog.client.send_buffer import BYTES_MAX, MESSAGES_MAX
from wakelog.client.taken_ahead import AHEAD_SECONDS, ITERATION_SECONDS, TakenAhead
from wakelog.client.transactions import TransactionState
from wakelog.protocol.body_codec import MessageQueue

if TYPE_CHECKING:
    import pyarrow

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
TwinType = TypeVar("TwinType", bound=AbstractAsyncContextManager[Any])

_PLAIN_ACK = aio_consumer.Consumer.ack
"""A tool such as `wakelog.otel` may put another one in its place."""

Check: TypeAlias = Callable[[ReceivedMessage], TransactionState]
"""As `transactions.Check`; it is called in a thread of its own and may block."""


LOOP = LoopThread()
# A child has no thread but the one that forked: what is open there would wait for ever.
os.register_at_fork(after_in_child=LOOP.__init__)  # type: ignore[misc]


class Blocking(Generic[TwinType]):
    """An object whose asyncio twin does the work."""

    def __init__(self, twin: TwinType) -> None:
        """twin: not open yet."""
        self.twin = twin
        self._process_id = 0

    def __enter__(self) -> Self:
        """Open the twin."""
        self._process_id = os.getpid()
        LOOP.acquire()
        try:
            LOOP.run(_enter(self.twin))
        except BaseException:
            LOOP.release()
            raise
        return self

    def __exit__(self, *error: Any) -> None:
        """Close the twin; a child that was forked leaves it to its parent."""
        if self._process_id != os.getpid():
            return
        try:
            LOOP.run(_exit(self.twin, *error))
        finally:
            LOOP.release()


async def _enter(manager: AbstractAsyncContextManager[Result]) -> Result:
    return await manager.__aenter__()


async def _exit(manager: AbstractAsyncContextManager[Any], *error: Any) -> bool | None:
    return await manager.__aexit__(*error)


def blocking(
    method: Callable[Concatenate[Any, Parameters], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Any, Parameters], Result]:
    """Return the blocking form of a coroutine method of the twin."""
    name = method.__name__

    @wraps(method)
    def call(self: Any, /, *args: Parameters.args, **given: Parameters.kwargs) -> Result:
        # By its name: a tool such as `wakelog.otel` may have put another in its place.
        running: Coroutine[Any, Any, Result] = getattr(self.twin, name)(*args, **given)
        return LOOP.run(running)

    return call


def blocking_context(
    method: Callable[Concatenate[Any, Parameters], AbstractAsyncContextManager[Result]],
) -> Callable[Concatenate[Any, Parameters], AbstractContextManager[Result]]:
    """Return the blocking form of an asynchronous context manager of the twin."""
    name = method.__name__

    @wraps(method)
    @contextmanager
    def call(self: Any, /, *args: Parameters.args, **given: Parameters.kwargs) -> Iterator[Result]:
        manager: AbstractAsyncContextManager[Result] = getattr(self.twin, name)(*args, **given)
        entered = LOOP.run(_enter(manager))
        try:
            yield entered
        except BaseException as error:
            if not LOOP.run(_exit(manager, type(error), error, error.__traceback__)):
                raise
        else:
            LOOP.run(_exit(manager, None, None, None))

    return call


class Producer(Blocking[aio.Producer]):
    """See `wakelog.client.producer`."""

    def __init__(
        self,
        name_servers: Target,
        *,
        group: str = "wakelog",
        check: Check | None = None,
        batching: bool = True,
        trace: bool = False,
        messages_max: int = MESSAGES_MAX,
        bytes_max: int = BYTES_MAX,
        **settings: Unpack[Settings],
    ) -> None:
        """Make no connection yet. Raises: InvalidArgument."""

        async def ask(message: ReceivedMessage) -> TransactionState:
            assert check is not None
            return await asyncio.to_thread(check, message)

        self._lone: LoneSender | None = None  # while it is open
        super().__init__(
            aio.Producer(
                name_servers,
                group=group,
                check=None if check is None else ask,
                batching=batching,
                trace=trace,
                messages_max=messages_max,
                bytes_max=bytes_max,
                **settings,
            )
        )

    def __enter__(self) -> Self:
        """Open the twin."""
        super().__enter__()
        self._lone = self.twin._lone_sender(LOOP.run)
        return self

    def __exit__(self, *error: Any) -> None:
        """Close the twin, after a message under way."""
        try:
            if self._lone is not None and self._process_id == os.getpid():
                self._lone.close()
        finally:  # also after Ctrl-C while it waits
            super().__exit__(*error)

    def send(self, topic: str, body: bytes | str, **fields: Unpack[MessageFields]) -> Receipt:
        """Send one message: see `wakelog.client.Producer.send`."""
        receipt = None
        if self._lone is not None and self._may_send_alone():
            receipt = self._lone.send(message_of(topic, body, fields))
        return receipt or LOOP.run(self.twin.send(topic, body, **fields))

    def _may_send_alone(self) -> bool:
        """Return whether a send needs neither the loop nor what a tool has put around it."""
        return (
            _is_function(self.twin.send, PLAIN_SEND)
            and self._process_id == os.getpid()
            and not LOOP.is_in_thread()
        )

    send_many = blocking(aio.Producer.send_many)
    send_oneway = blocking(aio.Producer.send_oneway)
    transaction = blocking_context(aio.Producer.transaction)
    request = blocking(aio.Producer.request)
    reply = blocking(aio.Producer.reply)
    queues = blocking(aio.Producer.queues)


def _is_plain(settler: object) -> TypeGuard[aio_consumer.Consumer]:
    """Return whether it is an open consumer whose `ack` no tool has replaced."""
    if not isinstance(settler, aio_consumer.Consumer) or not settler.is_open:
        return False
    return _is_function(settler.ack, _PLAIN_ACK)


def _is_function(method: object, function: object) -> bool:
    """Return whether a method of an object is this function, and no tool's."""
    return getattr(method, "__func__", None) is function


class ConsumerMessage(ReceivedMessage):
    """See `wakelog.client.consumer_message`."""

    def __init__(self, twin: AioMessage) -> None:
        """Be the same message."""
        super().__init__(twin.record, broker=twin.broker, namespace=twin.namespace)
        self.twin = twin
        self.queue = twin.queue

    @property
    def full_topic(self) -> str:
        """The topic that it was sent to, with its namespace."""
        return self.twin.full_topic

    @property
    def reconsume_times(self) -> int:
        """How often it was consumed before."""
        return self.twin.reconsume_times

    def ack(self) -> None:
        """Consider it consumed: see `wakelog.client.ConsumerMessage.ack`."""
        settler = self.twin.settler
        if not _is_plain(settler) or not LOOP.put_off(partial(settler._settle_all, (self.twin,))):
            LOOP.run(self.twin.ack())

    nack = blocking(AioMessage.nack)
    reject = blocking(AioMessage.reject)
    reply = blocking(AioMessage.reply)


class Consumer(Blocking[aio_consumer.Consumer]):
    """See `wakelog.client.consumer`."""

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
        consume_timeout: timedelta = aio_consumer.CONSUME_TIMEOUT,
        offset_folder: Path | str = LOCAL_FOLDER,
        instance_name: str = aio_consumer.INSTANCE_NAME,
        trace: bool = False,
        start_timeout: timedelta | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        """Make no connection yet. Raises: InvalidArgument."""
        super().__init__(
            aio_consumer.Consumer(
                name_servers,
                group=group,
                topics=topics,
                start=start,
                ordered=ordered,
                broadcast=broadcast,
                allocation=allocation,
                max_retries=max_retries,
                consume_timeout=consume_timeout,
                offset_folder=offset_folder,
                instance_name=instance_name,
                trace=trace,
                start_timeout=start_timeout,
                **settings,
            )
        )

    def fetch(
        self, max: int = aio_consumer.FETCH_MAX, wait: float | timedelta = 1.0
    ) -> list[ConsumerMessage]:
        """Return up to `max` messages, after `wait` at the latest; maybe none.

        wait: seconds, or a timedelta.
        Raises: ClientError if a broker refuses what the consumer needs.
        """
        return [ConsumerMessage(each) for each in self._take(lambda: self.twin.fetch(max, wait))]

    def _take(self, fetch: Callable[[], Coroutine[Any, Any, list[AioMessage]]]) -> list[AioMessage]:
        """Run a fetch. After an interruption, such as Ctrl-C, what it took is given again."""
        taken: list[AioMessage] = []

        async def take() -> list[AioMessage]:
            taken.extend(await fetch())
            return taken

        try:
            return LOOP.run(take())
        except ClientError:
            raise
        except BaseException:  # whatever a handler of signals raised
            LOOP.run(_call(lambda: self.twin.untake(taken)))
            raise

    def __iter__(self) -> Iterator[ConsumerMessage]:
        """Yield messages until the consumer is closed. Raises: ClientError as `fetch` does."""
        count = self.twin._ahead_max
        # The first call refuses a consumer that is not open.
        yield from self._ahead(lambda: self.twin._fetch(count, 0.0))
        while self.twin.is_open:
            yield from self._ahead(lambda: _fetch_next(self.twin, count))

    def _ahead(
        self, fetch: Callable[[], Coroutine[Any, Any, list[AioMessage]]]
    ) -> Iterator[ConsumerMessage]:
        """Yield what a fetch takes; what the caller does not soon ask for is given again."""
        ahead = TakenAhead(self.twin._inbox, self.twin, self._take(fetch))
        try:
            if len(ahead) > 1:
                LOOP.call_later(AHEAD_SECONDS, ahead.give_back)
            while (message := ahead.next()) is not None:
                yield ConsumerMessage(message)
        finally:
            if ahead:
                LOOP.put_off(ahead.give_back)

    def arrow(
        self, max: int = aio_consumer.ARROW_MAX, wait: float | timedelta = 0.02, *, ack: bool = True
    ) -> "Iterator[pyarrow.RecordBatch]":
        """Yield messages as record batches: see `wakelog.client.Consumer.arrow`."""
        stream = LOOP.run(_call(lambda: self.twin.arrow(max, wait, ack=ack)))
        try:
            while (batch := LOOP.run(_next_of(stream))) is not None:
                yield batch
        finally:
            LOOP.run(_end(stream))

    def ack(self, *messages: ConsumerMessage) -> None:
        """Consider messages consumed."""
        given: list[Any] = [getattr(each, "twin", each) for each in messages]  # any for its error
        LOOP.run(self.twin.ack(*given))

    def nack(self, message: ConsumerMessage, delay: timedelta | None = None) -> None:
        """Have a message consumed again: see `wakelog.client.ConsumerMessage.nack`."""
        if not isinstance(message, ConsumerMessage):
            raise not_accepted("message", message, "what `fetch` or the iteration returned")
        message.nack(delay)

    def reject(self, message: ConsumerMessage) -> None:
        """Make a message a dead letter: see `wakelog.client.ConsumerMessage.reject`."""
        if not isinstance(message, ConsumerMessage):
            raise not_accepted("message", message, "what `fetch` or the iteration returned")
        message.reject()

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that are read now, without the retry topic's."""
        return LOOP.run(_call(lambda: self.twin.assignment))

    def pause(self, *queues: MessageQueue) -> None:
        """Give no more messages of these queues, or of any, and pull none."""
        LOOP.run(_call(lambda: self.twin.pause(*queues)))

    def resume(self, *queues: MessageQueue) -> None:
        """Go on with paused queues, or with all."""
        LOOP.run(_call(lambda: self.twin.resume(*queues)))

    def position(self, queue: MessageQueue) -> int:
        """Return the offset that would be committed now. Raises: InvalidArgument."""
        return LOOP.run(_call(lambda: self.twin.position(queue)))

    queues = blocking(aio_consumer.Consumer.queues)
    assign = blocking(aio_consumer.Consumer.assign)
    seek = blocking(aio_consumer.Consumer.seek)
    lag = blocking(aio_consumer.Consumer.lag)
    commit = blocking(aio_consumer.Consumer.commit)
    fetch_arrow = blocking(aio_consumer.Consumer.fetch_arrow)
    ack_arrow = blocking(aio_consumer.Consumer.ack_arrow)


async def _fetch_next(twin: aio_consumer.Consumer, count: int) -> list[AioMessage]:
    """Return the next messages of an iteration; none once another thread has closed the twin."""
    return await twin._fetch(count, ITERATION_SECONDS) if twin.is_open else []


async def _call(function: Callable[[], Result]) -> Result:
    """Call in the thread of the loop."""
    return function()


async def _next_of(stream: AsyncGenerator[Result, None]) -> Result | None:
    return await anext(stream, None)


async def _end(stream: AsyncGenerator[Any, None]) -> None:
    await stream.aclose()
