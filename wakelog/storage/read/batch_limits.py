"""When a batch of records is full: by 4.9.3's limits, by bytes alone, or by more bytes.

Source: org.apache.rocketmq.store.DefaultMessageStore.isTheBatchFull (4.9.3).
"""

from typing import Final

from wakelog.storage.config import StoreConfig

BY_BYTES_COUNT_MAX: Final = 1_000
"""Records of a batch that bytes alone should end; 4.9.3's counts are 32 and 8."""
LARGE_FACTOR: Final = 4
"""A large batch has so many times the configured bytes: a client makes columns of it. A MiB takes
an event loop 0.7 ms, and a pull takes client and broker 0.4 ms whatever it brings."""
LARGE_READS_MAX: Final = 32
"""Reads for one large batch, which ends where it would need more: 0.1 ms of an event loop."""
# On an event loop: about 1 ms of checking entries. A client may request any number.
LOOP_SCAN_COUNT_MAX: Final = 4_000


class BatchLimits:
    """When a batch is full: 4.9.3's limits for records in memory and on disk (fact 32)."""

    def __init__(
        self,
        config: StoreConfig,
        memory_bytes: int,
        *,
        count_max: int | None = None,
        factor: int = 1,
    ) -> None:
        """A record further below the log's end than `memory_bytes` is on disk.

        count_max: in the place of the configured counts. factor: by which bytes are multiplied.
        """
        self.memory_bytes = memory_bytes
        memory_count, disk_count = (
            (config.transfer_count_in_memory_max, config.transfer_count_in_disk_max)
            if count_max is None
            else (count_max, count_max)
        )
        self.memory = factor * config.transfer_bytes_in_memory_max, memory_count
        self._disk = factor * config.transfer_bytes_in_disk_max, disk_count

    def is_full(self, count: int, size_bytes: int, next_bytes: int, behind_bytes: int) -> bool:
        """Tell whether a record of `next_bytes` has to wait; the first one never does."""
        if count == 0:
            return False
        limits = self._disk if behind_bytes > self.memory_bytes else self.memory
        return size_bytes + next_bytes > limits[0] or count > limits[1] - 1

    def count_max(self) -> int:
        """Return how many records a batch has at most, wherever they are."""
        return max(self.memory[1], self._disk[1], 1)


def limits_by_bytes(config: StoreConfig, memory_bytes: int) -> BatchLimits:
    """Return the limits of a batch that bytes alone should end."""
    return BatchLimits(config, memory_bytes, count_max=BY_BYTES_COUNT_MAX)


def limits_large(config: StoreConfig, memory_bytes: int) -> BatchLimits:
    """Return the limits of a large batch, whose entries an event loop may still check."""
    return BatchLimits(config, memory_bytes, count_max=LOOP_SCAN_COUNT_MAX, factor=LARGE_FACTOR)
