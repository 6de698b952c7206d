"""The context of a trace among the properties of a message, as the propagators write it.

The global propagator decides the names: `traceparent`, `tracestate` and `baggage` by default. The
Java agent writes and reads the same ones.

Invariants: a message that has a context already keeps it, and one whose properties would become too
long goes without.

Source: io.opentelemetry.instrumentation.rocketmqclient.v4_8.{MapSetter, TextMapExtractAdapter}.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import Final

from opentelemetry import baggage, propagate, trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from wakelog.client.appended import APPENDED_BYTES_MAX
from wakelog.client.received import ReceivedMessage
from wakelog.otel.begun import LINKS_MAX, Begun
from wakelog.otel.guarded import extract, inject
from wakelog.protocol.properties import (
    NAME_VALUE_SEPARATOR,
    PROPERTY_SEPARATOR,
    decode_properties,
)

_SEPARATORS: Final = (NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR)
_PARENT: Final = f"traceparent{NAME_VALUE_SEPARATOR}"
TRACEPARENT: Final = f"{PROPERTY_SEPARATOR}{_PARENT}00-"
"""How a context begins among properties, with the separator before it."""
_STATE: Final = f"tracestate{NAME_VALUE_SEPARATOR}"
_BAGGAGE: Final = f"baggage{NAME_VALUE_SEPARATOR}"
[SPAN_KEY] = trace.set_span_in_context(trace.INVALID_SPAN, Context())
"""The key of a context that has a span."""
_PLAIN: Final = re.compile(
    f"traceparent{NAME_VALUE_SEPARATOR}00-([0-9a-f]{{32}})-([0-9a-f]{{16}})-([0-9a-f]{{2}})"
)
"""A context as W3C's propagator writes it, without a state."""
_UNSAMPLED: Final = re.compile(
    f"traceparent{NAME_VALUE_SEPARATOR}00-(?!0{{32}})[0-9a-f]{{32}}-(?!0{{16}})[0-9a-f]{{16}}"
    f"-[0-9a-f][02468ace](?![^{PROPERTY_SEPARATOR}])"
)
"""One that is valid, of a trace that is not sampled."""


def properties_of(context: Context) -> str:
    """Return a context as encoded properties with a separator before each; "" for none.

    A context that is too long to travel, such as of much baggage, is left out.
    """
    if not context:
        return ""
    carrier: dict[str, str] = {}
    inject(carrier, context)
    text = "".join(
        f"{PROPERTY_SEPARATOR}{name}{NAME_VALUE_SEPARATOR}{value}"
        for name, value in carrier.items()
        if value and not any(each in name + value for each in _SEPARATORS)
    )
    return text if len(text.encode()) <= APPENDED_BYTES_MAX else ""


def properties_within(begun: Begun, context: Context) -> str:
    """Return the properties of a span's messages. context: the one that it has begun in."""
    if begun.state or not is_default() or (context and baggage.get_all(context)):
        return properties_of(trace.set_span_in_context(begun.span, context))
    return plain_properties(begun.trace_id, begun.span_id, begun.flags)


def plain_properties(trace_id: int, span_id: int, flags: int) -> str:
    """Return the properties of a context without more; they are right where `is_default` is."""
    # Half the time of a format: one digit at a time is written there.
    ids = (trace_id << 64 | span_id).to_bytes(24, "big").hex("-", -16)
    return f"{TRACEPARENT}{ids}-0{flags}"


def has_context(message: ReceivedMessage) -> bool:
    """Return whether a message may have a context."""
    text = message.record.properties_text
    for begin in _begins(propagate.get_global_textmap()):  # noqa: SIM110 - twice as fast
        if begin in text:
            return True
    return False


def context_of(message: ReceivedMessage) -> Context:
    """Return the context that came with a message; an empty one without."""
    return context_in(message.record.properties_text)


