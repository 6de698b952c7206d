"""Which part of the log a sequential consumer will want next.

The log is divided into windows. A consumer that comes from one window into the next very likely
continues. So a thread that may wait reads the window after that from the disk, and the event loop
then finds it in the page cache. Otherwise the kernel would read as much ahead (8 MiB on many
disks) inside the loop's own read. That takes milliseconds in which no other client is served.

Invariants:
- Nothing is read ahead for random access: one pull never makes the disk read a window.
- A window is wanted once while it is remembered, and only below the log's end. What was just
  written is in the page cache.

Source: none upstream; 4.9.3 reads through maps, and every page fault waits where it happens.
"""

from collections import OrderedDict

WINDOW_BYTES = 4 << 20
"""A consumer needs 10 ms or more for this much; a disk reads it sequentially in less."""

WINDOWS_MAX = 64
"""Windows remembered, so that this many consumers at different places are followed."""


class ReadAheadWindows:
    """The windows that were entered last, and whether they were wanted."""

    def __init__(self) -> None:
        self._last = -1
        self._seen: OrderedDict[int, bool] = OrderedDict()

    def next_wanted(self, physical_offset: int, behind_bytes: int) -> int | None:
        """Return where a window begins that should be read ahead, None if there is none.

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
