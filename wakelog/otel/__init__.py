"""OpenTelemetry for the Python client: spans, metrics, and a context that travels with messages.

    from wakelog.otel import RocketMQInstrumentor

    RocketMQInstrumentor().instrument()

    instrumentor.py   puts the functions below in the place of methods of the client, and back
    sending.py        spans of a producer
    receiving.py      spans of a consumer: of `fetch`, and of the work on each message
    propagation.py    the context among the properties of a message
    instruments.py    the tracer and the instruments of one instrumentor
    attributes.py     the names of OpenTelemetry's conventions for messaging

Invariants: the client imports nothing of this package, and without `instrument` runs as it is. No
error of telemetry reaches the caller of the client.

Source: OpenTelemetry semantic conventions for messaging and for RocketMQ (1.39); the Java agent's
instrumentation rocketmq-client-4.8, whose messages have the same properties.
"""

from wakelog.otel.instrumentor import RocketMQInstrumentor
from wakelog.otel.receiving import process

__all__ = ["RocketMQInstrumentor", "process"]
