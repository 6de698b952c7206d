"""The compiled scan of pulled records: of one queue, from any place in the log.

Each record is checked as `scan_kernel.scan_records` checks one in the log, except for its place:
only the record itself states it. Keys and tags are not parsed, because rows do not need them.

This module imports numba.

Source: org.apache.rocketmq.common.message.MessageDecoder#decodes (4.9.3).
"""

import numpy as np

from wakelog.protocol.record import PHYSICAL_OFFSET_OFFSET
from wakelog.protocol.sys_flag import TRANSACTION_PREPARED
from wakelog.storage.kernels.compilation import making
from wakelog.storage.kernels.integers import Array, Int, i64_at, same_bytes
from wakelog.storage.kernels.layout import (
    GROUP,
    NO_GROUP,
    PARTS_COUNT,
    QUEUE_ID,
    SYS_FLAG,
    TOPIC_BEGIN,
    TOPIC_BYTES,
)
from wakelog.storage.kernels.record_kernel import copy_numbers, sound_size


@making
def scan_pulled(buffer: Array, topic: Array, queue_id: Int, numbers: Array) -> tuple[Int, Int]:
    """Scan sound records; return their count, and the position after them.

    topic, queue_id: of group 0. Other records, which light queues have, are in no group.
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
        same = numbers[row, QUEUE_ID] == queue_id and numbers[row, TOPIC_BYTES] == len(topic)
        same = same and not numbers[row, SYS_FLAG] & TRANSACTION_PREPARED  # nor rolled back
        if same and same_bytes(topic, 0, buffer, numbers[row, TOPIC_BEGIN], len(topic)):
            numbers[row, GROUP] = 0
        row += 1
        at += size
    return row, at
