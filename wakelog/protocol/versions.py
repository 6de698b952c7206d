"""The names of RocketMQ's versions, whose numbers clients and brokers send.

Source: org.apache.rocketmq.common.MQVersion (4.9.3).
"""

from functools import cache
from typing import Final

_ALPHA_AND_BETA: Final = 16
"""How many versions were named before V3_0_1."""


@cache
def _versions() -> tuple[str, ...]:
    """Return the names of versions from V3_0_1 on; each has a snapshot before it."""
    found = [(3, 0, patch) for patch in range(1, 16)]
    for major in (3, 4, 5):
        for minor in range(1 if major == 3 else 0, 10):
            first = 1 if major == 3 and minor >= 3 else 0
            found += [(major, minor, patch) for patch in range(first, 10)]
    names = [f"V{major}_{minor}_{patch}" for major, minor, patch in found]
    return tuple(part for name in names for part in (f"{name}_SNAPSHOT", name))


def version_name(version: int) -> str:
    """Return the name of a peer's version; those before 3.0.1 are called V3_0_0."""
    number = version - _ALPHA_AND_BETA
    if number < 0:
        return "V3_0_0"
    names = _versions()
    return names[number] if number < len(names) else "HIGHER_VERSION"
