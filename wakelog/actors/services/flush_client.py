"""The Broker's end of the flush: ask Flush, and do it here when Flush is away.

The Broker keeps a description of its own of each segment that is not yet durable, opened beside
the one it writes through and shares with Flush, and synced by nobody else. So when Flush dies in
the middle of a sync, whose outcome then is unknown and counts as failed, a sync through that
description tells the truth: what Flush was told and took to its grave is told here once more.

Synchronous flush: `want` is answered within `STALL_SECONDS`, whatever became of Flush.

While Flush is away the log may roll into further segments that the Broker makes durable. Flush then
knows less than the Broker and lacks the descriptions in between: it is told how far the log is
durable in every call, and a Flush that was attached gets all from where it begins.

Invariants:
- `flushed` moves only after a sync that covers it returned without an error, here or in Flush.
- after one failed sync there is no other, and `flushed` stays where it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from wakelog.actors.services.broker_events import BrokerEvents
from wakelog.actors.services.flush import CHECKPOINT_MS, FlushOutcome, FlushRequest
from wakelog.actors.transport.batching import BatchWorker
from wakelog.actors.transport.descriptors import send_descriptors
from wakelog.actors.transport.notifications import Notifier
from wakelog.actors.transport.service_client import ServiceClient, ServiceLost
from wakelog.actors.transport.shared_watermarks import SharedWatermark, SharedWatermarks
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.flush import SegmentSync
from wakelog.storage.log.mapped_file_queue import MappedFileQueue

STALL_SECONDS = 0.5
"""Who waits for a flush waits so long for Flush; a sync of a full buffer of a slow disk takes
less."""


class OwnSync:
    """Syncs segments through descriptions that only the Broker has."""

    def __init__(self, fs: FileSystem, files: MappedFileQueue) -> None:
        """Open nothing yet."""
        self._fs = fs
        self._files = files
        self._segments = SegmentSync(fs, files.file_size_bytes)
        self._held_end = 0
        self._is_syncing = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="own-sync")

    @property
    def held_end(self) -> int:
        """The end of the last segment that was adopted."""
        return self._held_end

    def adopt(self, flushed: int) -> list[tuple[int, int]]:
        """Open what the log has rolled into; return (start, shared descriptor) of all not durable.

        To be called before anything of a new segment can have been flushed by anybody.
        """
        undurable = [file for file in self._files.files if file.end_offset > flushed]
        for file in undurable:
            if file.end_offset > self._held_end:
                self._segments.adopt(file.start_offset, self._fs.open(file.path))
                self._held_end = file.end_offset
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


class ReferenceFlush:
    """To Flush by calls: at once for who waits, else once an interval."""

    def __init__(
        self,
        flush: ServiceClient,
        own: OwnSync,
        events: BrokerEvents,
        *,
        epoch: int,
        flushed: int,
        descriptor_path: Path,
        interval_seconds: float | None,
    ) -> None:
        """Begin where everything below `flushed` is durable.

        interval_seconds: between two timed flushes; None if Flush has its own time.
        """
        self._flush = flush
        self._own = own
        self._events = events
        self._epoch = epoch
        self._descriptor_path = descriptor_path
        self._interval_seconds = interval_seconds
        self._appended = self._committed = self._flushed = flushed
        self._stored_ms = 0
        self._sent_end = 0
        self._wanted = False
        self._failed = False
        self._noted = True
        self._outstanding: asyncio.Future[Any] | None = None
        self._worker = BatchWorker("flush", self._step)
        self._timer: asyncio.TimerHandle | None = None
        self.own_count = 0

    @property
    def flushed(self) -> int:
        """Up to where the log is durable."""
        return self._flushed

    def appended(self, *, appended: int, committed: int, stored_ms: int) -> None:
        """Note how far log and segments reach."""
        self._appended, self._committed, self._stored_ms = appended, committed, stored_ms
        if committed > self._own.held_end or (committed > self._sent_end and self._is_attached):
            self.send_descriptors()
        if self._interval_seconds is not None:
            self._ask_later(self._interval_seconds)

    def want(self) -> None:
        """Flush everything committed now."""
        self._wanted = True
        self._worker.ask()

    def attached(self, begin: int) -> None:
        """Give a Flush that was attached, and knows the log to be durable up to `begin`, its part.

        begin: what it was attached with; the Broker may have made more durable since.
        """
        self.send_descriptors(begin)
        if self._wanted:
            self._worker.ask()

    def lost(self) -> None:
        """Do what is waited for here."""
        if self._wanted:
            self._worker.ask()

    def send_descriptors(self, begin: int | None = None) -> None:
        """Open what is new, and send Flush the Broker's descriptions of what is not durable.

        begin: where Flush begins, if that is below what the Broker knows to be durable.
        """
        segments = self._own.adopt(self._flushed if begin is None else min(begin, self._flushed))
        if self._is_attached and send_descriptors(self._descriptor_path, segments):
            self._sent_end = self._own.held_end

    def took(self, flushed: int) -> None:
        """Take over how far Flush says the log is durable."""
        if flushed > self._flushed and not self._failed:
            self._flushed = flushed
            self._wanted = self._wanted and flushed < self._committed
            self._events.flushed(flushed)

    async def stop(self) -> None:
        """Ask for nothing more."""
        if self._timer is not None:
            self._timer.cancel()
        await self._worker.stop()

    def close(self) -> None:
        """Close the Broker's own descriptions."""
        self._own.close()

    @property
    def _is_attached(self) -> bool:
        return self._flush.is_attached

    def _ask_later(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._timed)

    def _timed(self) -> None:
        self._timer = None
        self._worker.ask()

    async def _step(self) -> bool:
        if self._failed or (self._flushed >= self._committed and self._noted):
            return False
        wanted = self._wanted
        try:
            await self._ask(force=wanted)
        except ServiceLost:
            if wanted and self._flushed < self._committed:
                await self._sync_here()
        return self._wanted and not self._failed and self._flushed < self._committed

    async def _ask(self, *, force: bool) -> None:
        if self._outstanding is not None and not self._outstanding.done():
            raise ServiceLost("flush has not answered the call before")
        request = FlushRequest(
            flushed=self._flushed,
            committed=self._committed,
            appended=self._appended,
            stored_ms=self._stored_ms,
            force=force,
        )
        if not self._is_attached:
            raise ServiceLost("flush is not attached")
        call = self._flush.calls.call("flush", "sync", self._epoch, msgspec.to_builtins(request))
        self._outstanding = asyncio.ensure_future(call)
        answer = await self._flush.wait(self._outstanding, STALL_SECONDS if force else None)
        outcome = msgspec.convert(answer, FlushOutcome)
        self._noted = outcome.noted or self._interval_seconds is None
        if not self._noted:
            self._ask_later(CHECKPOINT_MS / 1000)
        self.took(outcome.flushed)
        if outcome.failure is not None:
            self._fail(outcome.failure)
        elif outcome.reach < request.committed:
            self.send_descriptors()

    async def _sync_here(self) -> None:
        begin, end = self._flushed, self._committed
        self._own.adopt(begin)
        self.own_count += 1
        try:
            await self._own.sync(begin, end)
        except StoreError as error:
            self._fail(str(error))
        else:
            self.took(end)

    def _fail(self, cause: str) -> None:
        if not self._failed:
            self._failed = True
            self._events.flush_failed(cause)


