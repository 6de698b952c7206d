"""Spans of a producer: one for each call, and its context in each message of the call.

    send, send_oneway, reply    one message; the span's context is the message's
    send_many                   one span for the list, whose context all of its messages have
    transaction                 the span is of the half message; the block is the user's
    request                     the span ends with the reply, and has a link to that

Each function takes a method of the client and returns what stands in its place. A single `send` has
a quick span where that is possible: it is the call of which there are most.
"""

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from operator import attrgetter
from typing import Any, Final

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.semconv._incubating.attributes import messaging_attributes as messaging
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from wakelog.client.appended import APPENDED, with_appended
from wakelog.client.messages import Message, SendRequest
from wakelog.client.options import without_namespace
from wakelog.client.producer import PLAIN_SEND, Producer
from wakelog.client.receipts import Receipt
from wakelog.client.received import ReceivedMessage
from wakelog.client.send_command import Stored
from wakelog.client.sender import Sender
from wakelog.otel import attributes
from wakelog.otel.begun import Begun
from wakelog.otel.guarded import add_attributes, add_error, end_span, log_failure, start_span
from wakelog.otel.instruments import Instruments, is_suppressed, now_seconds
from wakelog.otel.propagation import (
    is_default,
    links_to,
    properties_of,
    properties_within,
)
from wakelog.otel.quick_spans import UNSET, QuickSpans
from wakelog.otel.roots import NOT_DRAWN, Root
from wakelog.protocol.names import TRACE_TOPIC

Method = Callable[..., Any]

_TOPIC: Final[Callable[[Any], Any]] = attrgetter("topic")
_NO_SPAN: Final = trace.INVALID_SPAN


