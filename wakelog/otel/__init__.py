"""OpenTelemetry for the Python client: spans, metrics, and a context that travels with messages.

    from wakelog.otel import RocketMQInstrumentor

    RocketMQInstrumentor().instrument()

    instrumentor.py   puts the functions below in the place of methods of the client, and back
    sending.py        spans of a producer
    receiving.py      spans of a consumer: of `fetch`, and of the work on each message
    propagation.py    the context among the properties of a message
    passed_on.py      the context of a message where nothing records
    instruments.py    the tracer and the instruments of one instrumentor
    begun.py          a span from its begin to its end
    quick_spans.py    spans that the SDK gets once they have ended
    late_spans.py     spans of users and of the client, built when somebody looks at them
    roots.py          what begins a trace: its id, and whether it is recorded
    samplers.py       what the SDK's own samplers decide
    totals.py         what is counted until a reader of metrics asks
    durations.py      durations that wait until many can be recorded at once
    merged_histogram.py  many measurements added to what the SDK counts
    guarded.py        calls of what may be a user's own, and may raise
    attributes.py     the names of OpenTelemetry's conventions for messaging

Invariants: the client imports nothing of this package, and without `instrument` runs as it is. No
error of telemetry reaches the caller of the client. Where nothing records, a call pays for two
questions and for nothing else; a context that is current or came with a message is passed on.

Source: OpenTelemetry semantic conventions for messaging and for RocketMQ (1.39); the Java agent's
instrumentation rocketmq-client-4.8, whose messages have the same properties.
"""

from wakelog.otel.instrumentor import RocketMQInstrumentor
from wakelog.otel.receiving import process

__all__ = ["RocketMQInstrumentor", "process"]
