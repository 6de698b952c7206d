"""Snapshots: the log of one broker, handed by reference to whoever reads files by itself.

    take     have what was acknowledged made durable; have Retention lease it and name its files
    renew    keep it for as long again; a reader at work does so every few minutes
    end      the reader is done

An answer is a value of plain parts, {"failure": {"cause", "remedy"}} among them: what goes wrong is
no exception, which would not survive the way through Ray in one piece.

Invariants: a snapshot ends at what is durable and visible, so that no crash changes what is in it.

Source: none upstream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

import msgspec

from wakelog.actors.services.client import ServiceLost
from wakelog.actors.services.retention import LeaseRequest
from wakelog.storage.retention.snapshot import SnapshotRefused, read_snapshot

FLUSH_SECONDS_MAX: Final = 5.0
"""How long a snapshot waits for the disk; it then ends at what the disk has."""

_RETRY: Final = "Ask again: it is started anew, or is busy removing segments."
_AGAIN: Final = "Take a snapshot from the beginning."


class LogEnds(Protocol):
    """How far the log reaches."""

    appended: int
    """What may be acknowledged."""
    flushed: int
    """What is durable."""
    readable: int
    """What consumers may see."""


class FlushEnd(Protocol):
    """To Flush."""

    def request_sync(self) -> None:
        """Flush now what is there."""
        ...


class LeaseLine(Protocol):
    """To Retention."""

    async def call_lease(self, method: str, *arguments: Any) -> dict[str, Any]:
        """Ask about a lease. Raises: ServiceLost."""
        ...


class Snapshots:
    """See the module. One loop's thread."""

    def __init__(self, flush: FlushEnd, leases: LeaseLine, ends: LogEnds, *, store_id: str) -> None:
        """Take none yet."""
        self._flush = flush
        self._leases = leases
        self._ends = ends
        self._store_id = store_id
        self._grown = asyncio.Event()

    def flushed(self) -> None:
        """Look again: more is durable."""
        self._grown.set()

    async def take(self, after: Mapping[str, Any] | None, holder: str) -> dict[str, Any]:
        """Return a snapshot of all there is, or of what came after an earlier one."""
        begin = None
        if after is not None:
            try:
                earlier = read_snapshot(after)
            except SnapshotRefused as error:
                return failure(f"what it is to follow is no snapshot: {error}", _AGAIN)
            if earlier.store_id != self._store_id:
                return failure(f"{earlier.store_id} is another store", _AGAIN)
            begin = earlier.end
        end = await self._durable_end()
        request = LeaseRequest(holder, begin, end)
        answer = await self._ask("lease", msgspec.to_builtins(request))
        if "refused" in answer:
            return failure(f"no snapshot: {answer['refused']}", "End snapshots, or begin anew.")
        return dict(answer.get("snapshot", answer))

    async def renew(self, lease_id: str) -> dict[str, Any]:
        """Return {"expires_ms": until when a snapshot is kept now}, or a failure."""
        answer = await self._ask("renew_lease", lease_id)
        if "refused" in answer:
            return failure(f"the snapshot is kept no more: {answer['refused']}", "Take another.")
        return answer

    async def end(self, lease_id: str) -> dict[str, Any]:
        """Return {"ended": whether the snapshot was kept until now}, or a failure."""
        answer = await self._ask("end_lease", lease_id)
        if "refused" in answer:
            return failure(f"the lease stays: {answer['refused']}", "It ends by itself.")
        return answer

    async def _durable_end(self) -> int:
        """Return how far the log is durable, once all of it that is there now is."""
        wanted = self._ends.appended
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_SECONDS_MAX):
                while self._ends.flushed < wanted:
                    self._grown.clear()
                    self._flush.request_sync()
                    await self._grown.wait()
        return min(self._ends.flushed, self._ends.readable)

    async def _ask(self, method: str, *arguments: Any) -> dict[str, Any]:
        try:
            return await self._leases.call_lease(method, *arguments)
        except ServiceLost as error:
            return failure(f"retention does not answer: {error}", _RETRY)


def failure(cause: str, remedy: str) -> dict[str, Any]:
    """Return what stands in the place of an answer."""
    return {"failure": {"cause": cause, "remedy": remedy}}


NOT_RUNNING: Final = failure("the broker does not run now", "Ask again: it is started anew.")
