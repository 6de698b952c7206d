"""Which consume queues get entries for a batch's records, and in which order.

Prepared and rolled back messages get no entry (fact 7). A message for several queues gets one in
each (`multi_dispatch.py`), after the one in its own queue.

With `enableConsumeQueueExt` each entry in a message's own queue has an extension unit, with the
bitmap from `filter_bitmap.py`. Entries in further queues have none, as in 4.9.3. Records are then
placed one by one, because the filters need the decoded properties anyway.

The caller defines what a queue is: `consume_queue.py` passes the function that opens a writer.

Records of a deleted topic, below the offset at which it was deleted, get no entry.

Invariants: entries of one queue are put in the order of the log.

Source: org.apache.rocketmq.store.DefaultMessageStore.CommitLogDispatcherBuildConsumeQueue (4.9.3).
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from wakelog.compiled.layout import (
    ENTRY_BYTES,
    PHYSICAL_OFFSET,
    QUEUE_OFFSET,
    REFINE,
    REFINE_MULTI,
    SIZE,
    TAGS_CODE,
)
from wakelog.dispatchers.dispatcher import DispatchBatch
from wakelog.protocol.sys_flag import CONSUMED_TYPES, transaction_type
from wakelog.storage.columns.scan_columns import Columns, QueueGroup
from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import Buffer
from wakelog.storage.log.dispatch_request import DispatchRequest
from wakelog.storage.log.multi_dispatch import multi_targets
from wakelog.storage.log.queue_offsets import QueueKey

Array = np.ndarray[Any, Any]


class EntryQueue(Protocol):
    """Consumes the entries of one queue; see `storage/queue/consume_queue_writer.py`."""

    def put(
        self,
        physical_offset: int,
        size_bytes: int,
        tags_code: int,
        queue_offset: int,
        *,
        unit: tuple[int, bytes] | None = None,
    ) -> None:
        """Put one entry; `unit` is store time and bitmap for an extension."""
        ...

    def put_run(
        self,
        entries: Buffer,
        *,
        queue_offset: int,
        physical_offset: int,
        physical_offset_end: int,
    ) -> bool:
        """Put entries of successive queue offsets; return False to ask for `put_column`."""
        ...

    def put_column(
        self,
        entries: Buffer,
        *,
        physical_offsets: Array,
        sizes: Array,
        tags_codes: Array,
        queue_offsets: Array,
    ) -> None:
        """Put many entries in log order."""
        ...


Q = TypeVar("Q", bound=EntryQueue)


class EntryPlacement(Generic[Q]):
    """Puts the entries of batches; `open_queue` returns None for a name that cannot be a path."""

    def __init__(
        self,
        config: StoreConfig,
        open_queue: Callable[[QueueKey], Q | None],
        deleted: Callable[[], Mapping[str, int]] = dict,
        expect: Callable[[Collection[QueueKey]], None] = lambda keys: None,
    ) -> None:
        """Open nothing yet.

        expect: is told the queues of each batch before their entries are put.
        deleted: returns by topic below which physical offset its records get no entry.
        """
        self._config = config
        self._open = open_queue
        self._deleted = deleted
        self._expect = expect

    def place(self, batch: DispatchBatch) -> Collection[Q]:
        """Put an entry of each visible message into each of its queues; return those queues."""
        touched: dict[QueueKey, Q] = {}
        has_units = self._config.enable_consume_queue_extension
        if has_units or batch.columns is None or self._has_multi(batch.columns):
            # A queue can get entries from several topics, and only the plain way keeps log order.
            self._expect({(request.topic, request.queue_id) for request in batch.requests})
            bitmaps = batch.bitmaps or [b""] * len(batch)
            for request, bitmap in zip(batch.requests, bitmaps, strict=True):
                self._put(request, bitmap, touched)
        else:
            self._put_columns(batch.columns, touched)
        return touched.values()

    def _has_multi(self, columns: Columns) -> bool:
        if not self._config.enable_multi_dispatch or not columns.refined:
            return False
        return bool((columns.numbers[: columns.count, REFINE] & REFINE_MULTI).any())

    def _put(self, request: DispatchRequest, bitmap: bytes, touched: dict[QueueKey, Q]) -> None:
        if transaction_type(request.sys_flag) not in CONSUMED_TYPES:
            return
        key = (request.topic, request.queue_id)
        unit = (request.store_timestamp_ms, bitmap)
        self._put_entry(key, request.queue_offset, request, touched, unit)
        if self._config.enable_multi_dispatch:
            for target in multi_targets(
                request.properties, request.queue_id, enable_lmq=self._config.enable_lmq
            ):
                key = (target.topic, target.queue_id)
                self._put_entry(key, target.queue_offset, request, touched)

    def _put_entry(
        self,
        key: QueueKey,
        queue_offset: int,
        request: DispatchRequest,
        touched: dict[QueueKey, Q],
        unit: tuple[int, bytes] | None = None,
    ) -> None:
        if request.physical_offset < self._deleted().get(key[0], 0):
            return
        queue = touched.get(key)
        if queue is None:
            queue = self._open(key)
            if queue is None:
                return
            touched[key] = queue
        queue.put(
            request.physical_offset,
            request.size_bytes,
            request.tags_code,
            queue_offset,
            unit=unit,
        )

    def _put_columns(self, columns: Columns, touched: dict[QueueKey, Q]) -> None:
        deleted = self._deleted()
        groups = columns.groups()
        entries = columns.entries.data
        self._expect([(group.topic, group.queue_id) for group in groups])
        for group in groups:
            topic, queue_id, begin, end, unbroken, queue_offset, physical_offset, run_end = group
            if deleted and physical_offset < deleted.get(topic, 0):
                self._put_not_deleted(columns, group, deleted[topic], touched)
                continue
            key = (topic, queue_id)
            queue = self._open(key)
            if queue is None:
                continue
            touched[key] = queue
            group_entries = entries[ENTRY_BYTES * begin : ENTRY_BYTES * end]
            if unbroken and queue.put_run(
                group_entries,
                queue_offset=queue_offset,
                physical_offset=physical_offset,
                physical_offset_end=run_end,
            ):
                continue
            rows = columns.order[begin:end]
            queue.put_column(
                group_entries,
                physical_offsets=columns.numbers[rows, PHYSICAL_OFFSET],
                sizes=columns.numbers[rows, SIZE],
                tags_codes=columns.numbers[rows, TAGS_CODE],
                queue_offsets=columns.numbers[rows, QUEUE_OFFSET],
            )

    def _put_not_deleted(
        self,
        columns: Columns,
        group: QueueGroup,
        deleted_end: int,
        touched: dict[QueueKey, Q],
    ) -> None:
        """Put the entries of a group's records from an offset on, one by one."""
        for row in columns.order[group.begin : group.end].tolist():
            if columns.numbers[row, PHYSICAL_OFFSET] >= deleted_end:
                self._put(columns.request(row), b"", touched)
