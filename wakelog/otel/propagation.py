"""The context of a trace among the properties of a message, as the propagators write it.

The global propagator decides the names: `traceparent`, `tracestate` and `baggage` by default. The
Java agent writes and reads the same ones.

Invariants: a message that has a context already keeps it, and one whose properties would become too
long goes without.

Source: io.opentelemetry.instrumentation.rocketmqclient.v4_8.{MapSetter, TextMapExtractAdapter}.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanContext

from wakelog.client.appended import APPENDED_BYTES_MAX
from wakelog.client.received import ReceivedMessage
from wakelog.protocol.properties import (
    NAME_VALUE_SEPARATOR,
    PROPERTY_SEPARATOR,
    decode_properties,
)

LINKS_MAX: Final = 128
"""Messages of one span that are looked at for links: as many as a span of the SDK keeps."""

_SEPARATORS: Final = (NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR)


def current_properties() -> str:
    """Return the current context as encoded properties with a separator before each; "" for none.

    A context that is too long to travel, such as of much baggage, is left out.
    """
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    text = "".join(
        f"{PROPERTY_SEPARATOR}{name}{NAME_VALUE_SEPARATOR}{value}"
        for name, value in carrier.items()
        if value and not any(each in name + value for each in _SEPARATORS)
    )
    return text if len(text.encode()) <= APPENDED_BYTES_MAX else ""


def context_of(message: ReceivedMessage) -> Context:
    """Return the context that came with a message; an empty one without."""
    return propagate.extract(message.properties, context=Context())


def links_to(messages: Sequence[ReceivedMessage]) -> list[SpanContext]:
    """Return the context of each of the first `LINKS_MAX` messages that has one, once."""
    names = [f"{name}{NAME_VALUE_SEPARATOR}" for name in propagate.get_global_textmap().fields]
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
    carrier = decode_properties(PROPERTY_SEPARATOR.join(pairs))
    context = propagate.extract(carrier, context=Context())
    return trace.get_current_span(context).get_span_context()


def _pairs(text: str, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(pair for name in names if (pair := _pair(text, name)))


def _pair(text: str, begin: str) -> str:
    """Return a property as it is encoded, without decoding the others; "" if it is not there."""
    place = text.find(begin)
    if place > 0 and text[place - 1] != PROPERTY_SEPARATOR:
        place = text.find(PROPERTY_SEPARATOR + begin) + 1 or -1
    if place < 0:
        return ""
    end = text.find(PROPERTY_SEPARATOR, place)
    return text[place:] if end < 0 else text[place:end]