class SendSpans:
    """See the module."""

    def __init__(self, instruments: Instruments) -> None:
        """instruments: what records."""
        self._instruments = instruments

    # Methods of Producer

    def send(self, method: Method) -> Method:
        """Return `Producer.send` with a span."""

        instruments, current = self._instruments, contexts.get_current
        send_appending = _send_appending(method)

        def send(
            self_: Producer, topic: str, body: bytes | str, **fields: Any
        ) -> Coroutine[Any, Any, Receipt]:
            context, root = current(), NOT_DRAWN
            if instruments.tracer is None or (context and is_suppressed(context)):
                running: Coroutine[Any, Any, Receipt] = method(self_, topic, body, **fields)
                return _passing_on(running) if context else running
            if (quick := instruments.quick) is None:
                return self._send(method, self_, topic, body, fields)
            if not context and is_default():
                root = quick.draw()
                if root.properties and not root.trace_id:
                    return send_appending(self_, root.properties, topic, body, fields)
            return _send_quickly(quick, context, root, send_appending, self_, topic, body, fields)

        return send

    async def _send(
        self, method: Method, client: Producer, topic: str, body: Any, fields: dict[str, Any]
    ) -> Receipt:
        span = self._begin(client, "send", topic, body, fields)
        receipt: Receipt = await _within(span, method(client, topic, body, **fields))
        if span.is_recording():
            add_attributes(span, _stored_at(receipt))
        end_span(span)
        return receipt

    def send_many(self, method: Method) -> Method:
        """Return `Producer.send_many` with a span for the whole list."""

        async def send_many(self_: Producer, messages: Iterable[Message]) -> Sequence[Receipt]:
            if not self._records():
                found: Sequence[Receipt] = await _passing_on(method(self_, messages))
                return found
            if isinstance(messages, Iterable) and not isinstance(messages, Message | str | bytes):
                messages = list(messages)
            span = self._begin_list(self_, messages)
            receipts: Sequence[Receipt] = await _within(span, method(self_, messages))
            end_span(span)
            return receipts

        return send_many

    def send_oneway(self, method: Method) -> Method:
        """Return `Producer.send_oneway` with a span."""

        async def send_oneway(self_: Producer, message: Message) -> None:
            topic = getattr(message, "topic", "")
            fields = message._asdict() if isinstance(message, Message) else {}
            span = self._begin(self_, "send_oneway", topic, fields.get("body"), fields)
            await _within(span, method(self_, message))
            end_span(span)

        return send_oneway

    def transaction(self, method: Method) -> Method:
        """Return `Producer.transaction` with a span for its half message."""

        @asynccontextmanager
        async def transaction(
            self_: Producer, topic: str, body: bytes | str, **fields: Any
        ) -> AsyncIterator[Any]:
            span = self._begin(self_, "transaction", topic, body, fields)
            manager = method(self_, topic, body, **fields)
            opened = await _within(span, manager.__aenter__())
            if span.is_recording():
                kind = {messaging.MESSAGING_ROCKETMQ_MESSAGE_TYPE: attributes.TRANSACTION}
                add_attributes(span, _stored_at(opened.receipt) | kind)
            end_span(span)
            try:
                yield opened
            except BaseException as error:
                if not await manager.__aexit__(type(error), error, error.__traceback__):
                    raise
            else:
                await manager.__aexit__(None, None, None)

        return transaction

    def request(self, method: Method) -> Method:
        """Return `Producer.request` with a span that ends with the reply."""

        async def request(
            self_: Producer, topic: str, body: bytes | str, **fields: Any
        ) -> ReceivedMessage:
            span = self._begin(self_, "request", topic, body, fields)
            reply: ReceivedMessage = await _within(span, method(self_, topic, body, **fields))
            if span.is_recording():
                for context in links_to([reply]):
                    span.add_link(context)
            end_span(span)
            return reply

        return request

    def reply(self, method: Method) -> Method:
        """Return `reply` of a Producer or a Consumer with a span."""

        async def reply(
            self_: Any, request: ReceivedMessage, body: bytes | str, *others: Any, **named: Any
        ) -> None:
            topic = request.topic if isinstance(request, ReceivedMessage) else ""
            span = self._begin(self_, "reply", topic, body, {})
            await _within(span, method(self_, request, body, *others, **named))
            end_span(span)

        return reply

    # A method of Sender

    def send_request(self, method: Method) -> Method:
        """Return `Sender.send`, recorded; a reply gets the current context here."""

        instruments, current = self._instruments, contexts.get_current

        def send(self_: Sender, request: SendRequest) -> Coroutine[Any, Any, Stored]:
            first = request.first
            if first.is_reply:
                appended = properties_of(current())
                text = with_appended(first.properties, appended)
                request = request._replace(messages=(first._replace(properties=text),))
            if first.topic == TRACE_TOPIC or not instruments.measures or is_suppressed(current()):
                unrecorded: Coroutine[Any, Any, Stored] = method(self_, request)
                return unrecorded
            return _measured(instruments.requested, method, self_, request)

        return send

    def _records(self) -> bool:
        """Return whether a span that begins here may be recorded."""
        return self._instruments.tracer is not None and not is_suppressed(contexts.get_current())

    def _begin(
        self, client: Any, name: str, topic: object, body: object, fields: Mapping[str, Any]
    ) -> Span:
        """Begin the span of a call, with what the user gave: the call itself refuses the rest."""
        tracer = self._instruments.tracer
        if tracer is None or not self._records():
            return _NO_SPAN
        topic = attributes.plain_text(topic)
        what = attributes.operation(name, attributes.SEND, topic, client._options.namespace)
        span = start_span(tracer, what.name, kind=SpanKind.PRODUCER, attributes=what.attributes)
        if span.is_recording():
            found: attributes.Attributes = {}
            attributes.add_fields(found, body, fields)
            add_attributes(span, found)
        return span

    def _begin_list(self, client: Producer, messages: object) -> Span:
        tracer = self._instruments.tracer
        assert tracer is not None
        given = messages if isinstance(messages, list) else []
        try:
            topics = set(map(_TOPIC, given))
        except (AttributeError, TypeError):
            topics = set()  # the call itself refuses them
        [topic] = topics if len(topics) == 1 else [""]
        topic = attributes.plain_text(topic)
        what = attributes.operation("send_many", attributes.SEND, topic, client._options.namespace)
        span = start_span(tracer, what.name, kind=SpanKind.PRODUCER, attributes=what.attributes)
        if span.is_recording():
            add_attributes(span, {messaging.MESSAGING_BATCH_MESSAGE_COUNT: len(given)})
        return span


