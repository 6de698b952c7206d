"""Records of one queue from anywhere, checked one by one."""

from typing import Any

import numpy as np
import pytest

from tests.fakes.records import record
from wakelog.spark.remote.pulled_kernel import scan_pulled
from wakelog.storage.kernels.layout import (
    GROUP,
    NO_GROUP,
    NUMBER_FIELDS,
    PHYSICAL_OFFSET,
    QUEUE_OFFSET,
    SIZE,
    SYS_FLAG,
)

TOPIC = np.frombuffer(b"T", dtype=np.uint8)


def scan(data: bytes, records_max: int = 10) -> tuple[np.ndarray, int]:
    numbers = np.zeros((records_max, NUMBER_FIELDS), dtype=np.int64)
    count, end = scan_pulled(np.frombuffer(data, dtype=np.uint8), TOPIC, 0, numbers)
    return numbers[:count], end


def test_records_follow_one_another_wherever_they_were_in_the_log() -> None:
    found = [record(9000, queue_offset=3), record(77, queue_offset=4, sys_flag=4), record(5000)]
    numbers, end = scan(b"".join(found))
    assert end == sum(map(len, found))
    assert numbers[:, PHYSICAL_OFFSET].tolist() == [9000, 77, 5000]
    assert numbers[:, SIZE].tolist() == [len(each) for each in found]
    assert numbers[:, QUEUE_OFFSET].tolist() == [3, 4, 0]
    assert numbers[:, SYS_FLAG].tolist() == [0, 4, 0]
    assert numbers[:, GROUP].tolist() == [0, NO_GROUP, 0]  # a prepared one is in no queue


@pytest.mark.parametrize("values", [{"topic": "U"}, {"topic": "TT"}, {"queue_id": 1}])
def test_a_record_of_another_queue_is_in_no_group(values: dict[str, Any]) -> None:
    numbers, _ = scan(record(0) + record(500, **values))
    assert numbers[:, GROUP].tolist() == [0, NO_GROUP]


@pytest.mark.parametrize(
    "bad", [b"", b"\0" * 100, record(0)[:-1], record(0)[:50], b"\x7f" + record(0)[1:]]
)
def test_a_scan_ends_where_a_record_does_not_add_up(bad: bytes) -> None:
    sound = record(0)
    numbers, end = scan(sound + bad)
    assert (len(numbers), end) == (1, len(sound))


def test_a_scan_ends_with_its_columns() -> None:
    sound = record(0)
    numbers, end = scan(sound * 3, records_max=2)
    assert (len(numbers), end) == (2, 2 * len(sound))
