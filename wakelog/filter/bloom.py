"""The bloom filter whose bits say which consumer groups' filters a message has passed.

A group's filter on a topic has a few bit positions; a message's bitmap is the union of the
positions of all filters that it passes. Both the positions (consumerFilter.json) and the bitmaps
(extension units) are on disk, so how a name becomes positions can never change:

    hash_count  k = ceil(log(f / 100) / log(0.5)), f the error rate in percent
    bit_count   m = n * log2(100 / f) * log2(e) rounded up, then up to the next multiple of 8
    positions   h = low half of murmur3_128(UTF-8 of the name), seed 0; h1, h2 = its low and high
                32 bits, signed; for i = 1..k: x = h1 + i * h2 as an int, complemented when it is
                negative, modulo m
    bitmap      bit p is bit p % 8, from the lowest, of byte p / 8

Source: org.apache.rocketmq.filter.util.{BloomFilter, BloomFilterData, BitsArray} (4.9.3) and
Guava's Hashing.murmur3_128, which is MurmurHash3_x64_128.
"""

import math
from struct import unpack_from
from typing import Final, NamedTuple

_BLOCK_BYTES: Final = 16
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F
_MASK: Final = (1 << 64) - 1


class BloomPositions(NamedTuple):
    """The bits of one name, and of how many the filter had that made them."""

    bits: tuple[int, ...]
    bit_count: int


class BloomFilter:
    """The filter for an error rate and a number of names; it holds no bits itself."""

    __slots__ = ("bit_count", "hash_count")

    def __init__(self, *, error_percent: int, names_count: int) -> None:
        """Compute both sizes. Raises: ValueError if the two make no filter."""
        if not 1 <= error_percent < 100 or names_count < 1:
            raise ValueError("the error rate has to be 1 to 99 %, for one name at least")
        error_rate = error_percent / 100.0
        # In upstream's order of operations: the last digit of a double decides where ceil goes.
        self.hash_count = math.ceil(math.log(error_rate) / math.log(0.5))
        bits = math.ceil(
            names_count
            * (math.log(1 / error_rate) / math.log(2))
            * (math.log(math.e) / math.log(2))
        )
        self.bit_count = 8 * math.ceil(bits / 8)

    def positions(self, name: str) -> BloomPositions:
        """Return where a name's bits are; two of them may be the same."""
        low_half = murmur3_low_half(name.encode("utf-8", "replace"))
        first, second = low_half & 0xFFFFFFFF, low_half >> 32
        bits = []
        for i in range(1, self.hash_count + 1):
            combined = (first + i * second) & 0xFFFFFFFF
            if combined >> 31:
                combined ^= 0xFFFFFFFF
            bits.append(combined % self.bit_count)
        return BloomPositions(tuple(bits), self.bit_count)

    def made(self, positions: BloomPositions | None) -> bool:
        """Return whether positions are of a filter of these sizes."""
        return (
            positions is not None
            and positions.bit_count == self.bit_count
            and len(positions.bits) == self.hash_count
        )

    def may_hold(self, bitmap: bytes, positions: BloomPositions) -> bool:
        """Return whether a name may be in a bitmap; False is certain."""
        assert self.made(positions) and len(bitmap) * 8 == self.bit_count
        return all((bitmap[bit >> 3] >> (bit & 7)) & 1 for bit in positions.bits)


def murmur3_low_half(data: bytes) -> int:
    """Return the first 64 bits of MurmurHash3_x64_128 with seed 0, unsigned."""
    low = high = 0
    whole_bytes = len(data) - len(data) % _BLOCK_BYTES
    for position in range(0, whole_bytes, _BLOCK_BYTES):
        first, second = unpack_from("<QQ", data, position)
        low = ((_rotate(low ^ _mix_low(first), 27) + high) * 5 + 0x52DCE729) & _MASK
        high = ((_rotate(high ^ _mix_high(second), 31) + low) * 5 + 0x38495AB5) & _MASK
    first, second = unpack_from("<QQ", data[whole_bytes:].ljust(_BLOCK_BYTES, b"\0"))
    low ^= _mix_low(first) ^ len(data)
    high ^= _mix_high(second) ^ len(data)
    low = (low + high) & _MASK
    high = (high + low) & _MASK
    return (_finish(low) + _finish(high)) & _MASK


def _rotate(value: int, count: int) -> int:
    value &= _MASK
    return ((value << count) | (value >> (64 - count))) & _MASK


def _mix_low(block: int) -> int:
    return (_rotate(block * _C1, 31) * _C2) & _MASK


def _mix_high(block: int) -> int:
    return (_rotate(block * _C2, 33) * _C1) & _MASK


def _finish(value: int) -> int:
    value = ((value ^ (value >> 33)) * 0xFF51AFD7ED558CCD) & _MASK
    value = ((value ^ (value >> 33)) * 0xC4CEB9FE1A85EC53) & _MASK
    return value ^ (value >> 33)
