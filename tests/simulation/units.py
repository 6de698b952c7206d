"""Extension units as they lie on the disk, and the one filter that their bitmaps are made of.

Nothing of production's parsing is trusted: an entry's address is followed here, through files that
are so short, and bitmaps so long, that three units fill one.
"""

import struct
from collections.abc import Mapping
from typing import Final

from tests.simulation.client import Sent
from wakelog.dispatchers.filter_bitmap import VERSION
from wakelog.filter.bloom import BloomPositions
from wakelog.filter.consumer_filters import ConsumerFilter
from wakelog.filter.filter_table import encode_filters
from wakelog.filter.sql92 import compile_filter

UNIT_FILE_BYTES: Final = 1024
BIT_COUNT: Final = 2048
BITS: Final = (3, 1029)
TAG: Final = "t"

_UNIT: Final = struct.Struct(">hqqh")
_ADDRESS_MAX: Final = -(1 << 31) - 1

UnitKey = tuple[int, int, bytes]
"""Tags code, store time and bitmap."""


def filter_file(topics: tuple[str, ...]) -> bytes:
    """Return what a Broker writes for Reput: on each topic one filter, which a tag passes."""
    compiled = compile_filter(f"TAGS = '{TAG}'")
    positions = BloomPositions(BITS, BIT_COUNT)
    filters = [ConsumerFilter(topic, "G", compiled, positions, 1, 1) for topic in topics]
    return VERSION.pack(1, 1) + encode_filters(filters, BIT_COUNT)


def is_address(tags_code: int) -> bool:
    """Tell whether an entry's tags code is the address of a unit."""
    return tags_code <= _ADDRESS_MAX


def unit_of(record: Sent) -> UnitKey:
    """Return what the unit of a message has to say."""
    bits = sum(1 << bit for bit in BITS) if record.tags_code else 0
    return record.tags_code, record.store_ms, bits.to_bytes(BIT_COUNT // 8, "little")


def unit_at(files: Mapping[str, bytes | bytearray], directory: str, address: int) -> UnitKey | None:
    """Return the unit that an address leads to, None if there is none."""
    start, position = divmod(address + (1 << 63), UNIT_FILE_BYTES)
    data = files.get(f"{directory}/{start * UNIT_FILE_BYTES:020d}", b"")
    if len(data) != UNIT_FILE_BYTES or position + _UNIT.size > len(data):
        return None
    size, tags_code, store_ms, bitmap_bytes = _UNIT.unpack_from(data, position)
    if size != _UNIT.size + bitmap_bytes:
        return None
    begin = position + _UNIT.size
    return tags_code, store_ms, bytes(data[begin : begin + bitmap_bytes])
