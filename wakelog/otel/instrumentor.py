"""RocketMQInstrumentor: has every producer and consumer of this process record what it does.

Invariants: after `uninstrument` each method of the client is the one that it was before
`instrument`.
"""

import logging
import threading
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, Final

from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from wakelog.client import InvalidArgument, sync
from wakelog.client.consumer import Consumer
from wakelog.client.plain import not_accepted
from wakelog.client.producer import Producer
from wakelog.client.sender import Sender
from wakelog.otel import receiving
from wakelog.otel.instruments import Instruments
from wakelog.otel.receiving import ReceiveSpans
from wakelog.otel.sending import Method, SendSpans

logger = logging.getLogger("wakelog.otel")

NEAR: Final = 0.8
"""How near a name is to another one for which it is taken to be meant, 1 for the same."""

_lock: Final = threading.Lock()
_replaced: Final[list[tuple[type, str, Method]]] = []
"""The methods of the client that others stand in the place of."""


def _check(name: str, given: object, kind: type) -> None:
    if not isinstance(given, kind | None):
        raise not_accepted(name, given, f"a {kind.__name__}, or None for the global one")


def _check_names(others: Iterable[str]) -> None:
    for name in others:
        if near := get_close_matches(name, ("tracer_provider", "meter_provider"), 1, NEAR):
            raise InvalidArgument(f"unknown argument {name}", f"Did you mean {near[0]}?")


class RocketMQInstrumentor:
    """See the module. All objects are the same instrumentor, as with OpenTelemetry's own."""

    @property
    def is_instrumented_by_opentelemetry(self) -> bool:
        """Whether the client records now."""
        return bool(_replaced)

    def instrument(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        **others: Any,
    ) -> None:
        """Record from now on, also by clients that are open already. A second call does nothing.

        tracer_provider, meter_provider: None for the global ones.
        others: what `opentelemetry-instrument` gives to every instrumentor.
        Raises: InvalidArgument for what is no provider, and for a misspelled name of one.
        """
        _check("tracer_provider", tracer_provider, TracerProvider)
        _check("meter_provider", meter_provider, MeterProvider)
        _check_names(others)
        with _lock:
            if _replaced:
                logger.warning("the client of RocketMQ is instrumented already")
                return
            instruments = Instruments(tracer_provider, meter_provider)
            sends, receives = SendSpans(instruments), ReceiveSpans(instruments)
            for owner, name, replace in (
                (Producer, "send", sends.send),
                (Producer, "send_many", sends.send_many),
                (Producer, "send_oneway", sends.send_oneway),
                (Producer, "transaction", sends.transaction),
                (Producer, "request", sends.request),
                (Producer, "reply", sends.reply),
                (Sender, "send", sends.send_request),
                (Consumer, "fetch", receives.fetch),
                (Consumer, "__aiter__", receives.iterate),
                (Consumer, "ack", receives.ack),
                (Consumer, "nack", receives.nack),
                (Consumer, "reject", receives.reject),
                (Consumer, "close", receives.close),
                (Consumer, "reply", sends.reply),
                (sync.Consumer, "__iter__", receives.iterate_blocking),
                (sync.Consumer, "ack", receives.ack_blocking),
                (sync.ConsumerMessage, "ack", receives.settle_blocking),
                (sync.ConsumerMessage, "nack", receives.settle_blocking),
                (sync.ConsumerMessage, "reject", receives.settle_blocking),
            ):
                method = vars(owner)[name]
                setattr(owner, name, replace(method))
                _replaced.append((owner, name, method))
            receiving.use(receives)

    def uninstrument(self, **others: Any) -> None:
        """Record no more: every method is the client's own again. A second call does nothing."""
        with _lock:
            for owner, name, method in _replaced:
                setattr(owner, name, method)
            _replaced.clear()
            receiving.use(None)
