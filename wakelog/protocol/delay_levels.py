"""The table of delay levels: which delay each level of a delayed message stands for.

A message carries the number of a level. The broker's setting `messageDelayLevel` has the delays.

Source: org.apache.rocketmq.store.schedule.ScheduleMessageService#parseDelayLevel,
org.apache.rocketmq.store.config.MessageStoreConfig#messageDelayLevel (4.9.3).
"""

import re
from typing import Final

DEFAULT_DELAY_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

_LEVEL = re.compile(r"([0-9]{1,12})([smhd])", re.ASCII)
_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def read_delay_levels(text: str) -> tuple[int, ...]:
    """Return the delays in ms; element i is that of level i + 1.

    Two blanks make an empty level, as in 4.9.3, whose broker then does not start.
    Raises: ValueError, which says what is accepted.
    """
    matches = [_LEVEL.fullmatch(level) for level in text.split(" ")]
    delays_ms = tuple(int(match[1]) * _UNIT_MS[match[2]] for match in matches if match is not None)
    if len(delays_ms) < len(matches):
        raise ValueError("numbers with s, m, h or d, separated by one blank each")
    return delays_ms


def level_of(delay_ms: int, delays_ms: tuple[int, ...]) -> int | None:
    """Return the level with the shortest delay that is not under `delay_ms`, None without one."""
    fitting = [(delay, level) for level, delay in enumerate(delays_ms, 1) if delay >= delay_ms]
    return min(fitting)[1] if fitting else None
