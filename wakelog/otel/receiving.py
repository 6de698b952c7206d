"""Spans of a consumer: of what it fetches, and of the work on each message.

    fetch               a span "receive", with a link to the context of each message
    the iteration       a span "process" for each message, a child of the message's context. It is
                        the current one until the next message, and ends with `ack`, `nack` or
                        `reject`
    process(*messages)  the same for a block of the user's: for one message or for a run of them

A "process" span of several messages has links to their contexts, and no such parent.

Invariants: whatever becomes of a message, its span ends: with `ack` or `nack`, when the consumer is
closed, or when nobody has the message any more.
"""

import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from time import time_ns
from typing import Any, Final

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind

from wakelog.client import sync
from wakelog.client.consumer import Consumer
from wakelog.client.consumer_message import ConsumerMessage, by_origin
from wakelog.client.options import without_namespace
from wakelog.client.plain import not_accepted
from wakelog.client.received import ReceivedMessage
from wakelog.otel import attributes
from wakelog.otel.guarded import (
    add_attributes,
    add_error,
    add_error_type,
    add_exception,
    end_span,
    start_span,
)
from wakelog.otel.instruments import Instruments, is_suppressed, now_seconds
from wakelog.otel.passed_on import UnsampledSpan, WorkContext, leave_work_on, pass_on
from wakelog.otel.propagation import SPAN_KEY, context_of, has_context, is_unsampled, links_to

Method = Callable[..., Any]

_SHARED_PREFIX: Final = "%"
"""Of a retry topic and of a light queue, which have messages of several topics."""
NACKED, REJECTED, LEFT = "nack", "reject", "not acknowledged"
"""The error of a span whose message comes again, is a dead letter, or was not settled."""


class Processing:
    """The span of the work on messages, from its begin on."""

    __slots__ = (
        "_before", "_began", "_came", "_during", "_has_ended", "_measures", "_record", "_span",
        "group", "topic",
    )  # fmt: skip

    def __init__(
        self,
        instruments: Instruments,
        span: Span,
        topic: str,
        group: str,
        came: Context | None,
        *,
        measures: bool,
    ) -> None:
        """Begin now. came: the context of the one message. measures: whether metrics have it."""
        self._record = instruments.processed
        self._span, self.topic, self.group = span, topic, group
        self._came = came if came is not None and len(came) > 1 else None  # such as baggage
        self._measures = measures
        self._began = now_seconds()
        self._has_ended = False
        self._before: Context | None = None
        self._during: Context | None = None

    def enter(self) -> None:
        """Make the span the current one, with the baggage of the message."""
        self._before = before = contexts.get_current()
        self._during = Context({**before, **(self._came or {}), SPAN_KEY: self._span})
        contexts.attach(self._during)

    def leave(self) -> None:
        """Make current what was before; nothing where another span is the current one."""
        if self._before is not None and contexts.get_current() is self._during:
            # No token: the end of a generator may come in another task than its begin.
            contexts.attach(self._before)

    def end(self, error: str = "") -> None:
        """End the span, once. error: its type, "" for none."""
        if self._has_ended:
            return
        self._has_ended = True
        if error:
            add_error_type(self._span, error)
        end_span(self._span)
        if self._measures:
            self._record(self.topic, self.group, self._began, error, self._during)