def context_in(properties_text: str) -> Context:
    """Return the context among encoded properties; an empty one without."""
    if is_default() and not (_BAGGAGE in properties_text or _STATE in properties_text):
        pair = _pair(properties_text, _PARENT)
        if not pair:
            return Context()
        if (found := _plain_context(pair)) is not None:
            return Context({SPAN_KEY: NonRecordingSpan(found)})
    elif not _pairs(properties_text, _begins(propagate.get_global_textmap())):
        return Context()
    return extract(decode_properties(properties_text))


def has_more_than_span(properties_text: str) -> bool:
    """Return whether the context among encoded properties may have more than a span."""
    return _BAGGAGE in properties_text or not is_default()


def is_unsampled(properties_text: str) -> bool:
    """Return whether encoded properties have a context of a trace that is not sampled, and no more.

    False where that would have to be asked from the propagators.
    """
    if has_more_than_span(properties_text) or _STATE in properties_text:
        return False
    place = _place(properties_text, _PARENT)
    return place >= 0 and _UNSAMPLED.match(properties_text, place) is not None


def links_to(messages: Sequence[ReceivedMessage]) -> list[SpanContext]:
    """Return the context of each of the first `LINKS_MAX` messages that has one, once."""
    names = _begins(propagate.get_global_textmap())
    texts = [message.record.properties_text for message in islice(messages, LINKS_MAX)]
    first = _pairs(texts[0], names)
    found: list[tuple[str, ...]]
    if len(first) == 1 and PROPERTY_SEPARATOR.join(texts).count(first[0]) == len(texts):
        found = [first]  # those of a list share it
    else:
        found = list(dict.fromkeys(_pairs(text, names) for text in texts))
    contexts = map(_span_context, filter(None, found))
    return [context for context in contexts if context.is_valid]


def _span_context(pairs: tuple[str, ...]) -> SpanContext:
    if len(pairs) == 1 and is_default() and (found := _plain_context(pairs[0])) is not None:
        return found
    carrier = decode_properties(PROPERTY_SEPARATOR.join(pairs))
    context = extract(carrier)
    return trace.get_current_span(context).get_span_context()


def _plain_context(pair: str) -> SpanContext | None:
    """Return what a property says in W3C's form, without the propagators; else None."""
    if not (found := _PLAIN.fullmatch(pair)):
        return None
    trace_id, span_id, flags = found.groups()
    context = SpanContext(int(trace_id, 16), int(span_id, 16), True, TraceFlags(int(flags, 16)))
    return context if context.is_valid else None


def _pairs(text: str, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(pair for name in names if (pair := _pair(text, name)))


def _pair(text: str, begin: str) -> str:
    """Return a property as it is encoded, without decoding the others; "" if it is not there."""
    if (place := _place(text, begin)) < 0:
        return ""
    end = text.find(PROPERTY_SEPARATOR, place)
    return text[place:] if end < 0 else text[place:end]


def _place(text: str, begin: str) -> int:
    """Return where a property begins, -1 if it is not there."""
    place = text.find(begin)
    if place > 0 and text[place - 1] != PROPERTY_SEPARATOR:
        return text.find(PROPERTY_SEPARATOR + begin) + 1 or -1
    return place


def is_default() -> bool:
    """Return whether the names of the context are those of W3C, as without a configuration."""
    return _is_w3c(propagate.get_global_textmap())


@lru_cache(maxsize=1)
def _is_w3c(propagator: TextMapPropagator) -> bool:
    if type(propagator) is not CompositePropagator:
        return False
    parts = list(map(type, getattr(propagator, "_propagators", ())))
    return parts == [TraceContextTextMapPropagator, W3CBaggagePropagator]


@lru_cache(maxsize=1)
def _begins(propagator: TextMapPropagator) -> tuple[str, ...]:
    """Return how the properties of a propagator begin."""
    return tuple(f"{name}{NAME_VALUE_SEPARATOR}" for name in sorted(propagator.fields))
