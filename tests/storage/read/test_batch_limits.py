"""When a batch is full, and what a large one has in the compiled twin."""

import pytest

from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import store_config
from tests.storage.read.test_reader import bodies, filled, get, twin
from wakelog.storage.read import reader
from wakelog.storage.read.batch_limits import (
    BY_BYTES_COUNT_MAX,
    LARGE_FACTOR,
    BatchLimits,
    limits_by_bytes,
    limits_large,
)

__all__ = ["twin"]


def test_limits_count_what_is_sent() -> None:
    limits = BatchLimits(store_config(), memory_bytes=400)
    assert not limits.is_full(0, 0, 1 << 30, 0)
    assert not limits.is_full(31, 0, 256 * 1024, 400)
    assert limits.is_full(31, 1, 256 * 1024, 400)
    assert limits.is_full(32, 0, 1, 400)
    assert limits.is_full(8, 0, 1, 401)
    assert limits.count_max() == 32


def test_bytes_alone_end_a_batch_and_a_large_one_has_more_of_them() -> None:
    config = store_config(transfer_bytes_in_memory_max=1_000, transfer_bytes_in_disk_max=100)
    by_bytes, large = limits_by_bytes(config, 400), limits_large(config, 400)
    assert by_bytes.count_max() == BY_BYTES_COUNT_MAX < large.count_max()
    for limits, factor in ((by_bytes, 1), (large, LARGE_FACTOR)):
        for behind_bytes, bytes_max in ((400, 1_000 * factor), (401, 100 * factor)):
            assert not limits.is_full(40, bytes_max - 5, 5, behind_bytes)
            assert limits.is_full(40, bytes_max - 5, 6, behind_bytes)


@pytest.mark.usefixtures("twin")
@pytest.mark.parametrize(
    ("count_max", "body_bytes", "counts"),
    [(200, 10, [200, 200]), (1_100, 10, [1_000, 1_100]), (200, 20_000, [13, 20])],
)
def test_a_large_batch_has_more_bytes_in_the_compiled_twin(
    fs: MemoryFileSystem, count_max: int, body_bytes: int, counts: list[int]
) -> None:
    messages_count = 1_200 if body_bytes < 100 else 20
    store = filled(fs, messages_count, body_bytes, consume_queue_file_bytes=20 * 2_000)
    result = get(store, 0, count_max, by_bytes=True, is_large=True)
    assert bodies(result) == list(range(counts[reader._library is not None]))
    # A record that Python has to look at, and all where it has to: as many as in other batches.
    alone = get(store, 0, count_max, by_bytes=True, is_large=True, match_unit=lambda *_: True)
    assert bodies(alone) == list(range(counts[0]))