class ReceiveSpans:
    """See the module. Its functions take a method of the client, and return what replaces it."""

    def __init__(self, instruments: Instruments) -> None:
        """instruments: what records."""
        self._instruments = instruments
        self._open: dict[weakref.ref[ConsumerMessage], Processing] = {}

    # Methods of Consumer

    def fetch(self, method: Method) -> Method:
        """Return `Consumer.fetch` with a span, unless nothing comes."""

        def fetch(
            self_: Consumer, *given: Any, **named: Any
        ) -> Coroutine[Any, Any, list[ConsumerMessage]]:
            running: Coroutine[Any, Any, list[ConsumerMessage]] = method(self_, *given, **named)
            return self._fetch(self_, running) if self._observes() else running

        return fetch

    async def _fetch(
        self, consumer: Consumer, running: Coroutine[Any, Any, list[ConsumerMessage]]
    ) -> list[ConsumerMessage]:
        began_ns, began = time_ns(), now_seconds()
        try:
            messages = await running
        except Exception as error:
            self._refused(consumer, began_ns, error)
            raise
        if messages:
            group = _group(consumer)
            counts = _counts(messages)
            if self._instruments.measures:
                self._instruments.received(counts, group, began)
            self._fetched(consumer, messages, counts, began_ns)
        return messages

    def iterate(self, method: Method) -> Method:
        """Return `Consumer.__aiter__` with a span for the work on each message."""

        async def iterate(self_: Consumer) -> AsyncIterator[ConsumerMessage]:
            async for message in method(self_):
                processing = self._begin_one(message)
                try:
                    yield message
                finally:
                    if processing is not None:
                        processing.leave()

        return iterate

    def ack(self, method: Method) -> Method:
        """Return `Consumer.ack`, which ends the spans of its messages."""

        async def end(running: Coroutine[Any, Any, None], messages: Sequence[Any]) -> None:
            await running
            for message in messages:
                self._end_one(message)

        def ack(self_: Consumer, *messages: ConsumerMessage) -> Coroutine[Any, Any, None]:
            running: Coroutine[Any, Any, None] = method(self_, *messages)
            if self._open:
                return end(running, messages)
            leave_work_on(messages)
            return running

        return ack

    def nack(self, method: Method) -> Method:
        """Return `Consumer.nack`, which ends the span of its message with an error."""

        async def nack(
            self_: Consumer, message: ConsumerMessage, delay: timedelta | None = None
        ) -> None:
            await method(self_, message, delay)
            self._end_one(message, NACKED)

        return nack

    def reject(self, method: Method) -> Method:
        """Return `Consumer.reject`, which ends the span of its message with an error."""

        async def reject(self_: Consumer, message: ConsumerMessage) -> None:
            await method(self_, message)
            self._end_one(message, REJECTED)

        return reject

    def close(self, method: Method) -> Method:
        """Return `Consumer.close`, which ends the spans of what was not settled."""

        async def close(self_: Consumer) -> None:
            await method(self_)
            for reference in list(self._open):
                message = reference()
                if message is not None and message.settler is self_:
                    self._end_one(message, LEFT)

        return close

    # Methods of the blocking twins: their user's thread has a context of its own

    def iterate_blocking(self, method: Method) -> Method:
        """Return `__iter__` of the blocking Consumer with a span for the work on each message."""

        def iterate(self_: sync.Consumer) -> Iterator[sync.ConsumerMessage]:
            for message in method(self_):
                processing = self._begin_one(message.twin)
                try:
                    yield message
                finally:
                    if processing is not None:
                        processing.leave()

        return iterate

    def settle_blocking(self, method: Method) -> Method:
        """Return `ack` or `nack` of the blocking message, after which no span is current."""

        def settle(self_: sync.ConsumerMessage, *given: Any, **named: Any) -> None:
            processing = self._opened(self_.twin)
            method(self_, *given, **named)
            if processing is not None:
                processing.leave()
            else:
                leave_work_on((self_.twin,))

        return settle

    def ack_blocking(self, method: Method) -> Method:
        """Return `ack` of the blocking Consumer, after which no span is current."""

        def ack(self_: sync.Consumer, *messages: sync.ConsumerMessage) -> None:
            twins = [each.twin for each in messages if hasattr(each, "twin")]
            found = [(twin, self._opened(twin)) for twin in twins]
            method(self_, *messages)
            for twin, processing in found:
                if processing is not None:
                    processing.leave()
                else:
                    leave_work_on((twin,))

        return ack

    # Blocks of users

    @contextmanager
    def process(self, messages: Sequence[ReceivedMessage]) -> Iterator[Span]:
        """Have a span for the work on messages in a block."""
        twins = [getattr(message, "twin", message) for message in messages]
        for twin in twins:
            if not isinstance(twin, ReceivedMessage):
                raise not_accepted("a message", twin, "messages that a consumer gave")
        processing = self._begin(twins) if twins else None
        if processing is None:
            yield trace.INVALID_SPAN
            return
        processing.enter()
        span = trace.get_current_span()
        try:
            yield span
        except BaseException as error:
            add_exception(span, error)
            processing.end(type(error).__qualname__)
            raise
        finally:
            processing.leave()
            processing.end()

    # Spans

    def _observes(self) -> bool:
        """Return whether something may be recorded here."""
        instruments = self._instruments
        if instruments.tracer is None and not instruments.measures:
            return False
        return not is_suppressed(contexts.get_current())

    def _begin_one(self, message: ConsumerMessage) -> Processing | WorkContext | None:
        """Begin the work on a message of an iteration, and be the current span."""
        if not self._observes():
            before = contexts.get_current()
            if not has_context(message) or is_suppressed(before):
                return None
            return pass_on(message, before)
        processing = self._begun([message], observes=True)
        if self._instruments.measures:
            self._instruments.received([(processing.topic, 1)], processing.group, None)
        # Not of the message: else it would hold itself.
        self._open[weakref.ref(message, self._left)] = processing
        processing.enter()
        return processing

    def _left(self, message: weakref.ref[ConsumerMessage]) -> None:
        """End the span of a message that nobody has any more."""
        processing = self._open.pop(message, None)
        if processing is not None:
            processing.end(LEFT)

    def _opened(self, message: ConsumerMessage) -> Processing | None:
        return self._open.get(weakref.ref(message)) if self._open else None

    def _end_one(self, message: ConsumerMessage, error: str = "") -> None:
        processing = self._open.pop(weakref.ref(message), None) if self._open else None
        if processing is not None:
            processing.end(error)
            processing.leave()
        else:
            leave_work_on((message,))

    def _begin(self, messages: Sequence[ReceivedMessage]) -> Processing | None:
        """Begin the work on messages; None if nothing records it, and no context came along."""
        observes = self._observes()
        has = len(messages) == 1 and has_context(messages[0])
        if not observes and (not has or is_suppressed(contexts.get_current())):
            return None
        return self._begun(messages, observes=observes)

    def _begun(self, messages: Sequence[ReceivedMessage], *, observes: bool) -> Processing:
        first, instruments = messages[0], self._instruments
        settler = getattr(first, "settler", None)
        topic, group = first.topic, _group(settler)
        context: Context | None = None  # of several messages the caller's
        span = self._unsampled(first) if len(messages) == 1 else None
        if span is None:
            context = context_of(first) if len(messages) == 1 else None
            span = self._work_span(messages, context, topic, group, _model(settler))
        measures = observes and instruments.measures
        return Processing(instruments, span, topic, group, context, measures=measures)

    def _unsampled(self, message: ReceivedMessage) -> Span | None:
        """Return a span that is certainly not recorded, as its parent is not; else None."""
        if self._instruments.tracer is None or (quick := self._instruments.quick) is None:
            return None
        text = message.record.properties_text
        if not quick.follows_parent or not is_unsampled(text):
            return None
        return UnsampledSpan(text, quick.span_id())

    def _work_span(
        self,
        messages: Sequence[ReceivedMessage],
        context: Context | None,
        topic: str,
        group: str,
        model: str,
    ) -> Span:
        """Begin the span of the work on messages. context: of the only one; None for several."""
        tracer, quick, kind = self._instruments.tracer, self._instruments.quick, SpanKind.CONSUMER
        if tracer is None:
            return NonRecordingSpan(trace.get_current_span(context).get_span_context())
        process, namespace = attributes.PROCESS, messages[0].namespace
        what = attributes.operation(process, process, topic, namespace, group, model)
        found = links_to(messages) if context is None else _links_in(context)
        links = [Link(each, {}) for each in found]
        if quick is not None:
            around = contexts.get_current() if context is None else context
            begun = quick.begin(around, what.name, kind, what.attributes, links=links)
            if not begun.is_recorded:
                return begun.span
            more = attributes.of_messages(messages)
            return quick.late(begun, {**(begun.attributes or {}), **more}, links)
        span = start_span(
            tracer, what.name, context, kind=kind, attributes=what.attributes, links=links
        )
        if span.is_recording():
            add_attributes(span, attributes.of_messages(messages))
        return span

    def _fetched(
        self,
        consumer: Consumer,
        messages: Sequence[ConsumerMessage],
        counts: Sequence[tuple[str, int]],
        began_ns: int,
    ) -> None:
        """Record a fetch that returned messages."""
        tracer, quick = self._instruments.tracer, self._instruments.quick
        if tracer is None:
            return
        topic = counts[0][0] if len(counts) == 1 else ""
        what = attributes.operation(
            "fetch",
            attributes.RECEIVE,
            topic,
            consumer.namespace,
            _group(consumer),
            _model(consumer),
        )
        if quick is not None:
            context = contexts.get_current()
            begun = quick.begin(
                context, what.name, SpanKind.CLIENT, what.attributes, began_ns=began_ns
            )
            if begun.is_recorded:
                links = [Link(each, {}) for each in links_to(messages)]
                found = {**(begun.attributes or {}), **attributes.of_messages(messages)}
                quick.end(begun, found, links)
            return
        span = start_span(
            tracer, what.name, kind=SpanKind.CLIENT, attributes=what.attributes, start_time=began_ns
        )
        if span.is_recording():
            add_attributes(span, attributes.of_messages(messages))
            for each in links_to(messages):
                span.add_link(each)
        end_span(span)

    def _refused(self, consumer: Consumer, began_ns: int, error: Exception) -> None:
        tracer = self._instruments.tracer
        if tracer is None:
            return
        what = attributes.operation(
            "fetch", attributes.RECEIVE, "", consumer.namespace, _group(consumer), _model(consumer)
        )
        span = start_span(
            tracer, what.name, kind=SpanKind.CLIENT, attributes=what.attributes, start_time=began_ns
        )
        add_error(span, error)
        end_span(span)


