"""Due times: a task that is due later takes hops, each by the longest delay level before its time.

RocketMQ has levels of delay, 1 s to 2 h by default. A task that is due in 95 s goes by the levels
of 1 min, 30 s and 5 s. What is less than the shortest level waits in memory. So a task is never
early, and of every two hours of delay at most a dozen hops are made.

The due time travels in a property, so that any reader continues.
"""

from collections.abc import Mapping
from typing import Final

from wakelog.client.errors import InvalidArgument
from wakelog.client.plain import plain_text
from wakelog.protocol.delay_levels import read_delay_levels

DUE_PROPERTY: Final = "WAKELOG_DUE_MS"
"""When a task is due, in ms since the epoch."""


def delays_of(delay_levels: object) -> tuple[int, ...]:
    """Return the delays in ms of brokers with this `messageDelayLevel`. Raises: InvalidArgument."""
    text = plain_text("delay_levels", delay_levels)
    try:
        return read_delay_levels(text)
    except ValueError as error:
        raise InvalidArgument(f"delay_levels={text!r} are none", f"Give {error}") from None


def level_before(remaining_ms: int, delays_ms: tuple[int, ...]) -> int:
    """Return the level with the longest delay that is not over `remaining_ms`; 0 without one."""
    fitting = [(delay, level) for level, delay in enumerate(delays_ms, 1) if delay <= remaining_ms]
    return max(fitting)[1] if fitting else 0


def due_of(properties: Mapping[str, str]) -> int:
    """Return when a message is due, 0 if it is at once: also with a property that is no number."""
    text = properties.get(DUE_PROPERTY, "")
    return int(text) if text.isascii() and text.isdigit() else 0
