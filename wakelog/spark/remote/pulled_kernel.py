"""The compiled scan of answers to pulls: records of one queue, from anywhere in the log.

Each record is checked as `scan_kernel.scan_records` checks one of the log, but for its place, of
which it alone says where it was; nothing is made of its keys and tags, which rows do not need.

To import this module is to import numba.

Source: org.apache.rocketmq.common.message.MessageDecoder#decodes (4.9.3).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from wakelog.protocol.record import PHYSICAL_OFFSET_OFFSET
from wakelog.storage.kernels.compilation import making
from wakelog.storage.kernels.integers import Array, Int, i64_at, same_bytes
from wakelog.storage.kernels.layout import (
    GROUP,
    NO_GROUP,
    QUEUE_ID,
    SYS_FLAG,
    TOPIC_BEGIN,
    TOPIC_BYTES,
)
from wakelog.storage.kernels.record_kernel import PARTS_COUNT, copy_numbers, sound_size

_TRANSACTION: Final = 12  # of the flags; 0 and 8, a committed one, are seen by consumers


@making
def scan_pulled(buffer: Array, topic: Array, queue_id: Int, numbers: Array) -> tuple[Int, Int]:
    """Scan sound records; return how many, and where it stopped.

    topic, queue_id: whose records are group 0; others, which light queues have, are in none.
    numbers: int64[records_max, NUMBER_FIELDS], see `kernels/layout.py`.
    """
    parts = np.zeros(PARTS_COUNT, dtype=np.int64)
    row, at = 0, 0
    while at + PHYSICAL_OFFSET_OFFSET + 8 <= len(buffer) and row < numbers.shape[0]:
        size = sound_size(
            buffer, at, len(buffer), i64_at(buffer, at + PHYSICAL_OFFSET_OFFSET), parts
        )
        if size == 0:
            break
        copy_numbers(buffer, at, size, parts, numbers, row)
        numbers[row, GROUP] = NO_GROUP
        transaction = numbers[row, SYS_FLAG] & _TRANSACTION
        same = numbers[row, QUEUE_ID] == queue_id and numbers[row, TOPIC_BYTES] == len(topic)
        same = same and (transaction == 0 or transaction == 8)
        if same and same_bytes(topic, 0, buffer, numbers[row, TOPIC_BEGIN], len(topic)):
            numbers[row, GROUP] = 0
        row += 1
        at += size
    return row, at
