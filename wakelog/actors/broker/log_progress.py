"""LogProgress: how far the log of one broker reaches, and what waits for that.

    appended   what turns have written                       -> Commit, Flush
    committed  what the segments hold; Commit copies there   -> Flush
    flushed    what survives a power cut                     -> responses that wait for the disk
    replicated what a slave has acknowledged                 -> responses that wait for one
    confirmed  what is durable on all in-sync replicas       -> the same, in a group with a register
    readable   what consumers may see                        -> Reput

Under asynchronous flush no response depends on these reports, so they are made after the turn's
responses were written.

Invariants:
    - readable is flushed under synchronous flush, else what the segments hold. In a group with a
      register it is what of that is confirmed.
    - all of them only grow, and none passes appended.
    - positions in a table that is saved never count messages that a power cut can still take.

Source: org.apache.rocketmq.store.CommitLog.GroupCommitService, handleDiskFlush (4.9.3).
"""

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from wakelog.actors.services.commit import CommitClient
from wakelog.actors.services.flush_client import FlushClient
from wakelog.actors.services.reput import ReputClient
from wakelog.broker.decision import AwaitFlush
from wakelog.broker.offset_waiters import OffsetWaiters, Waiter
from wakelog.network.handler import Reply
from wakelog.storage.errors import NotWriteable
from wakelog.storage.message_store import MessageStore
from wakelog.telemetry.logs import Log, logger

NEVER_HELD: Final = sys.maxsize
"""The confirmed offset of a broker without a register: it holds nobody."""

ASK_SECONDS = 0.2
"""How often a sync is asked for while one is waited for: Commit may have copied more since."""


