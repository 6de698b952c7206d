"""What the texts mean that a broker says of itself (code 28): numbers, sizes, and its clock.

Source: org.apache.rocketmq.store.StoreStatsService.getFormatRuntime, common.MixAll.
humanReadableByteCount, broker.processor.AdminBrokerProcessor.prepareRuntimeInfo (4.9.3).
"""

import math
import re
from collections.abc import Mapping
from typing import Final

_SIZE: Final = re.compile(r"([\d.]+) ([KMGTPE]?)i?B")
_CAPACITY: Final = re.compile(r"Total : (.*?), Free : (.*?)\.?")
_RUNTIME: Final = re.compile(
    r"\[ (.{1,20}) days, (\d{1,2}) hours, (\d{1,2}) minutes, (\d{1,2}) seconds \]"
)


def runtime_number(values: Mapping[str, str], name: str) -> float | None:
    """Return a runtime value, None if it is not there or no finite number."""
    try:
        found = float(values[name])
    except (KeyError, ValueError):
        return None
    return found if math.isfinite(found) else None


def size_bytes(text: str) -> float:
    """Return a size such as `1.5 GiB`, 0 for another text."""
    found = _SIZE.fullmatch(text)
    if found is None:
        return 0.0
    try:
        return float(found[1]) * float(1024 ** " KMGTPE".index(found[2] or " "))
    except ValueError:
        return 0.0


def capacity_bytes(values: Mapping[str, str]) -> float:
    """Return how much the disk of the store holds, 0 if that is not known."""
    found = _CAPACITY.fullmatch(values.get("commitLogDirCapacity", ""))
    return size_bytes(found[1]) if found else 0.0


def clock_ms(values: Mapping[str, str]) -> int | None:
    """Return what time it was at the broker when it said the values, None if they do not tell.

    They give its start in milliseconds, and how long it runs in whole seconds: the time was less
    than a second later.
    """
    boot_ms = runtime_number(values, "bootTimestamp")
    found = _RUNTIME.fullmatch(values.get("runtime", ""))
    if boot_ms is None or found is None:
        return None
    days = "".join(x for x in found[1] if x.isdigit())  # Java groups its figures
    hours, minutes, seconds = (int(found[at]) for at in (2, 3, 4))
    elapsed_seconds = ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
    return round(boot_ms) + elapsed_seconds * 1000
