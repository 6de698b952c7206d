"""The functions over columns with arguments that do not fit; what they find is compared elsewhere.

`tests/storage/columns/test_scan_columns.py` compares the scan with the plain one, and
`tests/spark/records/test_plain_columns.py` what rows need.
"""

import sys
import threading
from array import array
from contextlib import suppress
from random import Random

import numpy as np
import pytest

from tests.compiled.hostile_columns import sound_calls, try_calls, unfit
from tests.fakes.columns import compiled_functions
from tests.fakes.records import LogBytes, properties
from wakelog.compiled.columns import BatchFunctions, RowFunctions, ScanFunctions
from wakelog.compiled.layout import REFINE, TAGS_CODE
from wakelog.compiled.library import Library
from wakelog.spark.records.column_walk import Scanned
from wakelog.storage.columns.scan_columns import Columns

FUNCTIONS = {
    name
    for protocol in (*ScanFunctions.__mro__, *RowFunctions.__mro__, *BatchFunctions.__mro__)
    for name in vars(protocol)
    if not name.startswith("_")
}


@pytest.fixture(scope="module")
def library() -> Library:
    return compiled_functions()


def test_every_function_is_tried(library: Library) -> None:
    assert {name for name, _ in sound_calls(library, Random(1))} == FUNCTIONS


def test_arguments_that_do_not_fit_are_refused_or_do_no_harm(library: Library) -> None:
    tried = [try_calls(library, seed) for seed in range(250)]
    calls, refused = (sum(counts) for counts in zip(*tried, strict=True))
    assert calls / 5 < refused < calls


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_arguments_of_another_kind_are_refused(library: Library, name: str) -> None:
    [arguments, *_] = [found for each, found in sound_calls(library, Random(3)) if each == name]
    with pytest.raises(ValueError, match="another number of arguments"):
        getattr(library, name)(*arguments[1:])
    for index, value in enumerate(arguments):
        changed = list(arguments)
        changed[index] = None
        with pytest.raises(TypeError):
            getattr(library, name)(*changed)
        if isinstance(value, np.ndarray) and value.size and value.itemsize > 1:
            # Memory of no whole items, and memory at an odd address.
            memory = bytearray(value.nbytes + 1)
            for changed[index] in (memory, memoryview(memory)[1:]):
                with pytest.raises(ValueError, match=r"whole items|do not fit"):
                    getattr(library, name)(*changed)


def test_what_is_only_to_be_read_is_not_written(library: Library) -> None:
    with pytest.raises(BufferError):
        library.check_bodies(b"", np.zeros((0, 14)), 0, 0, memoryview(bytes(4)))


def test_calls_keep_no_buffer(library: Library) -> None:
    random = Random(4)
    for call in sound_calls(library, random):
        name, arguments = unfit(call, random)
        buffers = [value for value in arguments if not isinstance(value, int)]
        before = [sys.getrefcount(value) for value in buffers]
        with suppress(ValueError, OverflowError):
            getattr(library, name)(*arguments)
        assert [sys.getrefcount(value) for value in buffers] == before
        for value in buffers:
            if isinstance(value, array):
                value.append(0)  # an exported one cannot grow


def test_other_threads_run_meanwhile(library: Library) -> None:
    data = bytes(64 << 20)

    def work(order: list[str]) -> None:
        order.append("begins")
        library.crc32(data)
        order.append("ends")

    def order_of() -> list[str]:
        order: list[str] = []
        thread = threading.Thread(target=work, args=(order,))
        thread.start()
        order.append("another runs")
        thread.join()
        return order

    before_seconds = sys.getswitchinterval()
    sys.setswitchinterval(60.0)  # no thread has to give the lock up
    try:
        orders = [order_of() for _ in range(10)]  # a busy machine may run one after the other
    finally:
        sys.setswitchinterval(before_seconds)
    assert ["begins", "another runs", "ends"] in orders


@pytest.mark.parametrize("records_max", [16, 200])
def test_a_walk_finds_what_the_scan_finds(library: Library, records_max: int) -> None:
    log = LogBytes(1 << 16)
    for i in range(150):
        log.add(
            properties(TAGS=f"t{i}", KEYS="a b"),
            topic=f"topic{i % 7}",
            queue_id=i % 5 - 1,
            sys_flag=4 * (i % 4),
            body=b"x" * i,
        )
    data = bytes(log.data) + bytes(100)
    begin, end = log.offsets[3], len(data)
    found = Scanned(0, records_max)
    count, stop = library.walk_records(
        data, begin, end, begin, found.numbers, found.table, found.group_firsts, True
    )
    scanned = Columns(library, buffer_bytes=end, records_max=records_max)
    scanned.buffer[:] = data
    scan = scanned.scan(begin=begin, end=end, physical_offset=begin, segment_end=end)
    assert (count, stop) == (scanned.count, scan.next_position)
    scanned.numbers[:, [TAGS_CODE, REFINE]] = 0
    assert (found.numbers == scanned.numbers).all()
    assert found.group_firsts[-1] == len(scanned.groups())