class LogProgress:
    """See the module. One loop's thread.

    after_appended: called after the responses of a turn that has written.
    committed_listeners: called with what the segments hold, after the responses of that turn.
    flushed_listeners: called with what is durable, after the responses that waited for it.
    dispatched_listeners: called when the queues hold more.
    has_dispatched: whether Reput has dispatched since this Broker began.
    syncs_every_turn: whether a sync is asked for after every write: responses, consumers or slaves
        wait for it.
    """

    def __init__(
        self,
        store: MessageStore,
        commit: CommitClient | None,
        flush: FlushClient,
        dispatch: ReputClient,
        *,
        call_soon: Callable[[Callable[[], None]], object],
        holds_readers: bool = False,
    ) -> None:
        """Begin where the log ends: what recovery has kept is durable and may be read.

        commit: None without a transient pool.
        call_soon: runs a function after the responses that are given now were written.
        holds_readers: whether consumers may see what is confirmed only. To begin with, that is what
            they could see before.
        """
        self.appended = self.flushed = self.readable = store.max_physical_offset
        self._confirmed = NEVER_HELD
        if holds_readers:
            self._confirmed = self.readable = min(self.readable, store.dispatched)
            store.held_end = self._confirmed
        self.after_appended: list[Callable[[], None]] = []
        self.committed_listeners: list[Callable[[int], None]] = []
        self.flushed_listeners: list[Callable[[int], None]] = []
        self.dispatched_listeners: list[Callable[[], None]] = []
        self.has_dispatched = False
        self._dispatched_grown = asyncio.Event()
        self.flushed_grown = asyncio.Event()
        self.replicated = 0
        self.syncs_every_turn = store.config.synchronous_flush
        self._store = store
        self._commit = commit
        self._flush = flush
        self._dispatch = dispatch
        self._synchronous_flush = store.config.synchronous_flush
        self._for_disk = OffsetWaiters(store.config.sync_flush_timeout_ms, AwaitFlush.timed_out)
        self._for_replica = OffsetWaiters(
            store.config.slave_timeout_ms, AwaitFlush.replica_timed_out
        )
        self._call_soon = call_soon
        self._will_report = False
        self.failure: str | None = None
        self._store_errors = logger(Log.STORE_ERROR)

    def use_settings(self) -> None:
        """Go by the configuration as it is now: responses may wait longer than before."""
        config = self._store.config
        for waiters, timeout_ms in (
            (self._for_disk, config.sync_flush_timeout_ms),
            (self._for_replica, config.slave_timeout_ms),
        ):
            waiters.timeout_ms = max(waiters.timeout_ms, timeout_ms)

    def begin(self) -> None:
        """Have the log dispatched up to `readable`."""
        self._dispatch.request_dispatch(self.readable)

    def on_appended(self, physical_offset: int) -> None:
        """Report to Commit and Flush what a turn has written."""
        assert physical_offset >= self.appended
        self.appended = physical_offset
        for call in self.after_appended:
            self._call_soon(call)
        if self.syncs_every_turn:
            self._report()
            # Consumers wait for it even if no producer does, for example for a delayed message.
            self._flush.request_sync()
        elif self.committed_listeners:
            self._report()
        elif not self._will_report:
            self._will_report = True
            self._call_soon(self._report)

    def sync_every_turn(self, *, wanted: bool) -> None:
        """Ask for a sync after every write from now on, and for one of what is written; or stop."""
        wanted = wanted or self._synchronous_flush
        if wanted and not self.syncs_every_turn and self.flushed < self.appended:
            self._report()
            self._flush.request_sync()
        self.syncs_every_turn = wanted

    def on_committed(self) -> None:
        """Report to Flush what the segments hold, and move `readable`."""
        committed = self._store.max_physical_offset
        self._flush.on_appended(
            appended=self.appended,
            committed=committed,
            stored_ms=self._store.last_store_timestamp_ms,
        )
        for call in self.committed_listeners:
            call(committed)
        self._update_readable()

    def on_flushed(self, physical_offset: int) -> None:
        """Send the responses that waited for it, and move `readable`."""
        if physical_offset > self.flushed:
            self.flushed = physical_offset
            self.flushed_grown.set()
            self._for_disk.reached(physical_offset)
            self._update_readable()
            for call in self.flushed_listeners:
                call(physical_offset)

    def on_dispatched(self, physical_offset: int) -> None:
        """Let readers see what is in the queues now."""
        self.has_dispatched = True
        self._store.set_dispatched(physical_offset)
        for call in self.dispatched_listeners:
            call()
        self._dispatched_grown.set()

    async def wait_dispatched(self, physical_offset: int = 0) -> None:
        """Return when consumers can see everything that is readable, and all up to an offset."""
        while self._store.dispatched < max(physical_offset, self.readable):
            self._dispatched_grown.clear()
            await self._dispatched_grown.wait()

    def on_replicated(self, physical_offset: int) -> None:
        """Send the responses that waited for a slave."""
        if physical_offset > self.replicated:
            self.replicated = physical_offset
            self._for_replica.reached(physical_offset)

    def on_confirmed(self, physical_offset: int) -> None:
        """Send the responses that waited for all in-sync replicas, and let consumers see more."""
        # A log that was confirmed before this run has to be noted, too: tables wait for its end.
        self.on_replicated(physical_offset)
        if physical_offset > self._confirmed:
            self._confirmed = self._store.held_end = physical_offset
            self._update_readable()

    def refuse_all(self, cause: str) -> None:
        """Refuse every response that waits: this broker is no master any more."""
        for waiters in (self._for_disk, self._for_replica):
            waiters.refuse_all(cause)

    def await_flush(self, deferred: AwaitFlush, reply: Reply) -> bool:
        """Let a response wait, or send it now; return whether one of its deadlines comes first.

        Deadlines grow with offsets, so only the first one can bring the next deadline forward.
        """
        end = deferred.physical_offset_end
        replica_deadline_ms = deferred.replica_deadline_ms
        for_disk = deferred.waits_for_disk and end > self.flushed
        for_replica = replica_deadline_ms is not None and end > self.replicated
        if not (for_disk or for_replica):
            reply(deferred.response)
            return False
        waiter, is_first = Waiter(deferred, reply, for_disk + for_replica), False
        if for_disk:
            is_first = self._for_disk.add(end, deferred.deadline_ms, waiter)
        if for_replica and replica_deadline_ms is not None:
            is_first = self._for_replica.add(end, replica_deadline_ms, waiter) or is_first
        if end <= self.appended:
            # Its turn is over: a pool thread's result or a resumed request has put the message.
            self._flush.request_sync()
        return is_first

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

    def on_flush_failed(self, cause: str) -> None:
        """Fail the responses that wait, and accept no more messages."""
        self._store_errors.error("a sync failed: the log takes no more messages", cause=cause)
        self._store.log.fail(cause)
        self.fail_all(cause)

    def fail_unwritten(self, cause: str) -> None:
        """Fail the responses whose message did not reach the file: no flush makes it durable."""
        self.failure = cause
        for waiters in (self._for_disk, self._for_replica):
            waiters.fail_above(self.appended, cause)

    def fail_all(self, cause: str) -> None:
        """Fail every response that waits: a sync failed."""
        self.failure = cause
        self.flushed_grown.set()
        for waiters in (self._for_disk, self._for_replica):
            waiters.fail_all(cause)

    @property
    def next_deadline_ms(self) -> int | None:
        """The earliest deadline of a response that waits, None if there is none."""
        for_disk, for_replica = self._for_disk.next_deadline_ms, self._for_replica.next_deadline_ms
        if for_disk is None or for_replica is None:
            return for_replica if for_disk is None else for_disk
        return min(for_disk, for_replica)

    def expire(self, now_ms: int) -> None:
        """Time out the responses whose deadline has come."""
        self._for_disk.expire(now_ms)
        self._for_replica.expire(now_ms)

    def statistics(self) -> dict[str, dict[str, int]]:
        """Return the watermarks, and counters of the responses that wait for the disk."""
        return {
            "watermarks": {
                "appended": self.appended,
                "flushed": self.flushed,
                "readable": self.readable,
                "replicated": self.replicated,
                "dispatched": self._store.dispatched,
            },
            "flush_waiters": {
                "waiting_count": len(self._for_disk),
                "timed_out_count": self._for_disk.late_count,
            },
            "replica_waiters": {
                "waiting_count": len(self._for_replica),
                "timed_out_count": self._for_replica.late_count,
            },
        }

    def _report(self) -> None:
        self._will_report = False
        if self._commit is not None:
            self._commit.on_appended(self.appended)
        self.on_committed()

    def _update_readable(self) -> None:
        readable = self.flushed if self._synchronous_flush else self._store.max_physical_offset
        readable = min(readable, self._confirmed)
        if readable > self.readable:
            self.readable = readable
            self._dispatch.request_dispatch(readable)