class BellFlush:
    """To Flush by notification; by a call, or here, when the notification brought nothing.

    A flush that nobody waits for is Flush's own business, and so is its time: here its word is
    looked at now and then, should the notification that tells of it be lost.
    """

    def __init__(
        self,
        by_reference: ReferenceFlush,
        page: SharedWatermarks,
        line: Notifier,
        is_attached: Callable[[], bool],
    ) -> None:
        """Ring over `line`; `by_reference` is what helps when that does not."""
        self._by_reference = by_reference
        self._page = page
        self._line = line
        self._is_attached = is_attached
        self._committed = 0
        self._wanted = 0
        self._timer: asyncio.TimerHandle | None = None
        self._seen = 0

    def appended(self, *, appended: int, committed: int, stored_ms: int) -> None:
        """Store the words, in an order that keeps theirs, and note them."""
        page = self._page
        page.set(SharedWatermark.APPENDED, appended)
        page.set(SharedWatermark.COMMITTED, committed)
        page.set(SharedWatermark.STORED_MS, max(stored_ms, page.get(SharedWatermark.STORED_MS)))
        self._committed = committed
        self._by_reference.appended(appended=appended, committed=committed, stored_ms=stored_ms)
        if self._timer is None:
            self._look_later()

    def want(self) -> None:
        """Ring, and look whether it helped."""
        self._wanted = self._committed
        if not self._is_attached():
            self._by_reference.want()
            return
        self._line.notify()
        if self._timer is None:
            self._look_later()

    def lost(self) -> None:
        """Do what is waited for here: whoever was rung for it has died."""
        self.look()
        if self._by_reference.flushed < self._wanted:
            self._by_reference.want()

    def look(self) -> None:
        """Take over the word."""
        self._by_reference.took(self._page.get(SharedWatermark.FLUSHED))

    def stop_timer(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_later(self) -> None:
        self._seen = self._by_reference.flushed
        self._timer = asyncio.get_running_loop().call_later(STALL_SECONDS, self._recheck)

    def _recheck(self) -> None:
        self._timer = None
        self.look()
        flushed = self._by_reference.flushed
        if flushed >= self._committed:
            return
        if flushed == self._seen and flushed < self._wanted:
            self._by_reference.want()
        self._look_later()
