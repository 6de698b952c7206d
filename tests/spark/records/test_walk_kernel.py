"""A walk finds the records and queues that Reput's scan finds."""

import numpy as np
import pytest

from tests.fakes.records import LogBytes, properties
from wakelog.protocol.java import LONG_MAX
from wakelog.spark.bounds import Bounds
from wakelog.spark.records.column_walk import Scanned
from wakelog.spark.records.walk_kernel import walk_records, wanted_records
from wakelog.storage.kernels.columns import Columns
from wakelog.storage.kernels.layout import (
    GROUP,
    NUMBER_FIELDS,
    PARTS_COUNT,
    QUEUE_OFFSET,
    REFINE,
    TAGS_CODE,
)
from wakelog.storage.kernels.loader import compile_kernels

NOT_FILLED = [TAGS_CODE, REFINE]


def many_queues() -> LogBytes:
    log = LogBytes(1 << 16)
    for i in range(150):
        log.add(
            properties(TAGS=f"t{i}", KEYS="a b"),
            topic=f"topic{i % 7}",
            queue_id=i % 5 - 1,
            sys_flag=4 * (i % 4),
            body=b"x" * i,
        )
    return log


@pytest.mark.parametrize("records_max", [16, 200])
def test_columns_are_those_of_the_scan(records_max: int) -> None:
    log = many_queues()
    buffer = np.frombuffer(bytearray(log.data) + bytes(100), dtype=np.uint8)
    begin = log.offsets[3]
    found = Scanned(0, records_max)
    columns = found.numbers, found.table, found.group_firsts, np.zeros(PARTS_COUNT, dtype=np.int64)
    count, stop = walk_records(buffer, begin, len(buffer), begin, *columns, True)
    scanned = Columns(compile_kernels(), buffer_bytes=len(buffer), records_max=records_max)
    scanned.buffer[:] = buffer.tobytes()
    end = len(buffer)
    scan = scanned.scan(begin=begin, end=end, physical_offset=begin, segment_end=end)
    assert (count, stop) == (scanned.count, scan.next_position)
    scanned.numbers[:, NOT_FILLED] = 0
    assert (found.numbers == scanned.numbers).all()
    assert found.group_firsts[-1] == len(scanned.groups())


def test_what_is_wanted_lies_within_every_bound() -> None:
    numbers = np.zeros((6, NUMBER_FIELDS), dtype=np.int64)
    numbers[:, QUEUE_OFFSET] = [0, 1, 2, LONG_MAX, 4, 5]
    numbers[:, GROUP] = [0, 0, 0, 0, 1, -1]

    def wanted(*bounds: Bounds) -> list[int]:
        rows = np.empty(6, dtype=np.int64)
        limits = np.array(bounds, dtype=np.int64)
        count = wanted_records(numbers, 6, limits, rows)
        found: list[int] = rows[:count].tolist()
        return found

    everything, nothing = Bounds(), Bounds(1, 0, 1, 0)
    assert wanted(everything, everything) == [0, 1, 2, 3, 4]
    assert wanted(everything, nothing) == [0, 1, 2, 3]
    assert wanted(Bounds(queue_begin=1, queue_end=2), everything) == [1, 4]
    assert wanted(Bounds(physical_begin=1), everything) == [4]
