"""A plug-in that remembers what it got."""

from collections.abc import Callable, Mapping

from wakelog.dispatchers.dispatcher import DispatchBatch
from wakelog.storage.config import StoreConfig


class Recorder:
    """A plug-in that remembers, and does what it is told at each batch."""

    def __init__(self, name: str, at_each: Callable[[], None] = lambda: None) -> None:
        self.name = name
        self.offsets: list[int] = []
        self.flushed_count = 0
        self._at_each = at_each

    def made(self, _config: StoreConfig) -> "Recorder":
        return self

    def dispatch(self, batch: DispatchBatch) -> None:
        self._at_each()
        self.offsets += [request.physical_offset for request in batch.requests]

    def flush(self) -> None:
        self.flushed_count += 1

    def recover(self, max_physical_offset: int) -> int:
        return 0

    def truncate(self, physical_offset: int) -> int:
        return physical_offset

    def statistics(self) -> Mapping[str, int]:
        return {"offsets_count": len(self.offsets)}
