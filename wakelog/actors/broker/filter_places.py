"""FilterPlaces: how many pulls may keep unfiltered records (`FilterPlace`).

Such a pull has up to 64 records read at once. It keeps them until they are filtered, between
other requests. Thousands would fill the memory, and none would be answered sooner.

Invariants: at most `PLACES_COUNT` pulls have a place, and `WAITING_MAX` wait for one, in order.

Source: none upstream; there a thread of the pull executor keeps its records.
"""

from collections import deque
from typing import Final

from wakelog.broker.effects import FilterPlace
from wakelog.network.driver import Task
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import RemoteProtocolError

PLACES_COUNT: Final = 2
"""One pull reads while the other's records are filtered. More would be filtered no sooner."""

WAITING_MAX: Final = 10_000
"""As many as may wait for the disk."""


class FilterPlaces:
    """See the module. One loop's thread."""

    def __init__(self) -> None:
        """All places are free."""
        self._free_count = PLACES_COUNT
        self._waiting: deque[Task] = deque()

    def take(self, _effect: FilterPlace, task: Task) -> None:
        """Give a pull a place, once there is one. Raises: RemoteProtocolError if too many wait."""
        if self._free_count:
            self._free_count -= 1
            task.resume(self._give_back)
        elif len(self._waiting) < WAITING_MAX:
            self._waiting.append(task)
        else:
            remark = f"[OVERLOAD]system busy, {WAITING_MAX} pulls wait for their filter"
            raise RemoteProtocolError(ResponseCode.SYSTEM_BUSY, remark)

    def _give_back(self) -> None:
        if self._waiting:
            self._waiting.popleft().resume(self._give_back)
        else:
            self._free_count += 1
