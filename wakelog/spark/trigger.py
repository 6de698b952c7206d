"""What both kinds of stream share: the limits of a micro-batch, and what Spark calls.

    maxOffsetsPerTrigger, maxBytesPerTrigger   a micro-batch ends when it is full
    minOffsetsPerTrigger, maxTriggerDelay      nothing is read until enough waits, or long enough
    availableNow                               nothing is read that came after the start

Source: Spark's Kafka source for the meaning of the options.
"""

import time
from collections.abc import Callable
from typing import Any, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from wakelog.spark.options import ReadOptions

Offset = dict[str, Any]
Key = TypeVar("Key")


class TriggeredStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream reader. It lives in one Python process of the driver while the stream runs."""

    def __init__(
        self,
        options: ReadOptions,
        schema: StructType,
        *,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read nothing yet."""
        self._options = options
        self._schema = schema
        self._now_s = now_s
        self._held_since_s: float | None = None
        self._target: dict[Any, int] | None = None
        self._latest: Offset | None = None

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return a limit, which Spark passes to `latestOffset` each time.

        It passes `ReadAllAvailable` instead if the query wants everything. The kind of the limit
        does not matter otherwise: `latestOffset` applies all options.
        """
        options = self._options
        for kind, limit in (
            (ReadMaxRows, options.offsets_per_trigger_max),
            (ReadMaxBytes, options.bytes_per_trigger_max),
            (ReadMinRows, options.offsets_per_trigger_min),
        ):
            if limit is not None:
                return kind(limit)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> Offset | None:
        """Return the end of everything that the last `latestOffset` saw."""
        return self._latest

    def commit(self, end: Offset) -> None:
        """Do nothing: Spark keeps the checkpoint."""

    def stop(self) -> None:
        """Do nothing: no file and no connection stays open."""

    def _within_target(self, begins: dict[Key, int], ends: dict[Key, int]) -> dict[Key, int]:
        """Return ends that are not above those at the start of an availableNow run."""
        target = self._target
        if target is None:
            return ends
        return {
            key: max(begins[key], min(end, target.get(key, begins[key])))
            for key, end in ends.items()
        }

    def _must_wait(self, has_messages: Callable[[int], bool]) -> bool:
        """Return whether to wait: too few messages are there, and they do not wait for too long.

        has_messages: whether so many messages wait; called only if the options have a minimum.
        """
        rows_min = self._options.offsets_per_trigger_min
        if rows_min is None or self._target is not None:
            return False
        now_s = self._now_s()
        if self._held_since_s is None:
            self._held_since_s = now_s
        waited_ms = (now_s - self._held_since_s) * 1000
        if has_messages(rows_min) or waited_ms >= self._options.trigger_delay_max_ms:
            self._held_since_s = now_s
            return False
        return True
