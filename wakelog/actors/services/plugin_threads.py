"""Threads for the dispatchers of other packages: each runs at its own pace, and none delays Reput.

A plug-in is foreign code. If it raises, its cursor handles that. If it hangs, that costs this
process one thread: the thread is a daemon and is left behind. If it continues later, it ends its
step. So the next thread of the same plug-in and store begins only after that, because two would
write the same files.
"""

import threading
import time
from typing import Any

from wakelog.actors.transport.clocks import wall_ms
from wakelog.dispatchers.plugins import PluginCursor, RetentionHold
from wakelog.network.background import AGAIN_SECONDS, log_failure, start_thread
from wakelog.telemetry.logs import Log, logger

STEP_BYTES_MAX = 8 << 20
FLUSH_SECONDS = 1.0
"""How often a plug-in flushes and its position is stored; after a crash it repeats that much."""

JOIN_SECONDS_MAX = 1.0
"""How long a plug-in may take to end before it is left behind."""

_left_behind: dict[tuple[str, str], threading.Thread] = {}
"""The last thread that did not end in time, by the store's root and the plug-in's name."""


class PluginThread:
    """Runs one plug-in until `begin_stop`; it starts with nothing to read."""

    def __init__(self, cursor: PluginCursor, after: threading.Thread | None = None) -> None:
        """Start at once; wait for the end of `after` before anything is done."""
        self._cursor = cursor
        self._after = after
        self._readable = 0
        self._changed = threading.Condition()
        self._stopping = False
        self._hold = RetentionHold()
        self._logged_failures_count = 0
        self._log = logger(Log.STORE)
        on_failed = log_failure(self._log, f"plug-in {cursor.name}")
        self.thread = start_thread(self._run, on_failed, name=f"plugin-{cursor.name}")

    def retention_floor(self, now_ms: int) -> int | None:
        """Return the first physical offset to be kept for the plug-in, None if there is none."""
        floor = self._cursor.retention_floor
        if floor is None:
            return None
        was_left_behind = self._hold.left_behind
        if self._hold.must_keep(floor, self._readable, now_ms):
            return floor
        if not was_left_behind:
            self._log.warning(
                "plug-in left behind: retention goes on without it",
                plugin=self._cursor.name,
                needs_from=floor,
                behind_bytes=self._readable - floor,
            )
        return None

    def readable(self, physical_offset: int) -> None:
        """Let the plug-in have the log up to here."""
        with self._changed:
            self._readable = physical_offset
            self._changed.notify()

    def begin_stop(self) -> None:
        """Ask the thread to flush and end."""
        with self._changed:
            self._stopping = True
            self._changed.notify()

    def statistics(self) -> dict[str, Any]:
        """Return the cursor's counters."""
        found = self._cursor.statistics(self._readable)._asdict()
        return {**found, "left_behind": self._hold.left_behind}

    def _run(self) -> None:
        """Step and flush until `begin_stop`; begin again after an error that is not a plug-in's."""
        if self._after is not None:
            self._after.join()
        cause = ""
        while not self._stopping:
            try:
                self._work()
            except Exception as error:
                # The log could not be read: a fault of the disk, which Reput reports too.
                if cause != (cause := repr(error)):
                    self._log.error("plug-in waits", plugin=self._cursor.name, exc_info=error)
                with self._changed:
                    self._changed.wait_for(lambda: self._stopping, AGAIN_SECONDS)
        self._cursor.close()

    def _work(self) -> None:
        flushed_at = time.monotonic()
        seen = -1
        while True:
            with self._changed:
                if self._readable == seen and not self._stopping:
                    self._changed.wait(self._wait_seconds(flushed_at))
                seen, stopping = self._readable, self._stopping
            now_ms = wall_ms()
            if not stopping and self._cursor.step(seen, STEP_BYTES_MAX, now_ms):
                seen = -1
            if stopping or time.monotonic() >= flushed_at + FLUSH_SECONDS:
                self._cursor.flush(now_ms)
                flushed_at = time.monotonic()
            self._log_failure()
            if stopping:
                return

    def _log_failure(self) -> None:
        """Log what the plug-in raised since the last call; its attempts are rare."""
        found = self._cursor.statistics()
        if found.failures_count > self._logged_failures_count:
            self._logged_failures_count = found.failures_count
            self._log.warning(
                "plug-in failed",
                plugin=found.name,
                attempt=found.attempts_count,
                given_up=found.given_up,
                cause=found.last_error,
            )

    def _wait_seconds(self, flushed_at: float) -> float:
        until_flush = max(0.0, flushed_at + FLUSH_SECONDS - time.monotonic())
        if not self._cursor.retry_at_ms:
            return until_flush or FLUSH_SECONDS
        until_retry = max(0.0, self._cursor.retry_at_ms / 1000 - time.time())
        return min(until_retry, until_flush or FLUSH_SECONDS)


class PluginThreads:
    """All plug-ins of one store."""

    def __init__(self, root: str, cursors: list[PluginCursor], failures: dict[str, str]) -> None:
        """Run every cursor over the store at `root`; `failures` says why others are not loaded."""
        self._root = root
        self._threads = {
            cursor.name: PluginThread(cursor, _left_behind.pop((root, cursor.name), None))
            for cursor in cursors
        }
        self.failures = failures

    def readable(self, physical_offset: int) -> None:
        """Let every plug-in have the log up to here."""
        for thread in self._threads.values():
            thread.readable(physical_offset)

    def floor(self, dispatched: int) -> int:
        """Return the first physical offset that any dispatcher needs, at most `dispatched`."""
        now_ms = wall_ms()
        floors = [thread.retention_floor(now_ms) for thread in self._threads.values()]
        return min([dispatched, *(floor for floor in floors if floor is not None)])

    def stop(self) -> None:
        """Let every plug-in flush and end; leave behind those that hang."""
        for thread in self._threads.values():
            thread.begin_stop()
        end = time.monotonic() + JOIN_SECONDS_MAX
        for name, thread in self._threads.items():
            thread.thread.join(max(0.0, end - time.monotonic()))
            if thread.thread.is_alive():
                _left_behind[self._root, name] = thread.thread
                logger(Log.STORE).warning("plug-in hangs", plugin=name)

    def statistics(self) -> dict[str, Any]:
        """Return the counters of each, and why others were not loaded."""
        running = {name: thread.statistics() for name, thread in self._threads.items()}
        return {"running": running, "failures": self.failures}