def _passing_on(running: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
    """Return a call that gives the current context to its messages; without one, the call."""
    context = contexts.get_current()
    return _appending(properties_of(context), running) if context else running


async def _appending(properties: str, running: Awaitable[Any]) -> Any:
    """Wait for a call, each message of which has these properties, too."""
    token = APPENDED.set(properties)
    try:
        return await running
    finally:
        APPENDED.reset(token)


def _send_appending(method: Method) -> Callable[..., Coroutine[Any, Any, Receipt]]:
    """Return what sends by a method, with properties that are given."""
    if method is PLAIN_SEND:
        return Producer._send_appending

    def send(
        client: Producer, properties: str, topic: str, body: Any, fields: dict[str, Any]
    ) -> Coroutine[Any, Any, Receipt]:
        return _appending(properties, method(client, topic, body, **fields))

    return send


async def _within(span: Span, running: Coroutine[Any, Any, Any]) -> Any:
    """Wait with the span as the current one. An error ends it, and goes on to the caller."""
    token = contexts.attach(trace.set_span_in_context(span)) if span is not _NO_SPAN else None
    try:
        return await _passing_on(running)
    except BaseException as error:
        add_error(span, error)
        end_span(span)
        raise
    finally:
        if token is not None:
            contexts.detach(token)


async def _send_quickly(
    quick: QuickSpans,
    context: Context,
    root: Root,
    send: Callable[..., Coroutine[Any, Any, Receipt]],
    client: Producer,
    topic: str,
    body: bytes | str,
    fields: dict[str, Any],
) -> Receipt:
    name = topic if type(topic) is str else attributes.plain_text(topic)
    what = attributes.operation("send", attributes.SEND, name, client._options.namespace)
    if properties := root.properties:
        span = quick.begin_root(root, what.name, SpanKind.PRODUCER, what.attributes)
    else:
        span = quick.begin(context, what.name, SpanKind.PRODUCER, what.attributes)
        properties = properties_within(span, context)
    try:
        receipt = await send(client, properties, topic, body, fields)
    except BaseException as error:
        if span.is_recorded:
            _end_quickly(quick, span, error, body, fields)
        raise
    if span.is_recorded:
        _end_quickly(quick, span, receipt, body, fields)
    return receipt


def _end_quickly(
    quick: QuickSpans,
    span: Begun,
    outcome: object,
    body: object,
    fields: Mapping[str, Any],
) -> None:
    """End the span of a call of `send`. outcome: a receipt or an error."""
    try:
        found, status = {**(span.attributes or {})}, UNSET
        if isinstance(outcome, BaseException):
            found.update(attributes.of_error(outcome))
            status = Status(StatusCode.ERROR, str(outcome))
        else:
            found.update(_stored_at(outcome))
        attributes.add_fields(found, body, fields)
        quick.end(span, found, status=status)
    except Exception:
        log_failure("recording a send")


async def _measured(
    requested: Callable[..., None], method: Method, sender: Sender, request: SendRequest
) -> Stored:
    topic, count = request.first.topic, len(request.messages)
    if namespace := sender._options.namespace:
        topic = without_namespace(namespace, topic)
    began = now_seconds()
    try:
        stored: Stored = await method(sender, request)
    except BaseException as error:
        requested(topic, "", count, began, attributes.error_type(error))
        raise
    requested(topic, stored.queue.address, count, began)
    return stored


def _stored_at(receipt: object) -> attributes.Attributes:
    if not isinstance(receipt, Receipt):  # of what another tool put in the place of a method
        return {}
    return {
        **attributes.of_queue(receipt.address, receipt.queue_id),
        messaging.MESSAGING_MESSAGE_ID: receipt.message_id,
    }
