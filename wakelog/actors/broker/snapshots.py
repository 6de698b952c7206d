"""Snapshots: the log of one broker, handed by reference to programs that read its files.

    take     make durable what was acknowledged; Retention leases it and names its files
    renew    keep it for as long again; a reader at work does so every few minutes
    end      the reader is done

An answer has plain parts only. A failure is {"failure": {"cause", "remedy"}}, because an exception
does not survive the way through Ray in one piece.

Invariant: a snapshot ends at what is durable and visible, so no crash changes what is in it.

Source: none upstream.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from wakelog.actors.broker.log_progress import LogProgress
from wakelog.actors.services.client import ServiceLost
from wakelog.actors.services.retention import RetentionClient
from wakelog.storage.errors import NotWriteable
from wakelog.storage.retention.snapshot import SnapshotRefused, read_snapshot

FLUSH_SECONDS_MAX: Final = 5.0
"""How long a snapshot waits for the disk; it then ends at what the disk has."""

_RETRY: Final = "Ask again: it is starting, or is busy removing segments."
_AGAIN: Final = "Take a snapshot from the beginning."


class Snapshots:
    """See the module. One loop's thread."""

    def __init__(
        self,
        retention: RetentionClient,
        progress: LogProgress,
        *,
        store_id: str,
    ) -> None:
        """Take none yet."""
        self._retention = retention
        self._progress = progress
        self._store_id = store_id

    async def take(self, after: Mapping[str, Any] | None, holder: str) -> dict[str, Any]:
        """Return a snapshot of the whole log, or of what came after an earlier one."""
        begin = None
        if after is not None:
            try:
                earlier = read_snapshot(after)
            except SnapshotRefused as error:
                return failure(f"what it must follow is no snapshot: {error}", _AGAIN)
            if earlier.store_id != self._store_id:
                return failure(f"{earlier.store_id} is another store", _AGAIN)
            begin = earlier.end
        end = await self._durable_end()
        remedy = "End snapshots, or begin again."
        answer = await self._ask("no snapshot", remedy, "lease", holder, begin, end)
        return dict(answer.get("snapshot", answer))

    async def renew(self, lease_id: str) -> dict[str, Any]:
        """Return {"expires_ms": when the snapshot ends}, or a failure."""
        refusal = "the snapshot is not kept any more"
        return await self._ask(refusal, "Take another.", "renew_lease", lease_id)

    async def end(self, lease_id: str) -> dict[str, Any]:
        """Return {"ended": whether the snapshot was kept until now}, or a failure."""
        return await self._ask("the lease stays", "It ends by itself.", "end_lease", lease_id)

    async def _durable_end(self) -> int:
        """Wait until the log's present end is durable; return what is durable and visible."""
        progress = self._progress
        with suppress(TimeoutError, NotWriteable):
            async with asyncio.timeout(FLUSH_SECONDS_MAX):
                await progress.wait_durable()
        return min(progress.flushed, progress.readable)

    async def _ask(self, refusal: str, remedy: str, method: str, *arguments: Any) -> dict[str, Any]:
        """Return Retention's answer, or a failure if it refuses or is lost."""
        try:
            answer = await self._retention.call_lease(method, *arguments)
        except ServiceLost as error:
            return failure(f"retention does not answer: {error}", _RETRY)
        if "refused" in answer:
            return failure(f"{refusal}: {answer['refused']}", remedy)
        return answer


def failure(cause: str, remedy: str) -> dict[str, Any]:
    """Return a failure as an answer."""
    return {"failure": {"cause": cause, "remedy": remedy}}


NOT_RUNNING: Final = failure("the broker does not run now", "Ask again: it is being started.")
