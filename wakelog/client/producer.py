"""The producer that users have: single messages, batches, transactions, requests with replies.

    async with Producer("127.0.0.1:9876", group="api") as producer:
        receipt = await producer.send("orders", b"...", tags="paid", keys="4711")

Every send returns after a broker has stored the message, or raises. Messages that are sent while
others are under way travel together (`lanes`).

Source: org.apache.rocketmq.client.producer.DefaultMQProducer, org.apache.rocketmq.client.impl.
producer.DefaultMQProducerImpl (4.9.3).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any, Final, Unpack

from wakelog.client.appended import APPENDED
from wakelog.client.clocks import steady_ms, wall_ms
from wakelog.client.delays import Delays
from wakelog.client.errors import ClientError, InvalidArgument, NotAcknowledged, not_acknowledged
from wakelog.client.instance import ClientInstance, OpenedByUser
from wakelog.client.lanes import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX, REQUESTS_MAX
from wakelog.client.lone_sender import LoneSender
from wakelog.client.messages import (
    EncodedMessage,
    Message,
    MessageFields,
    SendRequest,
    encode,
    message_of,
    pack,
    plain_message,
)
from wakelog.client.options import Settings, Target, make_options, with_namespace
from wakelog.client.plain import (
    check_flags,
    milliseconds,
    not_accepted,
    plain_text,
    plain_topic,
    whole_number,
)
from wakelog.client.plain_messages import encode_plain, plain_requests
from wakelog.client.receipts import Receipt, Receipts, receipts_of
from wakelog.client.received import ReceivedMessage
from wakelog.client.requests import PendingRequests, make_reply
from wakelog.client.route import QueueAt
from wakelog.client.send_buffer import BYTES_MAX, MESSAGES_MAX, SendBuffer
from wakelog.client.send_command import Stored
from wakelog.client.sender import Sender
from wakelog.client.trace import Tracer, ended_note, stored_note
from wakelog.client.transactions import (
    WILL_BE_ASKED,
    Check,
    Transaction,
    TransactionEnds,
    TransactionState,
)
from wakelog.client.unique_ids import UniqueIds
from wakelog.network.background import awaited
from wakelog.network.blocking_client import BlockingClient
from wakelog.network.client import RemotingClient, signing
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.java import INT_MAX
from wakelog.protocol.names import is_topic
from wakelog.protocol.properties import INSTANCE_ID, PRODUCER_GROUP, TRANSACTION_PREPARED
from wakelog.protocol.sys_flag import TRANSACTION_PREPARED as PREPARED

RETRIES_MAX: Final = 2
"""retryTimesWhenSendFailed of 4.9.3."""


class Producer(OpenedByUser):
    """See the module. One loop, one thread.

    is_open: between `start` and `close`.
    """

    _kind = "producer"

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
        connect: Callable[..., ClientInstance] = ClientInstance,
        **settings: Unpack[Settings],
    ) -> None:
        """Make no connection yet.

        name_servers: `HOST:PORT`, several with semicolons between; or `wakelog.attach()`.
        group: the producer group, which brokers ask about open transactions. check: answers them.
        batching: False sends each message of `send` in a request of its own.
        trace: True notes what became of messages in RMQ_SYS_TRACE_TOPIC (`traceTopicEnable`).
        messages_max, bytes_max: under way at a time; further senders wait as long as a send
            may take whose attempts get no answer: `timeout`, and so long for each of `retries_max`.
        Raises: InvalidArgument, also for certificates that cannot be used.
        """
        self._options = options = make_options(
            name_servers, group, settings, retries_max=RETRIES_MAX
        )
        check_flags(batching=batching, trace=trace)
        if check is not None and not callable(check):
            raise not_accepted("check", check, "a function of the message")
        self._instance = connect(options)
        self._instance.producer_group = options.group
        connections, routes = self._instance.connections, self._instance.routes
        self._delays = Delays(connections, options)
        self._sender = Sender(connections, options, routes=routes)
        self._buffer = SendBuffer(
            self._sender,
            messages_max=whole_number("messages_max", messages_max, 1),
            bytes_max=whole_number("bytes_max", bytes_max, 1),
            requests_max=REQUESTS_MAX if batching else INT_MAX,
            room_seconds_max=(options.timeout_ms + options.waits_ms) / 1000,
        )
        self._ends = TransactionEnds(connections, options, check)
        self._requests = PendingRequests(self._instance.client_id)
        self._instance.answers = {
            int(RequestCode.CHECK_TRANSACTION_STATE): self._ends.answer_check,
            int(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT): self._requests.accept_reply,
        }
        self._ids = UniqueIds(self._instance.address)
        self._tracer = Tracer(self._sender, options, self._ids) if trace else None
        self._topics: dict[str, str] = {}  # in use, with their namespace
        self._introducing: dict[str, asyncio.Future[None]] = {}  # by topic
        self.is_open = False

    def _lone_sender(
        self, run: Callable[[Coroutine[Any, Any, Stored]], Stored]
    ) -> LoneSender | None:
        """Return what sends in other threads than the loop's; None if all has to go by the loop.

        run: has the loop do something, and waits for it.
        """
        options, instance = self._options, self._instance
        connections = instance.connections
        is_plain = options.dial is None and not options.namespace and self._tracer is None
        if not is_plain or not isinstance(connections, RemotingClient):
            return None
        return LoneSender(
            BlockingClient(connections.tls, before_send=signing(options.credentials)),
            options,
            instance.routes,
            self._topics,
            UniqueIds(instance.address),
            lambda request, queue, error: run(self._sender.send_again(request, queue, error)),
        )

    async def start(self) -> None:
        """Check that a name server answers.

        Raises: ClientError, also for a producer that is open or was closed.
        """
        self._check_new()
        self._loop = asyncio.get_running_loop()
        await self._instance.start()
        self.is_open = self._was_started = True

    async def close(self) -> None:
        """Accept no more messages, wait for those under way, and close the connections."""
        self.is_open = False
        self._was_closed = True
        await self._buffer.close()
        self._requests.close()
        if self._tracer is not None:
            await self._tracer.close()
        await self._instance.close()

    async def send(self, topic: str, body: bytes | str, **fields: Unpack[MessageFields]) -> Receipt:
        """Send one message, and return where a broker stored it. `Message` has the fields.

        Raises: InvalidArgument, and nothing was sent; NotAcknowledged, and it may be stored.
        """
        return await self._send_appending(APPENDED.get(), topic, body, fields)

    async def _send_appending(
        self, appended: str, topic: str, body: bytes | str, fields: MessageFields
    ) -> Receipt:
        """Send one message, with these properties of a tool behind its own.

        To set them in the context and to wait there costs a tool 2 µs a message.
        """
        message = message_of(topic, body, fields)
        self._check_loop()
        found = self._encode_now(message, self._ids.make(), appended)
        encoded = found or await self._encode(message, appended=appended)
        if self._tracer is None:
            return await self._buffer.send(encoded)
        began_ms = steady_ms()
        return self._trace(encoded, await self._buffer.send(encoded), began_ms)

    async def send_many(self, messages: Iterable[Message]) -> Sequence[Receipt]:
        """Send messages in batches, and return their receipts in the order of the messages.

        Messages of one sharding key or queue stay in order.
        Raises: InvalidArgument, and nothing was sent; NotAcknowledged, whose `receipts` has None
        for each message without a receipt.
        """
        requests, unique_keys = await self._pack(messages)
        receipts = Receipts(unique_keys)
        failures: list[ClientError] = []

        async def send_or_halve(request: SendRequest) -> None:
            began_ms = steady_ms()
            try:
                stored = await self._buffer.send_request(request)
            except ClientError as error:
                if error.code != ResponseCode.MESSAGE_ILLEGAL or not request.is_batch:
                    raise
                for half in request.halves:  # a broker's maxMessageSize limits a batch, too
                    await send_or_halve(half)
                return
            receipts.add(request.places, stored)
            if self._tracer is not None:
                self._trace_all(request.messages, stored, began_ms)

        async def send_in_order(requests: Sequence[SendRequest]) -> None:
            try:
                for request in requests:
                    await send_or_halve(request)
            except ClientError as error:
                failures.append(error)

        await asyncio.gather(*map(send_in_order, requests))
        if failures:
            failure, known = failures[0], receipts.known()
            cause = (
                f"{known.count(None)} of {len(receipts)} messages were not acknowledged: "
                f"{failure.cause}"
            )
            raise not_acknowledged(cause, failure, known) from failure
        return receipts

    async def send_oneway(self, message: Message) -> None:
        """Send a message that no broker acknowledges: it is lost if anything fails.

        Raises: InvalidArgument; ClientError if there is no connection.
        """
        await self._sender.send_oneway(SendRequest((await self._encode(message),)))

    @asynccontextmanager
    async def transaction(
        self, topic: str, body: bytes | str, **fields: Unpack[MessageFields]
    ) -> AsyncIterator[Transaction]:
        """Send a half message; the end of the block commits it, an exception rolls it back.

        `transaction.state` may be set to another state in the block. RocketMQ delivers a half
        message at once when it is committed: it cannot be delayed.
        Raises: InvalidArgument; NotAcknowledged for the half message, or if no broker acknowledged
        the end. Then the broker asks `check`.
        """
        message = message_of(topic, body, fields)
        if message.delay is not None or whole_number("delay_level", message.delay_level, 0):
            raise InvalidArgument("a transaction cannot be delayed", "Send it without a delay")
        more = {TRANSACTION_PREPARED: "true", PRODUCER_GROUP: self._options.group}
        half = await self._encode(message, more)
        half = half._replace(is_alone=True, sys_flag=half.sys_flag | PREPARED)
        began_ms = steady_ms()
        stored = await self._buffer.send_request(SendRequest((half,)))
        [receipt] = receipts_of((half.unique_key,), stored)
        transaction = Transaction(half, self._trace(half, receipt, began_ms))
        try:
            yield transaction
        except BaseException:
            transaction.state = TransactionState.ROLLBACK
            with suppress(ClientError):  # the broker asks, and the caller's error counts
                await self._end(transaction, waits=False)
            raise
        await self._end(transaction)

    async def _end(self, transaction: Transaction, *, waits: bool = True) -> None:
        receipt = transaction.receipt

        async def end() -> None:
            queues = await self._instance.routes.writable(receipt.topic)
            addresses = {queue.broker: queue.address for queue in queues}
            if receipt.broker not in addresses:
                cause = f"broker {receipt.broker} has no address now"
                raise NotAcknowledged(cause, WILL_BE_ASKED, broker=receipt.broker, passes=True)
            await self._ends.end(addresses[receipt.broker], transaction)

        if self._tracer is not None:
            state = transaction.state.java_name
            self._tracer.add(ended_note(transaction.half, receipt, self._options, wall_ms(), state))
        await (self._instance.wait_out(end) if waits else end())

    def _trace(self, message: EncodedMessage, receipt: Receipt, began_ms: int) -> Receipt:
        """Note a message in the trace, if there is one and the broker wants it."""
        if self._tracer is not None and receipt.region:
            took_ms = steady_ms() - began_ms
            began_wall_ms = wall_ms() - took_ms
            note = stored_note(message, receipt, self._options, began_wall_ms, took_ms)
            self._tracer.add(note)
        return receipt

    def _trace_all(self, messages: Sequence[EncodedMessage], stored: Stored, began_ms: int) -> None:
        receipts = receipts_of([message.unique_key for message in messages], stored)
        for message, receipt in zip(messages, receipts, strict=True):
            self._trace(message, receipt, began_ms)

    async def request(
        self,
        topic: str,
        body: bytes | str,
        *,
        timeout: timedelta = timedelta(seconds=3),
        **fields: Unpack[MessageFields],
    ) -> ReceivedMessage:
        """Send a message, and return the reply of the consumer that received it.

        Raises: InvalidArgument; NotAcknowledged, also if the producer is closed meanwhile;
        NoReply if there is none within `timeout`.
        """
        more = self._requests.begin(max(milliseconds("timeout", timeout), 1))
        try:
            encoded = await self._encode(message_of(topic, body, fields), more)
            await self._buffer.send(encoded)
            return await self._requests.wait(more)
        finally:
            self._requests.end(more)

    async def reply(
        self,
        request: ReceivedMessage,
        body: bytes | str,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Reply to a message of `request`. Raises: InvalidArgument; NotAcknowledged."""
        self._check_loop()
        reply = make_reply(request, body, self._ids.make(), properties)
        await self._sender.send(SendRequest((reply,)))

    async def queues(self, topic: str) -> list[QueueAt]:
        """Return the queues of a topic that may be written to. Raises: ClientError.

        From then on its brokers ask this producer about transactions, as after a message.
        """
        self._check_loop()
        topic = with_namespace(self._options.namespace, plain_topic(topic))
        await self._introduce(topic)
        return await self._instance.routes.writable(topic)

    async def _pack(
        self, given: Iterable[Message]
    ) -> tuple[list[list[SendRequest]], Sequence[str]]:
        """Return lists of requests, each to be sent in order, and the ids of all messages.

        Raises: ClientError.
        """
        if not isinstance(given, Iterable) or isinstance(given, Message | str | bytes):
            raise not_accepted("messages", given, "several, such as [Message(topic, body)]")
        messages = list(given)
        self._check_loop()
        topics = {} if self._options.namespace else self._topics
        appended, unique_keys = APPENDED.get(), self._ids.make_many(len(messages))
        if requests := plain_requests(messages, unique_keys, topics, appended):
            return [[request] for request in requests], unique_keys
        encoded = encode_plain(messages, unique_keys, topics, appended)
        begin = len(encoded)
        for message, unique_key in zip(messages[begin:], unique_keys[begin:], strict=True):
            found = self._encode_now(message, unique_key, appended)
            encoded.append(found or await self._encode(message))
        requests_in_order = pack(encoded, bytes_max=BATCH_BYTES_MAX, rows_max=BATCH_MESSAGES_MAX)
        return requests_in_order, [message.unique_key for message in encoded]

    def _encode_now(
        self, message: Message, unique_key: str, appended: str
    ) -> EncodedMessage | None:
        """Return the message; None if it needs `_encode`, which may have to ask a server.

        Raises: InvalidArgument.
        """
        try:
            topic = self._topics.get(message.topic)
            if topic is None or message.delay is not None or self._options.namespace:
                return None
            level = message.delay_level
            return encode(message, unique_key, topic, level, None, appended)
        except (AttributeError, TypeError):
            plain_message(message)
            raise

    async def _encode(
        self,
        message: Message,
        more: Mapping[str, str] | None = None,
        *,
        appended: str | None = None,
    ) -> EncodedMessage:
        """Return the message with its id and its level of delay. Raises: ClientError.

        appended: properties of a tool, None for those of the context.
        """
        self._check_loop()
        try:
            topic = self._topics.get(message.topic)
            if topic is None:
                topic = await self._use(plain_text("topic", message.topic))
            level = message.delay_level
            if message.delay is not None:
                level = await self._delay_level(message, topic)
            if self._options.namespace:
                more = {INSTANCE_ID: self._options.namespace, **(more or {})}
            if appended is None:
                appended = APPENDED.get()
            return encode(message, self._ids.make(), topic, level, more, appended)
        except (AttributeError, TypeError):
            plain_message(message)
            raise

    async def _use(self, name: str) -> str:
        """Return the name of a topic with its namespace, once its brokers know this client."""
        if name not in self._topics:
            topic = with_namespace(self._options.namespace, name)
            if not is_topic(topic):
                return topic  # `encode` refuses it
            await self._introduce(topic)
            self._topics[name] = topic
        return self._topics[name]

    async def _introduce(self, topic: str) -> None:
        """Let the brokers of a topic know this client: they ask it about its transactions.

        Senders that come meanwhile wait for the same answers, and so keep their order.
        """
        task = self._introducing.get(topic)
        if task is None:
            task = awaited(self._meet_brokers(topic))
            self._introducing[topic] = task
            task.add_done_callback(lambda _: self._introducing.pop(topic))
        await asyncio.shield(task)

    async def _meet_brokers(self, topic: str) -> None:
        with suppress(ClientError):  # sending asks again, and reports what fails
            await self._instance.routes.writable(topic)
            await self._instance.heartbeat()

    async def _delay_level(self, message: Message, topic: str) -> int:
        """Return the level of the shortest delay that is long enough. Raises: ClientError."""
        assert message.delay is not None
        if message.delay_level:
            raise InvalidArgument("delay and delay_level are both given", "Give one of them")
        delay = message.delay

        async def level() -> int:
            [queue, *_] = await self._instance.routes.writable(topic)
            return await self._delays.level(delay, queue.address)

        return await self._instance.wait_out(level)


PLAIN_SEND: Final = Producer.send
"""`send` itself, also while a tool has put another one in its place."""
