"""ReadAheadWindows: which part of the log a consumer that reads along will want next.

The log is looked at in windows. Who comes from one window into the next one goes on, very likely,
so the one behind that is read from the disk meanwhile, by a thread that may wait. The loop then
finds it in the page cache; left alone, the kernel would read as much ahead (8 MiB on many disks)
within the loop's own read, in some milliseconds in which nobody else is served.

Invariants:
- who jumps about has nothing read ahead: one pull never makes the disk read a window.
- a window is wanted once while it is remembered, and only if it lies below the log's end; what was
  just written is in the page cache.

Source: none upstream; 4.9.3 reads through maps, and every page fault waits where it happens.
"""

from collections import OrderedDict

WINDOW_BYTES = 4 << 20
"""A consumer takes 10 ms and more for so much; a disk that reads in turn less."""

WINDOWS_MAX = 64
"""Remembered: as many consumers at different places go on without forgetting each other."""


class ReadAheadWindows:
    """The windows that were entered last, and whether they were wanted."""

    __slots__ = ("_last", "_seen")

    def __init__(self) -> None:
        """Remember none."""
        self._last = -1
        self._seen: OrderedDict[int, bool] = OrderedDict()

    def __len__(self) -> int:
        """Return how many windows are remembered."""
        return len(self._seen)

    def next_wanted(self, physical_offset: int, behind_bytes: int) -> int | None:
        """Return where a window begins that is to be read ahead, None if there is none.

        physical_offset: of the last message that was sent.
        behind_bytes: from there to the log's end.
        """
        window = physical_offset // WINDOW_BYTES
        if window == self._last or behind_bytes < 2 * WINDOW_BYTES:
            return None
        self._last = window
        has_entered = self._seen.get(window)
        self._remember(window, entered=True)
        if has_entered or window - 1 not in self._seen or window + 1 in self._seen:
            return None
        self._remember(window + 1, entered=False)
        return (window + 1) * WINDOW_BYTES

    def _remember(self, window: int, *, entered: bool) -> None:
        self._seen[window] = entered
        self._seen.move_to_end(window)
        if len(self._seen) > WINDOWS_MAX:
            self._seen.popitem(last=False)