_in_use: list[ReceiveSpans] = []
"""Those of the instrumentor that is in place: one at most."""


@contextmanager
def process(*messages: ReceivedMessage) -> Iterator[Span]:
    """Have a span for the work on messages in this block, and their context as the current one.

    It is for messages of `fetch`; the messages of an iteration have a span each. Of several
    messages it has links to their contexts, and keeps the caller's trace. Without an instrumentor
    it does nothing.
    """
    if not _in_use:
        yield trace.INVALID_SPAN
        return
    with _in_use[0].process(messages) as span:
        yield span


def use(spans: ReceiveSpans | None) -> None:
    """Have `process` record by these, or by none."""
    _in_use[:] = [] if spans is None else [spans]


def _group(settler: Any) -> str:
    return settler._options.group if isinstance(settler, Consumer) else ""


def _model(settler: Any) -> str:
    is_broadcast = isinstance(settler, Consumer) and settler._is_broadcast
    return attributes.BROADCASTING if is_broadcast else attributes.CLUSTERING


def _counts(messages: Sequence[ConsumerMessage]) -> list[tuple[str, int]]:
    """Return how many messages there are of each topic, and decode as few as that takes."""
    counts = Counter[str]()
    for origin, run in by_origin(messages).items():
        topic = origin.queue.topic
        if topic.startswith(_SHARED_PREFIX):
            counts.update(message.topic for message in run)
        else:
            counts[without_namespace(origin.settler.namespace, topic)] += len(run)
    return list(counts.items())


def _links_in(context: Context) -> list[SpanContext]:
    """Return the context of a message's sender, if there is one."""
    found = trace.get_current_span(context).get_span_context()
    return [found] if found.is_valid else []
