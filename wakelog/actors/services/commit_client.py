"""The Broker's end of the commit: have buffers copied to segments in time, here if Commit is away.

Without a transient pool it does nothing: what is appended is in the segments.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from wakelog.actors.services.broker_events import BrokerEvents
from wakelog.actors.services.commit import copy_piece
from wakelog.actors.transport.batching import BatchWorker
from wakelog.actors.transport.clocks import steady_ms
from wakelog.actors.transport.service_client import ServiceClient, ServiceLost
from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import RealFileSystem
from wakelog.storage.log.commit import Commit
from wakelog.storage.log.mapped_file_queue import MappedFileQueue
from wakelog.storage.log.transient_pool import TransientPool
from wakelog.telemetry.logs import Log, logger

COMMIT_SECONDS_MAX = 2.0
"""How long Commit may take; copying a segment of 1 GiB takes less than a second."""


class CommitClient:
    """To Commit, by calls whatever the transport."""

    def __init__(
        self,
        commit: ServiceClient,
        epoch: int,
        events: BrokerEvents,
        *,
        pool: TransientPool | None,
        files: MappedFileQueue,
        config: StoreConfig,
        committed: int,
    ) -> None:
        """Begin where the segments hold everything below `committed`."""
        self._commit = commit
        self._epoch = epoch
        self._events = events
        self._pool = pool
        self._files = files
        self._core = Commit(config, committed, steady_ms())
        self._appended = committed
        self._worker = BatchWorker("commit", self._run)
        self._timer: asyncio.TimerHandle | None = None
        self._log = logger(Log.STORE)
        self.own_count = 0

    def appended(self, physical_offset: int) -> None:
        """Note how far the buffers reach."""
        if self._pool is not None:
            self._appended = physical_offset
            if self._timer is None:
                self._worker.ask()

    async def stop(self) -> None:
        """Copy no more; what is left is copied when the store is closed."""
        if self._timer is not None:
            self._timer.cancel()
        await self._worker.wait_idle()

    def statistics(self) -> dict[str, Any]:
        """Return how often the Broker did it by itself."""
        return {"own_count": self.own_count}

    async def _run(self) -> bool:
        decision = self._core.step(self._appended, steady_ms())
        if decision.commit_to is not None and await self._copy(decision.commit_to):
            self._core.succeeded(decision.commit_to)
            self._events.committed(decision.commit_to)
        elif decision.commit_to is not None:
            self._core.failed()
        if self._core.committed_offset < self._appended:
            self._look_in(max(1, decision.next_step_ms - steady_ms()) / 1000)
        return False

    async def _copy(self, physical_offset: int) -> bool:
        assert self._pool is not None
        pieces = []
        for piece in self._pool.pending(physical_offset):
            segment = self._files.find(piece.segment_start_offset)
            assert segment is not None, piece
            start_offset = piece.segment_start_offset
            pieces.append((piece.buffer_path, start_offset, piece.begin, piece.end, segment.path))
        try:
            failure = await self._commit.ask(
                "commit", "commit", self._epoch, pieces, seconds_max=COMMIT_SECONDS_MAX
            )
        except ServiceLost:
            failure = await self._copy_here(pieces)
        if failure is not None:
            self._log.error("commit failed", cause=failure)
            return False
        self._pool.note_committed(physical_offset)
        return True

    async def _copy_here(self, pieces: list[tuple[str, int, int, int, str]]) -> str | None:
        self.own_count += 1
        fs = RealFileSystem()
        loop = asyncio.get_running_loop()
        try:
            for piece in pieces:
                await loop.run_in_executor(None, partial(copy_piece, fs, piece))
        except StoreError as error:
            return str(error)
        return None

    def _look_in(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._timed)

    def _timed(self) -> None:
        self._timer = None
        self._worker.ask()
