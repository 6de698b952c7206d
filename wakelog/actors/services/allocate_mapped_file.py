"""AllocateMappedFile: makes the log's next segments before they are needed.

Source: org.apache.rocketmq.store.AllocateMappedFileService (4.9.3).
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from wakelog.actors.services.client import BrokerContext, ServiceClient, ServiceLost
from wakelog.actors.services.service import Service
from wakelog.actors.services.session import AttachRequest
from wakelog.actors.transport.calls import ServiceCalls
from wakelog.storage.errors import StoreError
from wakelog.storage.log.allocate import Allocate, InlineSegments, clean_unfinished, make_segment
from wakelog.storage.log.mapped_file_queue import MappedFileQueue


class AllocateMappedFileService(Service):
    """The service of `storage.log.allocate.make_segment`."""

    _made_count = _failed_count = 0

    def begin(self, request: AttachRequest) -> dict[str, Any]:
        """Remove the segments that a process before this one left half made."""
        clean_unfinished(self.fs, self.store.paths, self.name)
        return {}

    def make(self, path: str) -> str | None:
        """Make the segment at `path` unless it is there; return None, or why it is not there."""
        temporary_path = self.store.paths.new_file(path, self.name)
        size_bytes = self.store.commit_log_file_bytes
        try:
            made = make_segment(self.fs, path, size_bytes, temporary_path=temporary_path)
        except StoreError as error:
            self._failed_count += 1
            return str(error)
        self._made_count += made
        return None

    def counters(self) -> dict[str, Any]:
        """Return how many segments were made and how many could not be."""
        return {"made_count": self._made_count, "failed_count": self._failed_count}


class AllocateMappedFileClient(ServiceClient):
    """Makes segments for the Broker's `SegmentSource`."""

    def __init__(self, name: str, calls: ServiceCalls, broker: BrokerContext) -> None:
        super().__init__(name, calls, broker)
        self._source = broker.segments
        if self._source is not None:
            self._source.prepare_with(self)

    def on_attached(self, answer: Mapping[str, Any]) -> None:
        """Ask for the next segments, unless the log takes no messages and needs none."""
        if self._source is not None and self.broker.store.log.failure is None:
            self._source.prepare_again()

    async def stop_work(self) -> None:
        """Ask for nothing more and wait for what is being made."""
        if self._source is not None:
            await self._source.stop()

    def statistics(self) -> dict[str, Any]:
        """Return how many segments the log took, and how many of them the Broker made."""
        if self._source is None:
            return {}
        return {"taken_count": self._source.taken_count, "own_count": self._source.own_count}


class SegmentSource:
    """Where the Broker's log gets its segments (`commit_log.SegmentSource`).

    It exists before the store is open, and makes segments itself until a client prepares them. It
    keeps the calls for the next segments until the log rolls. A segment that is not ready when the
    log needs it is made in place, by the same core. One loop's thread, except `make_first`.
    """

    def __init__(self, files: MappedFileQueue, own: InlineSegments) -> None:
        """Take the segments of `own` until `prepare_with`."""
        self._files = files
        self._own = own
        self._core = Allocate(files.file_size_bytes)
        self._client: ServiceClient | None = None
        self._prepared: dict[int, asyncio.Task[bool]] = {}
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

    def prepare_with(self, client: ServiceClient) -> None:
        """Have `client` make segments from now on."""
        self._client = client

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
        if path is not None and self._client is not None:
            asyncio.get_running_loop().call_soon(self._prepare, start_offset)
        return path

    async def stop(self) -> None:
        """Ask for nothing more and wait for what is being made."""
        self._client = None
        if self._prepared:
            await asyncio.wait(list(self._prepared.values()))
        self._prepared.clear()

    def _prepare(self, taken_start_offset: int) -> None:
        client = self._client
        if client is None or not client.is_attached:
            return
        for start_offset in self._core.step(taken_start_offset):
            task = asyncio.get_running_loop().create_task(self._ask(client, start_offset))
            self._prepared[start_offset] = task
        for start_offset in [start for start in self._prepared if start <= taken_start_offset]:
            del self._prepared[start_offset]

    async def _ask(self, client: ServiceClient, start_offset: int) -> bool:
        try:
            refusal = await client.call("allocate", "make", self._files.path_for(start_offset))
        except ServiceLost:
            refusal = "lost"
        if refusal is not None:
            self._core.failed(start_offset)
        return refusal is None
