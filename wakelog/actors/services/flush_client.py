"""The Broker's client for Flush, which also syncs here while Flush is away.

The Broker has two file descriptions for each segment that is not yet durable. It writes through the
first and shares that with Flush. Only this module syncs through the second. Linux reports a failed
write once for each description. So if Flush dies during a sync, and its outcome is unknown, a sync
here still reports the failure.

A caller waits for Flush only for a time (`recheck_seconds`); then the Broker syncs.

While Flush is away the log may roll into further segments that the Broker makes durable. Flush then
knows less than the Broker and lacks descriptors. So every call says how far the log is durable. A
Flush that is attached gets the descriptors of all segments from where it begins.

Invariants:
- `flushed` moves only after a sync that covers it returned without an error, here or in Flush.
- after one failed sync there is no other, and `flushed` stays where it is.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from wakelog.actors.services.client import ServiceHandle, ServiceLost, WatermarkClient
from wakelog.actors.services.flush import CHECKPOINT_MS, FlushOutcome, FlushRequest
from wakelog.actors.transport.clocks import steady_ms
from wakelog.actors.transport.descriptors import descriptor_path, send_descriptors
from wakelog.actors.transport.shared_watermarks import SharedWatermark
from wakelog.broker.trouble import Trouble
from wakelog.network.background import awaited
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.flush import SegmentSync
from wakelog.storage.log.mapped_file_queue import MappedFileQueue
from wakelog.typed_values import convert

START_AGAIN = "No message is taken: look at the disk, then start the broker again."


class OwnSync:
    """Syncs segments through file descriptions that only the Broker has."""

    def __init__(self, fs: FileSystem, files: MappedFileQueue) -> None:
        self._fs = fs
        self._files = files
        self._segments = SegmentSync(fs, files.file_size_bytes)
        self.held_end = 0  # of the last segment that was opened
        self._is_syncing = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="own-sync")

    def adopt(self, flushed: int) -> list[tuple[int, int]]:
        """Open new segments; return (start, shared descriptor) of all that are not durable.

        To be called before any process can have flushed a part of a new segment.
        """
        undurable = [file for file in self._files.files if file.end_offset > flushed]
        for file in undurable:
            if file.end_offset > self.held_end:
                self._segments.adopt(file.start_offset, self._fs.open(file.path))
                self.held_end = file.end_offset
        if not self._is_syncing:
            for start_offset in self._segments.start_offsets:
                if start_offset + self._files.file_size_bytes <= flushed:
                    self._segments.release(start_offset)
        return [(file.start_offset, file.fd) for file in undurable]

    async def sync(self, begin: int, end: int) -> None:
        """Make [begin, end) durable, in a thread. Raises: StoreError."""
        loop = asyncio.get_running_loop()
        self._is_syncing = True
        try:
            await loop.run_in_executor(self._thread, self._segments.sync, begin, end)
        finally:
            self._is_syncing = False

    def close(self) -> None:
        """Close the descriptions."""
        self._thread.shutdown()
        self._segments.close()


class FlushClient(WatermarkClient):
    """Has the log made durable: at once for a caller that waits, else once an interval."""

    watermark = SharedWatermark.FLUSHED

    recheck_seconds = 0.5
    """How long a request waits for Flush; a sync of a full buffer of a slow disk takes less."""

    note_seconds: float = CHECKPOINT_MS / 1000
    """When Flush is asked again to write down what is durable, if nothing else is flushed."""

    def __init__(
        self,
        handle: ServiceHandle,
        *,
        on_flushed: Callable[[int], None],
        on_failed: Callable[[str], None],
    ) -> None:
        """Begin at the log's end, which is durable after recovery.

        on_flushed: called with the position below which every byte is durable now.
        on_failed: called with why a sync failed: nothing may be reported durable any more.
        """
        super().__init__(handle)
        self._on_flushed, self._on_failed = on_flushed, on_failed
        self._own = OwnSync(handle.broker.fs, handle.broker.store.log.files)
        self._descriptor_path = descriptor_path(handle.broker.plan.runtime_directory)
        # `reached` is flushed, and `wanted` is committed.
        self.reached = self.wanted = self._appended = handle.broker.store.max_physical_offset
        self._stored_ms = 0
        self._sent_end = 0
        self._notified_for = 0
        self._is_wanted = False
        self._has_failed = False
        self._is_noted = True
        self._due_ms: int | None = None
        self._outstanding: asyncio.Future[Any] | None = None
        # By reference the timed flush is asked for here; with notifications Flush has the timer.
        self._store_config = handle.broker.plan.settings.store
        self.own_count = 0

    def on_appended(self, *, appended: int, committed: int, stored_ms: int) -> None:
        """Note how far the log and its segments reach; Flush makes that durable in time.

        stored_ms: the store time of the last message below `appended`, 0 if unknown.
        """
        shared = self.watermarks
        if shared is not None:  # in this order, so that flushed <= committed <= appended holds
            shared.set(SharedWatermark.APPENDED, appended)
            shared.set(SharedWatermark.COMMITTED, committed)
            last_ms = shared.get(SharedWatermark.STORED_MS)
            shared.set(SharedWatermark.STORED_MS, max(stored_ms, last_ms))
        self._appended, self.wanted, self._stored_ms = appended, committed, stored_ms
        if committed > self._own.held_end or (committed > self._sent_end and self.is_attached):
            self.send_descriptors()
        if self._due_ms is None and committed > self.reached:
            self._set_due()
        if shared is None:
            self.timer.start(self._store_config.flush_interval_commit_log_ms / 1000)
        else:
            self.recheck_later()

    def request_sync(self) -> None:
        """Flush now what is committed: a caller waits for it."""
        self._notified_for = self.wanted
        if self.reached < self.wanted:
            now_ms = steady_ms()
            self._due_ms = now_ms if self._due_ms is None else min(self._due_ms, now_ms)
        if self.watermarks is not None:
            self.watermarks.set(SharedWatermark.WANTED, self.wanted)
        if self.notifier is None or not self.is_attached:
            self._call_for_sync()
            return
        self.notifier.notify()
        self.recheck_later()

    def on_reached(self, position: int) -> None:
        """Note how far the log is durable, and report that to the Broker."""
        if position > self.reached and not self._has_failed:
            self.reached = position
            self._is_wanted = self._is_wanted and position < self.wanted
            self._set_due()
            self._on_flushed(position)

    def _set_due(self) -> None:
        """Set when the rest has to be durable: at once for a caller, else with the next flush."""
        self._due_ms = None
        if self.reached < self.wanted:
            is_timed = self.reached >= self._notified_for
            interval_ms = self._store_config.flush_commit_log_thorough_interval_ms
            self._due_ms = steady_ms() + is_timed * interval_ms

    @property
    def late_ms(self) -> int:
        """For how long what has to be durable is not; 0 after a sync that failed."""
        if self._due_ms is None or self._has_failed:
            return 0
        return max(0, steady_ms() - self._due_ms)

    def request_call(self) -> None:
        """Call for a sync that a caller waits for; a timed flush is Flush's own task."""
        if self.reached < self._notified_for:
            self._call_for_sync()

    def on_attached(self, answer: Mapping[str, Any]) -> None:
        """Send the descriptors from where Flush begins, and ask for what is waited for."""
        self.send_descriptors(answer["flushed"])
        if self._is_wanted:
            self.worker.request()

    def on_lost(self) -> None:
        """Sync here what callers wait for."""
        self.read_watermark()
        if self._is_wanted or self.reached < self._notified_for:
            self._call_for_sync()

    def send_descriptors(self, begin: int | None = None) -> None:
        """Open new segments, and send Flush the Broker's descriptors of what is not durable.

        begin: where Flush begins, if it knows less to be durable than the Broker.
        """
        segments = self._own.adopt(self.reached if begin is None else min(begin, self.reached))
        if self.is_attached and send_descriptors(self._descriptor_path, segments):
            self._sent_end = self._own.held_end

    def close(self) -> None:
        """Close the Broker's own descriptions."""
        self._own.close()

    def statistics(self) -> dict[str, Any]:
        """Return how often the Broker synced."""
        return {"own_count": self.own_count}

    def _call_for_sync(self) -> None:
        self._is_wanted = True
        self.worker.request()

    async def work(self) -> bool:
        """Have Flush sync, or sync here if a caller waits and Flush does not answer."""
        if self._has_failed or (self.reached >= self.wanted and self._is_noted):
            return False
        is_wanted = self._is_wanted
        try:
            await self._call_sync(force=is_wanted)
        except ServiceLost:
            if is_wanted and self.reached < self.wanted:
                await self._sync_here()
        if self.watermarks is None and not self._has_failed:
            # Also for a few last messages, which are due only after a longer time.
            if self.reached < self.wanted:
                self.timer.start(self._store_config.flush_interval_commit_log_ms / 1000)
            elif not self._is_noted:
                self.timer.start(self.note_seconds)
        return self._is_wanted and not self._has_failed and self.reached < self.wanted

    async def _call_sync(self, *, force: bool) -> None:
        if self._outstanding is not None and not self._outstanding.done():
            raise ServiceLost("flush has not answered the call before")
        request = FlushRequest(
            flushed=self.reached,
            committed=self.wanted,
            appended=self._appended,
            stored_ms=self._stored_ms,
            force=force,
        )
        call = self.begin_call("flush", "sync", msgspec.to_builtins(request))
        self._outstanding = awaited(call)
        answer = await self.wait_result(
            self._outstanding, self.recheck_seconds if force else None, method="sync"
        )
        outcome = convert(answer, FlushOutcome)
        self._is_noted = outcome.noted or self.watermarks is not None
        self.on_reached(outcome.flushed)
        if outcome.failure is not None:
            self._fail(outcome.failure)
        elif outcome.reach < request.committed:
            self.send_descriptors()

    async def _sync_here(self) -> None:
        begin, end = self.reached, self.wanted
        self._own.adopt(begin)
        self.own_count += 1
        try:
            await self._own.sync(begin, end)
        except StoreError as error:
            self._fail(str(error))
        else:
            self.on_reached(end)

    def _fail(self, cause: str) -> None:
        if not self._has_failed:
            self._has_failed = True
            self.set_trouble("fsync", Trouble(cause, START_AGAIN))
            self._on_failed(cause)
