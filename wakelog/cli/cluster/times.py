"""Times as users write them: `10m` ago, a date, `now`, `beginning`, or milliseconds since 1970."""

import re
from datetime import datetime
from typing import Final

from wakelog.actors.errors import NotPossible
from wakelog.cli.admin.java_text import read_time

BEGINNING: Final = "beginning"
NOW: Final = "now"
MS_OF: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

_SPAN: Final = re.compile(r"(\d{1,9})(ms|s|m|h|d)", re.ASCII)


def read_span_ms(text: str) -> int:
    """Return the milliseconds of `500ms`, `10s`, `5m`, `2h` or `7d`. Raises: NotPossible."""
    found = _SPAN.fullmatch(text)
    if found is None:
        remedy = "Give a number and a unit: 500ms, 10s, 5m, 2h, 7d."
        raise NotPossible(f"{text!r} is no length of time", remedy)
    return int(found[1]) * MS_OF[found[2]]


def read_moment_ms(text: str, now_ms: int) -> int:
    """Return milliseconds since 1970: 0 for `beginning`, -1 for `now`. Raises: NotPossible."""
    if text == BEGINNING:
        return 0
    if _SPAN.fullmatch(text):
        return max(0, now_ms - read_span_ms(text))
    try:
        if not text.isdigit():
            return round(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except ValueError:
        pass
    try:
        return read_time(text)
    except NotPossible as error:
        remedy = "Give 10m, 2h, 2026-11-24T06:00, beginning, now, or milliseconds since 1970."
        raise NotPossible(error.cause, remedy) from None
