"""What has been counted, by the attributes of a metric, until a reader of metrics asks.

To add to a counter of the SDK takes 10 µs, as long as the client takes for a message among many.
So the client counts here, and the SDK reads the totals when it collects.

Invariants: the totals only grow. An instrument reports what came after it was made: a process may
have several after each other. At most `LABELS_MAX` sets of attributes are counted apart.
"""

import os
import threading
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from opentelemetry.metrics import CallbackOptions, Observation

from wakelog.otel.attributes import Attributes

LABELS_MAX: Final = 2_000
"""As many as the SDK keeps of one metric."""


class Labels(NamedTuple):
    """What the attributes of a metric are made of; "" for what is not known."""

    name: str
    topic: str = ""
    address: str = ""
    group: str = ""
    error: str = ""


OVERFLOW: Final = Labels("", error="otel.metric.overflow")
"""In the place of all sets of attributes above `LABELS_MAX`."""


class Totals:
    """See the module. Any thread."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._counts: dict[Labels, int] = {}
        self.renew_lock()

    def renew_lock(self) -> None:
        """Have a free lock: in a forked process no other thread holds it."""
        self._lock = threading.Lock()

    def add(self, labels: Labels, count: int) -> None:
        """Count so many more."""
        with self._lock:
            found = self._counts.get(labels)
            if found is None and len(self._counts) >= LABELS_MAX:
                labels = OVERFLOW
                found = self._counts.get(labels)
            self._counts[labels] = (found or 0) + count

    def observer(
        self, attributes_of: Callable[[Labels], Attributes], before: Callable[[], None]
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        """Return what an instrument reads, with what is counted from now on.

        before: runs before each reading.
        """
        with self._lock:
            earlier = self._counts.copy()

        def observe(_: CallbackOptions) -> Iterable[Observation]:
            before()
            with self._lock:
                counts = self._counts.copy()
            return [
                Observation(count - earlier.get(labels, 0), attributes_of(labels))
                for labels, count in counts.items()
                if count > earlier.get(labels, 0)
            ]

        return observe


SENT: Final = Totals()
CONSUMED: Final = Totals()
os.register_at_fork(after_in_child=SENT.renew_lock)
os.register_at_fork(after_in_child=CONSUMED.renew_lock)
