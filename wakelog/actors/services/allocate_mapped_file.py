"""AllocateMappedFile: makes the log's next segments before they are needed.

Source: org.apache.rocketmq.store.AllocateMappedFileService (4.9.3).
"""

from collections.abc import Mapping
from typing import Any

from wakelog.actors.services.client import ServiceClient, ServiceHandle, ServiceLost
from wakelog.actors.services.segment_source import SegmentSource
from wakelog.actors.services.service import Service, Session
from wakelog.broker.trouble import Trouble
from wakelog.storage.errors import StoreError
from wakelog.storage.log.allocate import clean_unfinished, make_segment


class AllocateMappedFileService(Service):
    """The service of `storage.log.allocate.make_segment`."""

    def __init__(self, session: Session) -> None:
        """Remove the segments that a process before this one left half made."""
        super().__init__(session)
        self._made_count = self._failed_count = 0
        clean_unfinished(self.fs, self.store.paths, self.name)

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

    def __init__(self, handle: ServiceHandle, *, source: SegmentSource) -> None:
        """Make what the log's source of segments asks for."""
        super().__init__(handle)
        self._source = source
        source.prepare_with(self)

    def on_attached(self, answer: Mapping[str, Any]) -> None:
        """Ask for the next segments, unless the log takes no messages and needs none."""
        if self.broker.store.log.failure is None:
            self._source.prepare_again()

    async def make_segment(self, path: str) -> bool:
        """Have the segment at `path` made; return whether it is there."""
        try:
            refusal = await self.call("allocate", "make", path)
        except ServiceLost:
            return False
        if refusal is not None:
            self.set_trouble("segment", Trouble(refusal))  # the call itself worked
            return False
        self.clear_trouble("segment")
        return True

    async def stop_work(self) -> None:
        """Ask for nothing more and wait for what is being made."""
        await self._source.stop()

    def statistics(self) -> dict[str, Any]:
        """Return how many segments the log took, and how many of them the Broker made."""
        return {"taken_count": self._source.taken_count, "own_count": self._source.own_count}
