"""Some buckets of queues, written from the pieces of all segments in the order of the log.

The rules of a queue, about places that are taken, repeated or left out, are those of its writer.

Invariants: the queues of a bucket are in no other, so that merges of others can run beside; the
files are durable on return.

Source: org.apache.rocketmq.store.ConsumeQueue#putMessagePositionInfo (4.9.3).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from wakelog.audit.parallel.pieces import QueuePiece, queue_pieces
from wakelog.dispatchers.consume_queue import ConsumeQueueDispatcher
from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import FileSystem
from wakelog.storage.queue.consume_queue_writer import ConsumeQueueWriter
from wakelog.storage.queue.crash_end import ENTRY_DTYPE


class MergeSummary(NamedTuple):
    """How many queues were made, and how many names of queues could not become a path."""

    queues_count: int
    illegal_names_count: int


def merge_queues(
    fs: FileSystem, config: StoreConfig, piece_paths: Sequence[str], buckets: Collection[int]
) -> MergeSummary:
    """Make the queues of these buckets below the configuration's root, which has none of them.

    piece_paths: of all segments, in the order of the log.
    Raises: StoreError, OSError.
    """
    queues = ConsumeQueueDispatcher(fs, config)
    illegal = set()
    try:
        for path in piece_paths:
            for piece in queue_pieces(fs, path, buckets):
                queue = queues.open_queue(piece.key)
                if queue is None:
                    illegal.add(piece.key)
                    continue
                _put(queue, piece)
                queue.write_pending()
        queues.flush()
        return MergeSummary(queues.statistics()["queues_count"], len(illegal))
    finally:
        queues.close()


def _put(queue: ConsumeQueueWriter, piece: QueuePiece) -> None:
    entries = np.frombuffer(piece.entries, dtype=ENTRY_DTYPE)
    physical_offsets = entries["physical_offset"].astype(np.int64)
    if (np.diff(physical_offsets) <= 0).any():
        # A message that names its own queue once more: only one by one the second is seen.
        offsets = piece.queue_offsets.tolist()
        for (place, size, tags_code), queue_offset in zip(entries.tolist(), offsets, strict=True):
            queue.put(place, size, tags_code, queue_offset)
        return
    queue.put_column(
        piece.entries,
        physical_offsets=physical_offsets,
        sizes=entries["size"].astype(np.int64),
        tags_codes=entries["tags_code"].astype(np.int64),
        queue_offsets=piece.queue_offsets,
    )
