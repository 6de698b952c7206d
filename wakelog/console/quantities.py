"""Numbers, sizes, rates and times as pages show them: at most three significant figures."""

from typing import Final

NOTHING: Final = "-"
"""What stands for a number that is not known."""

_DECIMAL: Final = ("", " k", " M", " G", " T", " P", " E")
_BINARY: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def number_text(value: float | None) -> str:
    """Return a number: 0.25, 7, 48.1 k, 3.2 M."""
    if value is None:
        return NOTHING
    at = 0
    while abs(value) >= 999.5 and at < len(_DECIMAL) - 1:
        value, at = value / 1000, at + 1
    return _figures(value) + _DECIMAL[at]


def bytes_text(value: float | None) -> str:
    """Return a size: 512 B, 1.4 GiB."""
    if value is None:
        return NOTHING
    at = 0
    while abs(value) >= 999.5 and at < len(_BINARY) - 1:
        value, at = value / 1024, at + 1
    return f"{_figures(value)} {_BINARY[at]}"


def rate_text(value: float | None) -> str:
    """Return a rate: 4.2 k/s."""
    return NOTHING if value is None else f"{number_text(value)}/s"


def percent_text(ratio: float | None) -> str:
    """Return a part of one: 83 %."""
    return NOTHING if ratio is None else f"{_figures(ratio * 100)} %"


def span_text(elapsed_ms: float) -> str:
    """Return a time in the two largest units that it has: 6 min 10 s."""
    seconds = max(0, round(elapsed_ms / 1000))
    if seconds < 60:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s" if seconds else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{hours // 24:,} days"


def age_text(elapsed_ms: float) -> str:
    """Return how long ago something was, in its largest unit: now, 6 min ago, 3 days ago."""
    return "now" if elapsed_ms < 4_500 else f"{lasting_text(elapsed_ms)} ago"


def lasting_text(elapsed_ms: float) -> str:
    """Return a time in its largest unit: 35 s, 6 min, 3 days."""
    seconds = max(0, round(elapsed_ms / 1000))
    for unit_seconds, name in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * unit_seconds or (seconds >= unit_seconds and name != "days"):
            return f"{seconds // unit_seconds:,} {name}"
    return f"{seconds} s"


def counted(count: int, noun: str) -> str:
    """Return a number of things: 1 broker, 2,000 brokers."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _figures(value: float) -> str:
    """Return at most three significant figures, and no more than two behind the point."""
    size = abs(value)
    if value == int(value) or size >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 9.995 else f"{value:.2f}"
