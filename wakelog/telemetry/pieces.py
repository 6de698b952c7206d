"""Statistics by name, in pieces: how a scrape gets what has thousands of names from a broker.

One call that copies or encodes 20,000 names holds the interpreter for up to 20 ms, in a thread as
well. So a thread makes pieces of at most `PIECE_NAMES_MAX` names. It rests after each half
millisecond of work (`Pace`). Without a rest it takes the interpreter again at each system call of
the loop. The pieces travel as bytes, which Ray only copies.

    {"traffic": {"put_by_topic": {"a": [1, 10], ...}}}
    {"traffic": {"put_by_topic": {"b": [2, 20], ...}}}    the next piece of the same table

Source: none upstream.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec.msgpack import Decoder, Encoder

PIECE_NAMES_MAX: Final = 2_000
"""Some 0.3 ms to encode, and as long to decode."""

WORK_SECONDS: Final = 0.0005
"""Of a thread at a time, while a loop has the same interpreter; `SWITCH_SECONDS` is as long."""

REST_SECONDS: Final = 0.001
"""Between two of these: a loop that has work has two thirds of the interpreter at least."""


RESTS_SECONDS_MAX: Final = 0.2
"""Of all rests of one `Pace`: on a machine whose cores are taken each one may last for 10 ms, and
what is measured must come in time."""


class Pace:
    """Work and rest of one thread."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        """Begin to work now."""
        self._clock = clock
        self._rest = rest
        self._began_seconds = clock()
        self._left_seconds = RESTS_SECONDS_MAX

    def keep(self) -> None:
        """Rest if the work has lasted for long enough; called between two small parts of it."""
        now_seconds = self._clock()
        if now_seconds - self._began_seconds >= WORK_SECONDS and self._left_seconds > 0:
            self._rest(REST_SECONDS)
            self._began_seconds = self._clock()
            self._left_seconds -= self._began_seconds - now_seconds


def encode_pieces(pieces: Iterable[Any], pace: Pace | None = None) -> list[bytes]:
    """Encode pieces, one at a time. pace: None for a thread that shares no loop's interpreter."""
    encode = Encoder().encode
    encoded = []
    for piece in pieces:
        encoded.append(encode(piece))
        if pace is not None:
            pace.keep()
    return encoded


def add_pieces(values: dict[str, Any], pieces: Iterable[bytes]) -> None:
    """Add encoded pieces to statistics."""
    decode = Decoder().decode
    for piece in pieces:
        add_piece(values, decode(piece))


def add_piece(values: dict[Any, Any], piece: dict[Any, Any]) -> None:
    """Add what a piece has; below a key that both have, mappings are joined."""
    for key, value in piece.items():
        if isinstance(value, dict) and key in values:
            add_piece(values[key], value)
        else:
            values[key] = value
