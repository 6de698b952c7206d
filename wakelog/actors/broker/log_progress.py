"""LogProgress: how far the log of one broker reaches, and who is told when it reaches further.

    appended   what turns have written                       -> Commit, Flush
    committed  what the segments hold (the pool's copier)    -> Flush
    flushed    what survives the machine                     -> answers that wait for the disk
    readable   what consumers may see                        -> Reput

Under asynchronous flush the telling waits until the turn's answers are on their way: none of them
rests on it.

Invariants:
    - readable is flushed under synchronous flush, else what the segments hold.
    - appended, flushed and readable only grow; flushed and readable never pass appended.

Source: org.apache.rocketmq.store.CommitLog.GroupCommitService, handleDiskFlush (4.9.3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from wakelog.actors.broker.flush_waiters import FlushWaiters
from wakelog.actors.services.broker_events import DispatchLine, FlushLine
from wakelog.broker.decision import AwaitFlush
from wakelog.network.handler import Reply


class CommitEnd(Protocol):
    """To Commit."""

    def appended(self, physical_offset: int) -> None:
        """Have what is below copied into the segments."""
        ...


class LogEnds(Protocol):
    """What the log says of itself."""

    @property
    def max_physical_offset(self) -> int:
        """Where what the segments hold ends."""
        ...

    @property
    def last_store_timestamp_ms(self) -> int:
        """The store time of the last record."""
        ...


class ToldLines(NamedTuple):
    """Who is told."""

    commit: CommitEnd
    flush: FlushLine
    dispatch: DispatchLine


class LogProgress:
    """See the module. One loop's thread."""

    def __init__(
        self,
        ends: LogEnds,
        lines: ToldLines,
        *,
        synchronous_flush: bool,
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        """Begin where the log ends: what a recovery has kept is durable and may be read.

        call_soon: runs a function once answers that are given now were written.
        """
        self.appended = self.flushed = self.readable = ends.max_physical_offset
        self.waiters = FlushWaiters()
        self._ends = ends
        self._lines = lines
        self._synchronous_flush = synchronous_flush
        self._call_soon = call_soon
        self._is_telling = False

    def begin(self) -> None:
        """Have what is there dispatched."""
        self._lines.dispatch.readable(self.readable)

    def note_appended(self, physical_offset: int) -> None:
        """Tell of what a turn has written."""
        assert physical_offset >= self.appended
        self.appended = physical_offset
        if self._synchronous_flush:
            self._tell()
            # Consumers wait for it even where no producer does, as for a delayed message.
            self._lines.flush.want()
        elif not self._is_telling:
            self._is_telling = True
            self._call_soon(self._tell)

    def note_committed(self) -> None:
        """Tell of what the segments hold."""
        self._lines.flush.appended(
            appended=self.appended,
            committed=self._ends.max_physical_offset,
            stored_ms=self._ends.last_store_timestamp_ms,
        )
        self._update_readable()

    def note_flushed(self, physical_offset: int) -> None:
        """Give the answers that waited for it."""
        if physical_offset > self.flushed:
            self.flushed = physical_offset
            self.waiters.flushed(physical_offset)
            self._update_readable()

    def await_flush(self, deferred: AwaitFlush, reply: Reply) -> bool:
        """Let an answer wait for the disk, or give it if the disk has it; tell whether it waits."""
        if deferred.physical_offset_end <= self.flushed:
            reply(deferred.response)
            return False
        self.waiters.add(deferred, reply)
        if deferred.physical_offset_end <= self.appended:
            # Its turn is over already: a put of the pool's, or of a held request that went on.
            self._lines.flush.want()
        return True

    def _tell(self) -> None:
        self._is_telling = False
        self._lines.commit.appended(self.appended)
        self.note_committed()

    def _update_readable(self) -> None:
        readable = self.flushed if self._synchronous_flush else self._ends.max_physical_offset
        if readable > self.readable:
            self.readable = readable
            self._lines.dispatch.readable(readable)
