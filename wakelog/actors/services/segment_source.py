"""Where the Broker's log gets its segments: made ahead by AllocateMappedFile, or in place."""

import asyncio
from typing import Protocol

from wakelog.network.background import awaited
from wakelog.storage.errors import StoreError
from wakelog.storage.log.allocate import Allocate, InlineSegments
from wakelog.storage.log.mapped_file_queue import MappedFileQueue
from wakelog.telemetry.logs import Log, logger


class SegmentMaker(Protocol):
    """Makes segments in another process."""

    @property
    def is_attached(self) -> bool:
        """Whether it can be asked."""

    async def make_segment(self, path: str) -> bool:
        """Have the segment at `path` made; return whether it is there."""


class SegmentSource:
    """Where the Broker's log gets its segments (`commit_log.SegmentSource`).

    It exists before the store is open, and makes segments itself until a maker prepares them. It
    keeps the calls for the next segments until the log rolls. A segment that is not ready when the
    log needs it is made in place, by the same core. One loop's thread, except `make_first`.
    """

    def __init__(self, files: MappedFileQueue, own: InlineSegments) -> None:
        """Take the segments of `own` until `prepare_with`."""
        self._files = files
        self._own = own
        self._core = Allocate(files.file_size_bytes)
        self._maker: SegmentMaker | None = None
        self._prepared: dict[int, asyncio.Future[bool]] = {}
        self._log = logger(Log.STORE)
        self.taken_count = 0
        self.own_count = 0

    @property
    def failure(self) -> StoreError | None:
        """Why the last segment could not be made, None if it could."""
        return self._own.failure

    def make_first(self) -> None:
        """Make the first segment of an empty log, in the thread that opens the store.

        If that fails, the log tries again when it needs the segment, and reports the reason.
        """
        if self._files.last is None:
            self._own.take_segment(0)

    def prepare_with(self, maker: SegmentMaker) -> None:
        """Have `maker` make segments from now on."""
        self._maker = maker

    def prepare_again(self) -> None:
        """Ask for the next segments: an AllocateMappedFile that was just attached knows of none."""
        last = self._files.last
        if last is not None:
            self._core = Allocate(self._files.file_size_bytes)
            self._prepare(last.start_offset)

    def take_segment(self, start_offset: int) -> str | None:
        """Return the path of the segment; None, with `failure` set, if it cannot be made."""
        prepared = self._prepared.pop(start_offset, None)
        is_ready = prepared is not None and prepared.done() and not prepared.cancelled()
        if is_ready and prepared is not None and prepared.result():
            path: str | None = self._files.path_for(start_offset)
        else:
            self.own_count += 1
            path = self._own.take_segment(start_offset)
        self.taken_count += path is not None
        if path is not None and self._maker is not None:
            asyncio.get_running_loop().call_soon(self._prepare, start_offset)
        return path

    async def stop(self) -> None:
        """Ask for nothing more and wait for what is being made."""
        self._maker = None
        if self._prepared:
            await asyncio.wait(list(self._prepared.values()))
        self._prepared.clear()

    def _prepare(self, taken_start_offset: int) -> None:
        maker = self._maker
        if maker is None or not maker.is_attached:
            return
        for start_offset in self._core.step(taken_start_offset):
            task = awaited(self._ask(maker, start_offset))
            self._prepared[start_offset] = task
        for start_offset in [start for start in self._prepared if start <= taken_start_offset]:
            del self._prepared[start_offset]

    async def _ask(self, maker: SegmentMaker, start_offset: int) -> bool:
        try:
            is_made = await maker.make_segment(self._files.path_for(start_offset))
        except Exception as error:
            self._log.error("segment not asked for", start=start_offset, exc_info=error)
            is_made = False
        if not is_made:
            self._core.failed(start_offset)
        return is_made
