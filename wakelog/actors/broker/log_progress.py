"""LogProgress: how far the log of one broker reaches, and what waits for that.

    appended   what turns have written                       -> Commit, Flush
    committed  what the segments hold; Commit copies there   -> Flush
    flushed    what survives a power cut                     -> responses that wait for the disk
    readable   what consumers may see                        -> Reput

Under asynchronous flush no response depends on these reports, so they are made after the turn's
responses were written.

Invariants:
    - readable is flushed under synchronous flush, else what the segments hold.
    - appended, flushed and readable only grow; flushed and readable never pass appended.
    - positions in a table that is saved never count messages that a power cut can still take.
    - responses wait in the order in which their messages were put. So their offsets and deadlines
      only grow, and checking the first response is enough.

Source: org.apache.rocketmq.store.CommitLog.GroupCommitService, handleDiskFlush (4.9.3).
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from wakelog.actors.services.commit import CommitClient
from wakelog.actors.services.flush_client import FlushClient
from wakelog.actors.services.reput import ReputClient
from wakelog.broker.decision import AwaitFlush
from wakelog.network.handler import Reply
from wakelog.storage.errors import NotWriteable
from wakelog.storage.message_store import MessageStore

ASK_SECONDS = 0.2
"""How often a sync is asked for while one is waited for: Commit may have copied more since."""


class _Waiter(NamedTuple):
    deferred: AwaitFlush
    reply: Reply


class LogProgress:
    """See the module. One loop's thread."""

    def __init__(
        self,
        store: MessageStore,
        commit: CommitClient | None,
        flush: FlushClient,
        dispatch: ReputClient,
        *,
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        """Begin where the log ends: what recovery has kept is durable and may be read.

        commit: None without a transient pool.
        call_soon: runs a function after the responses that are given now were written.
        """
        self.appended = self.flushed = self.readable = store.max_physical_offset
        self.flushed_grown = asyncio.Event()
        self._waiters: deque[_Waiter] = deque()
        self._timed_out_count = 0
        self._store = store
        self._commit = commit
        self._flush = flush
        self._dispatch = dispatch
        self._synchronous_flush = store.config.synchronous_flush
        self._timeout_ms = store.config.sync_flush_timeout_ms
        self._call_soon = call_soon
        self._will_report = False
        self.failure: str | None = None

    def begin(self) -> None:
        """Have the log dispatched up to `readable`."""
        self._dispatch.request_dispatch(self.readable)

    def note_appended(self, physical_offset: int) -> None:
        """Report to Commit and Flush what a turn has written."""
        assert physical_offset >= self.appended
        self.appended = physical_offset
        if self._synchronous_flush:
            self._report()
            # Consumers wait for it even if no producer does, for example for a delayed message.
            self._flush.request_sync()
        elif not self._will_report:
            self._will_report = True
            self._call_soon(self._report)

    def note_committed(self) -> None:
        """Report to Flush what the segments hold, and move `readable`."""
        self._flush.note_appended(
            appended=self.appended,
            committed=self._store.max_physical_offset,
            stored_ms=self._store.last_store_timestamp_ms,
        )
        self._update_readable()

    def note_flushed(self, physical_offset: int) -> None:
        """Send the responses that waited for it, and move `readable`."""
        if physical_offset > self.flushed:
            self.flushed = physical_offset
            self.flushed_grown.set()
            waiters = self._waiters
            while waiters and waiters[0].deferred.physical_offset_end <= physical_offset:
                waiter = waiters.popleft()
                waiter.reply(waiter.deferred.response)
            self._update_readable()

    def await_flush(self, deferred: AwaitFlush, reply: Reply) -> bool:
        """Let a response wait for the disk, or send it now; return whether the first one waits.

        Deadlines only grow, so only the first of those that wait can bring the next one forward.
        """
        if deferred.physical_offset_end <= self.flushed:
            reply(deferred.response)
            return False
        self._waiters.append(_Waiter(deferred, reply))
        if deferred.physical_offset_end <= self.appended:
            # Its turn is over: a pool thread's result or a resumed request has put the message.
            self._flush.request_sync()
        return len(self._waiters) == 1

    async def wait_durable(self) -> None:
        """Have everything made durable that was put until now, and return then.

        Raises: NotWriteable: a write or a sync has failed, so that some of it never will be.
        """
        wanted = self.appended
        while self.failure is None and self.flushed < wanted:
            self.flushed_grown.clear()
            self._flush.request_sync()
            with suppress(TimeoutError):
                async with asyncio.timeout(ASK_SECONDS):
                    await self.flushed_grown.wait()
        if self.failure is not None:
            raise NotWriteable(self.failure)

    def fail_unwritten(self, cause: str) -> None:
        """Fail the responses whose message did not reach the file: no flush makes it durable."""
        self.failure = cause
        waiters = self._waiters
        while waiters and waiters[-1].deferred.physical_offset_end > self.appended:
            waiter = waiters.pop()
            waiter.reply(waiter.deferred.flush_failed(cause))

    def fail_all(self, cause: str) -> None:
        """Fail every response that waits: a sync failed."""
        self.failure = cause
        self.flushed_grown.set()
        while self._waiters:
            waiter = self._waiters.popleft()
            waiter.reply(waiter.deferred.flush_failed(cause))

    @property
    def next_deadline_ms(self) -> int | None:
        """The deadline of the first response that waits, None if there is none."""
        return self._waiters[0].deferred.deadline_ms if self._waiters else None

    def expire(self, now_ms: int) -> None:
        """Time out the responses whose deadline has come.

        A deadline later than the timeout allows shows that the clock was set back.
        """
        waiters, end_ms = self._waiters, now_ms + self._timeout_ms
        while waiters and not now_ms < waiters[0].deferred.deadline_ms <= end_ms:
            waiter = waiters.popleft()
            self._timed_out_count += 1
            waiter.reply(waiter.deferred.timed_out())

    def statistics(self) -> dict[str, dict[str, int]]:
        """Return the watermarks, and counters of the responses that wait for the disk."""
        return {
            "watermarks": {
                "appended": self.appended,
                "flushed": self.flushed,
                "readable": self.readable,
                "dispatched": self._store.dispatched,
            },
            "flush_waiters": {
                "waiting_count": len(self._waiters),
                "timed_out_count": self._timed_out_count,
            },
        }

    def _report(self) -> None:
        self._will_report = False
        if self._commit is not None:
            self._commit.note_appended(self.appended)
        self.note_committed()

    def _update_readable(self) -> None:
        readable = self.flushed if self._synchronous_flush else self._store.max_physical_offset
        if readable > self.readable:
            self.readable = readable
            self._dispatch.request_dispatch(readable)
