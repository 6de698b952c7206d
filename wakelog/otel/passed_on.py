"""The context that came with a message, as the current one where nothing records the work.

It is read when somebody asks for the current span: most programs without an SDK never do. One with
baggage is read at once.

Invariants: neither the context nor its span keeps the message once it is left.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanContext, TraceFlags

from wakelog.client.consumer_message import ConsumerMessage
from wakelog.otel.propagation import SPAN_KEY, context_in, has_more_than_span

_current: Final = contexts.get_current


class PassedOnSpan(trace.NonRecordingSpan):
    """The span of a message's sender."""

    def __init__(self, properties_text: str) -> None:
        """Read nothing yet."""
        self._text = properties_text
        self._found: SpanContext | None = None

    def get_span_context(self) -> SpanContext:
        """Return what the properties say; an invalid one if they are damaged."""
        if self._found is None:
            sender: Span = trace.get_current_span(context_in(self._text))
            self._found = sender.get_span_context()
        return self._found

    def __repr__(self) -> str:
        """Name the span."""
        return f"{type(self).__name__}({self.get_span_context()!r})"


class UnsampledSpan(PassedOnSpan):
    """The span of the work on a message, which is not sampled, as its sender's is not."""

    def __init__(self, properties_text: str, span_id: int) -> None:
        """Read nothing yet."""
        super().__init__(properties_text)
        self._span_id = span_id

    def get_span_context(self) -> SpanContext:
        """Return the context of a child of the sender's span."""
        sender = super().get_span_context()
        flags = TraceFlags(sender.trace_flags & ~TraceFlags.SAMPLED)
        return SpanContext(sender.trace_id, self._span_id, False, flags, sender.trace_state)


class WorkContext(Context):
    """The context of the work on a message, until it is left.

    message: None once it has been left. before: what was current.
    """

    message: ConsumerMessage | None
    before: Context

    def leave(self) -> None:
        """Leave it for good: the message is kept no more."""
        self.message = None
        self.step_out()

    def step_out(self) -> None:
        """Make current what was before; nothing where another context is the current one."""
        if _current() is self:
            # No token: the end of a generator may come in another task than its begin.
            contexts.attach(self.before)


def pass_on(message: ConsumerMessage, before: Context) -> WorkContext:
    """Make the context of a message the current one. before: what is current."""
    text = message.record.properties_text
    came: Mapping[str, object] = (
        context_in(text) if has_more_than_span(text) else {SPAN_KEY: PassedOnSpan(text)}
    )
    context = WorkContext({**before, **came})
    context.message, context.before = message, before
    contexts.attach(context)
    return context


def leave_work_on(messages: Sequence[object]) -> None:
    """Leave the current context if it is that of the work on one of these messages."""
    while type(context := _current()) is WorkContext and any(
        context.message is message for message in messages
    ):
        context.step_out()  # of this thread or task: another may have a copy
