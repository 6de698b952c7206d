"""What a dispatcher is: something that derives files from the commit log, record by record.

Source: org.apache.rocketmq.store.CommitLogDispatcher (4.9.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from wakelog.storage.dispatch_request import DispatchRequest

__all__ = ["DispatchBatch", "DispatchRequest", "Dispatcher"]


class DispatchBatch(Protocol):
    """Sound records in log order, [begin, end) in physical offsets."""

    begin: int
    end: int
    now_ms: int

    @property
    def requests(self) -> list[DispatchRequest]:
        """The records as values."""
        ...


class Dispatcher(Protocol):
    """One kind of derived file."""

    name: str

    def dispatch(self, batch: DispatchBatch) -> None:
        """Take records in; a record that was taken in before must change nothing."""
        ...

    def flush(self) -> None:
        """Return once everything taken in is durable."""
        ...

    def recover(self, max_physical_offset: int) -> int:
        """Open own files, forget records at or past the log's end, say where dispatch goes on."""
        ...

    def truncate(self, physical_offset: int) -> None:
        """Forget records at or above `physical_offset`, durably."""
        ...

    def statistics(self) -> Mapping[str, int]:
        """Return counters by name."""
        ...
