"""The Broker's end of allocation: segments asked for ahead, and made here when none came.

The references of the segments asked for are held until the log rolls. A segment whose maker
died, or has not finished when the log needs it, is made in place by the same core.

Source: org.apache.rocketmq.store.AllocateMappedFileService.putRequestAndReturnMappedFile (4.9.3).
"""

from __future__ import annotations

import asyncio
from typing import Any

from wakelog.actors.transport.service_client import ServiceClient, ServiceLost
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.allocate import Allocate, InlineSegments
from wakelog.storage.log.mapped_file_queue import MappedFileQueue
from wakelog.storage.paths import StorePaths
from wakelog.storage.store_parts import BROKER_OWNER


class SegmentClient:
    """The segment source of the Broker's log (`commit_log.SegmentSource`)."""

    def __init__(self, fs: FileSystem, paths: StorePaths, files: MappedFileQueue) -> None:
        """Make segments here until `start`."""
        self._files = files
        self._own = InlineSegments(fs, paths, files, BROKER_OWNER)
        self._core = Allocate(files.file_size_bytes)
        self._allocate: ServiceClient | None = None
        self._epoch = 0
        self._asked: dict[int, asyncio.Task[bool]] = {}
        self.taken_count = 0
        self.own_count = 0

    @property
    def failure(self) -> StoreError | None:
        """Why the last segment could not be had, None if it could."""
        return self._own.failure

    def make_first(self) -> None:
        """Make the first segment of an empty log, for which nobody could be asked ahead.

        Making one waits for the disk, so this is for the thread that opens the store. If it fails
        the log tries again when it needs the segment, and says why.
        """
        if self._files.last is None:
            self._own.take_segment(0)

    def start(self, allocate: ServiceClient, epoch: int) -> None:
        """Ask `allocate` from now on."""
        self._allocate = allocate
        self._epoch = epoch

    def attached(self) -> None:
        """Ask for what the log needs next; asked for again after Allocate was lost."""
        last = self._files.last
        if last is not None:
            self._core = Allocate(self._files.file_size_bytes)
            self._ask_ahead(last.start_offset)

    def take_segment(self, start_offset: int) -> str | None:
        """Return the path of the segment; None, with the reason kept, if it cannot be had."""
        asked = self._asked.pop(start_offset, None)
        if asked is not None and asked.done() and not asked.cancelled() and asked.result():
            path: str | None = self._files.path_for(start_offset)
        else:
            self.own_count += 1
            path = self._own.take_segment(start_offset)
        self.taken_count += path is not None
        if path is not None and self._allocate is not None:
            asyncio.get_running_loop().call_soon(self._ask_ahead, start_offset)
        return path

    async def stop(self) -> None:
        """Ask for nothing more and wait for what is being made."""
        self._allocate = None
        if self._asked:
            await asyncio.wait(list(self._asked.values()))
        self._asked.clear()

    def statistics(self) -> dict[str, Any]:
        """Return how many segments the log took, and how many of them were made here."""
        return {"taken_count": self.taken_count, "own_count": self.own_count}

    def _ask_ahead(self, taken_start_offset: int) -> None:
        allocate = self._allocate
        if allocate is None or not allocate.is_attached:
            return
        for start_offset in self._core.step(taken_start_offset):
            task = asyncio.get_running_loop().create_task(self._ask(allocate, start_offset))
            self._asked[start_offset] = task
        for start_offset in [start for start in self._asked if start <= taken_start_offset]:
            del self._asked[start_offset]

    async def _ask(self, allocate: ServiceClient, start_offset: int) -> bool:
        path = self._files.path_for(start_offset)
        try:
            refusal = await allocate.ask("allocate", "make", self._epoch, path)
        except ServiceLost:
            refusal = "lost"
        if refusal is not None:
            self._core.failed(start_offset)
        return refusal is None
