"""Where the parts of a sound record lie; which records are sound is in test_record_walk.py."""

from typing import Any

import numpy as np
import pytest

from tests.fakes.records import STORE_MS, record
from wakelog.storage.kernels.compilation import making
from wakelog.storage.kernels.layout import (
    NUMBER_FIELDS,
    PARTS_COUNT,
    PREPARED_OFFSET,
    PROPERTIES_BEGIN,
    STORE_TIMESTAMP,
    TOPIC_BEGIN,
)
from wakelog.storage.kernels.record_kernel import copy_numbers, hosts_extra_bytes, sound_size


@making
def numbers_of(buffer: Any) -> Any:
    parts = np.zeros(PARTS_COUNT, dtype=np.int64)
    numbers = np.zeros((1, NUMBER_FIELDS), dtype=np.int64)
    size = sound_size(buffer, 0, len(buffer), 0, parts)
    copy_numbers(buffer, 0, size, parts, numbers, 0)
    return numbers[0]


@pytest.mark.parametrize("born_host", ["1.2.3.4", "::1"])
@pytest.mark.parametrize("store_host", ["1.2.3.4", "::1"])
def test_v6_hosts_move_the_fields_after_them(born_host: str, store_host: str) -> None:
    data = record(
        0,
        b"PROPERTIES",
        topic="TOPIC",
        born_host=(born_host, 1),
        store_host=(store_host, 2),
        prepared_transaction_offset=77,
    )
    numbers = numbers_of(np.frombuffer(bytearray(data), dtype=np.uint8))
    assert (numbers[STORE_TIMESTAMP], numbers[PREPARED_OFFSET]) == (STORE_MS, 77)
    assert numbers[TOPIC_BEGIN] == data.index(b"TOPIC")
    assert numbers[PROPERTIES_BEGIN] == data.index(b"PROPERTIES")


def test_each_v6_host_adds_twelve_bytes() -> None:
    assert [hosts_extra_bytes(flags) for flags in (0, 0x10, 0x20, 0x3F)] == [0, 12, 12, 24]
