"""EncodedRoutes: the bodies of routes that were asked for, as long as there is room for them.

Every client asks for the routes of its topics every 30 s. A route to 1,000 brokers has 170 KB, and
takes 5 ms to make. Those of 10,000 such topics would be 1.7 GB.

Invariant: all bodies together have at most ``BYTES_MAX``. The one asked for longest ago goes first.

Source: none upstream; 4.9.3 makes every answer anew.
"""

from collections.abc import Iterator
from typing import Final

BYTES_MAX: Final = 67_108_864
"""Some 200,000 routes to three brokers, or 380 to 1,000."""


class EncodedRoutes:
    """Bodies by topic."""

    def __init__(self) -> None:
        self._bodies: dict[str, bytes] = {}
        self.size_bytes = 0

    def __len__(self) -> int:
        """Return the number of bodies."""
        return len(self._bodies)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the topics."""
        return iter(self._bodies)

    def get(self, topic: str) -> bytes | None:
        """Return a body that is kept."""
        body = self._bodies.pop(topic, None)
        if body is not None:
            self._bodies[topic] = body
        return body

    def put(self, topic: str, body: bytes) -> None:
        """Keep a body in place of those that were asked for longest ago."""
        self.forget(topic)
        self._bodies[topic] = body
        self.size_bytes += len(body)
        while self.size_bytes > BYTES_MAX:
            self.forget(next(iter(self._bodies)))

    def forget(self, topic: str) -> None:
        """Keep the body of a topic no longer, if it is there: its route has changed."""
        self.size_bytes -= len(self._bodies.pop(topic, b""))

    def clear(self) -> None:
        """Keep nothing: any route may have changed."""
        self._bodies.clear()
        self.size_bytes = 0

    def validate(self) -> None:
        """Assert the invariant of the module."""
        assert self.size_bytes == sum(map(len, self._bodies.values())) <= BYTES_MAX
