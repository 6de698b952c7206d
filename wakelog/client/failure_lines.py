"""FailureLines: the lines of failures that repeat, such as the calls to a broker that is down.

    failed   a line is written at once, and again at most once in `SAME_LINE_MS`, with its count
    works    one line when it is over
    forget   no line: this one will not tell

What fails at one place is one trouble: the calls of all queues to one broker, whatever each of them
says. It is over when something works that failed there. What asks several brokers is only forgotten
when it works: it may have asked others.

Invariants: at most `PLACES_MAX` places are kept, with `LINES_MAX` lines each; the oldest go first.
"""

import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final

from wakelog.client.clocks import steady_ms
from wakelog.client.errors import ClientError
from wakelog.network.errors import RemotingError

SAME_LINE_MS: Final = 60_000
PLACES_MAX: Final = 64
LINES_MAX: Final = 16

logger = logging.getLogger("wakelog.client")


@dataclass(slots=True)
class _Line:
    """Since when it is written, when it was last, and how often there was a reason."""

    began_ms: int
    written_ms: int
    count: int = 1


@dataclass(slots=True)
class _Place:
    """What fails at one place: its lines, and what failed."""

    began_ms: int
    count: int = 0
    lines: dict[str, _Line] = field(default_factory=dict)
    sources: set[Hashable] = field(default_factory=set)


class FailureLines:
    """See the module. One loop, one thread."""

    def __init__(self, now_ms: Callable[[], int] = steady_ms) -> None:
        """Write nothing yet."""
        self._now_ms = now_ms
        self._places: dict[str, _Place] = {}

    def failed(self, source: Hashable, line: str, place: str = "") -> None:
        """Write a line, unless it was written there in the last minute.

        source: what failed, which may work later. place: "" for the source's own.
        """
        now_ms, place = self._now_ms(), place or str(source)
        if place not in self._places:
            _make_room(self._places, PLACES_MAX)
            self._places[place] = _Place(now_ms)
        at = self._places[place]
        at.count += 1
        at.sources.add(source)
        known = at.lines.get(line)
        if known is None:
            _make_room(at.lines, LINES_MAX)
            at.lines[line] = _Line(now_ms, now_ms)
            logger.warning("%s", line)
            return
        known.count += 1
        if now_ms - known.written_ms >= SAME_LINE_MS:
            known.written_ms = now_ms
            seconds = (now_ms - known.began_ms) // 1000
            logger.warning("%s (%s times in %s s)", line, known.count, seconds)

    def works(self, source: Hashable) -> None:
        """Say once that it is over, wherever the source had failed."""
        for place, at in self._failed_at(source):
            del self._places[place]
            seconds = (self._now_ms() - at.began_ms) // 1000
            logger.warning("%s works again, after %s failures in %s s", place, at.count, seconds)

    def forget(self, source: Hashable) -> None:
        """Wait no longer for a source to work: it is not used any more."""
        for place, at in self._failed_at(source):
            at.sources.remove(source)
            if not at.sources:
                del self._places[place]

    def _failed_at(self, source: Hashable) -> list[tuple[str, _Place]]:
        return [(name, at) for name, at in self._places.items() if source in at.sources]


def place_of(error: ClientError) -> str:
    """Return the address without an answer, else the broker that refused; "" for neither."""
    cause = error.__cause__
    return cause.address if isinstance(cause, RemotingError) else error.broker


def _make_room(kept: dict[str, _Place] | dict[str, _Line], count_max: int) -> None:
    if len(kept) >= count_max:
        del kept[next(iter(kept))]
