"""The functions for rows in plain Python and the compiled ones fill the same, byte for byte."""

from random import Random
from typing import Any

import numpy as np
import pytest

from tests.compiled.hostile_columns import copied, sound_calls
from tests.fakes.columns import compiled_functions
from tests.fakes.records import record
from wakelog.compiled.columns import RowFunctions
from wakelog.compiled.layout import (
    GROUP,
    NO_GROUP,
    NUMBER_FIELDS,
    PHYSICAL_OFFSET,
    QUEUE_OFFSET,
    SIZE,
    SYS_FLAG,
)
from wakelog.spark.records import plain_columns

TABLES = {"walk_records": 5, "keep_records": 8, "find_pairs": 5}
"""The argument with the hash table, which plain Python has no use for."""


@pytest.fixture(params=["plain", "compiled"])
def functions(request: pytest.FixtureRequest) -> RowFunctions:
    return plain_columns if request.param == "plain" else compiled_functions()


def test_both_twins_fill_the_same() -> None:
    library, compared = compiled_functions(), 0
    for seed in range(200):
        for call in sound_calls(library, Random(seed)):
            name, expected = copied(call)
            _, found = copied(call)
            plain = getattr(plain_columns, name, None)
            if plain is None:
                continue  # Reput's, whose plain way makes values
            assert plain(*found) == getattr(library, name)(*expected), (seed, name)
            for index, (one, other) in enumerate(zip(found, expected, strict=True)):
                if index != TABLES.get(name) and not isinstance(one, int):
                    assert bytes(one) == bytes(other), (seed, name, index)
            compared += 1
    assert compared > 1_000


def scan(functions: RowFunctions, data: bytes, records_max: int = 10) -> tuple[Any, int]:
    numbers = np.zeros((records_max, NUMBER_FIELDS), dtype=np.int64)
    count, end = functions.scan_pulled(data, b"T", 0, numbers)
    return numbers[:count], end


def test_pulled_records_come_from_anywhere_in_the_log(functions: RowFunctions) -> None:
    found = [record(9000, queue_offset=3), record(77, queue_offset=4, sys_flag=4), record(5000)]
    numbers, end = scan(functions, b"".join(found))
    assert end == sum(map(len, found))
    assert numbers[:, PHYSICAL_OFFSET].tolist() == [9000, 77, 5000]
    assert numbers[:, SIZE].tolist() == [len(each) for each in found]
    assert numbers[:, QUEUE_OFFSET].tolist() == [3, 4, 0]
    assert numbers[:, SYS_FLAG].tolist() == [0, 4, 0]
    assert numbers[:, GROUP].tolist() == [0, NO_GROUP, 0]  # a prepared one is in no queue


@pytest.mark.parametrize("values", [{"topic": "U"}, {"topic": "TT"}, {"queue_id": 1}])
def test_a_pulled_record_of_another_queue_is_in_no_group(
    functions: RowFunctions, values: dict[str, Any]
) -> None:
    numbers, _ = scan(functions, record(0) + record(500, **values))
    assert numbers[:, GROUP].tolist() == [0, NO_GROUP]


@pytest.mark.parametrize(
    "bad", [b"", b"\0" * 100, record(0)[:-1], record(0)[:50], b"\x7f" + record(0)[1:]]
)
def test_a_scan_ends_where_a_record_does_not_add_up(functions: RowFunctions, bad: bytes) -> None:
    sound = record(0)
    numbers, end = scan(functions, sound + bad)
    assert (len(numbers), end) == (1, len(sound))


def test_a_scan_ends_with_its_columns(functions: RowFunctions) -> None:
    sound = record(0)
    numbers, end = scan(functions, sound * 3, records_max=2)
    assert (len(numbers), end) == (2, 2 * len(sound))


def test_spans_follow_one_another_with_the_or_of_their_bytes(functions: RowFunctions) -> None:
    begins, ends = np.array([1, 4, 2]), np.array([3, 4, 5])
    offsets, out = np.zeros(4, dtype=np.int32), np.zeros(5, dtype=np.uint8)
    seen = functions.gather(b"\x80abc\x81", begins, ends, offsets, out)
    assert (out.tobytes(), offsets.tolist()) == (b"abbc\x81", [0, 2, 2, 5])
    assert seen == 0xE3
