"""Dispatchers of others that do not behave: installed by a test into a running broker."""

import threading

from wakelog.dispatchers.dispatcher import DispatchBatch
from wakelog.storage.config import StoreConfig


class Raising:
    """Takes nothing in."""

    name = "raising"

    def __init__(self, config: StoreConfig) -> None:
        self.seen_count = 0

    def dispatch(self, batch: DispatchBatch) -> None:
        self.seen_count += 1
        raise ValueError("not today")

    def flush(self) -> None:
        pass

    def recover(self, max_physical_offset: int) -> int:
        return 0

    def truncate(self, physical_offset: int) -> int:
        return 0

    def statistics(self) -> dict[str, int]:
        return {"seen_count": self.seen_count}


class Hanging(Raising):
    """Never comes back from the first batch."""

    name = "hanging"

    def dispatch(self, batch: DispatchBatch) -> None:
        self.seen_count += 1
        threading.Event().wait()


class Stuck(Raising):
    """Is never ready, as one that waits for a database that is away."""

    name = "stuck"

    def __init__(self, config: StoreConfig) -> None:
        threading.Event().wait()
