"""Names, keys and properties of records in compiled code: their Java hashes, and where they stand.

A record's text is some hundred bytes, and what it takes to look at them one by one is most of a
scan. So they are taken many at a time, in registers: 16 for a hash, 64 to find what separates
properties (`vectors.py`).

Invariants:
- No index is formed before it is known to lie in the buffer: numba checks none.
- A text to be hashed has 16 bytes of the buffer in front of it, as any has in a record.

Source: java.lang.String#hashCode,
org.apache.rocketmq.common.message.MessageDecoder#string2messageProperties (4.9.3).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from wakelog.storage.kernels.compilation import inlined
from wakelog.storage.kernels.integers import Array, Int, byte_at, u32_at
from wakelog.storage.kernels.vectors import (
    CHUNK_BYTES,
    HASHED_BYTES,
    bytes_in,
    hash_last,
    lowest_bit,
)

_INT32_MASK: Final = 0xFFFFFFFF
_NAME_VALUE_SEPARATOR: Final = 1
_PROPERTY_SEPARATOR: Final = 2
_KEYS: Final = int.from_bytes(b"KEYS")
_TAGS: Final = int.from_bytes(b"TAGS")
_UNIQ: Final = int.from_bytes(b"UNIQ")
_UNDERSCORE_KEY: Final = int.from_bytes(b"_KEY")
PROPERTIES: Final = ("KEYS", "TAGS", "UNIQ_KEY", "DELAY", "INNER_MULTI_DISPATCH")
"""Those that `find_properties` finds; two numbers each."""

PLACES_COUNT: Final = 2 * len(PROPERTIES)

# What a Java hash is multiplied with when so many bytes follow.
_FACTORS: Final = tuple(pow(31, count, 1 << 32) for count in range(HASHED_BYTES + 1))


@inlined
def java_hash(buffer: Array, begin: Int, end: Int, value: Int) -> tuple[Int, Int]:
    """Go on with a Java hash; also return the bytes that are not ASCII, 0 if there are none."""
    first = (end - begin) % HASHED_BYTES
    at = begin + first
    # The few bytes in front of whole sixteens, with those before them left out.
    part, foreign = hash_last(buffer, at, HASHED_BYTES - first)
    value = value * _FACTORS[first] + part
    while at < end:
        at += HASHED_BYTES
        part, signs = hash_last(buffer, at, 0)
        value = (value & _INT32_MASK) * _FACTORS[HASHED_BYTES] + part
        foreign |= signs
    return np.int64(value & _INT32_MASK), foreign


@inlined
def equals(buffer: Array, begin: Int, end: Int, word: bytes) -> bool:
    """Tell whether bytes [begin, end) are a word."""
    if end - begin != len(word):
        return False
    for i in range(len(word)):  # noqa: SIM110 - compiled: a loop is what this is
        if byte_at(buffer, begin + i) != word[i]:
            return False
    return True


@inlined
def _matches(buffer: Array, at: Int, first: Int, last: Int) -> Int:
    """Return a bit for each of 64 bytes from `at` on, 1 where it is in [first, last]."""
    if at + CHUNK_BYTES <= len(buffer):
        return bytes_in(buffer, at, first, last)
    bits = np.uint64(0)
    for i in range(len(buffer) - at):
        if first <= byte_at(buffer, at + i) <= last:
            bits |= np.uint64(1) << np.uint64(i)
    return bits


@inlined
def next_match(
    buffer: Array, end: Int, first: Int, last: Int, chunk: Int, bits: Int
) -> tuple[Int, Int, Int]:
    """Return where the next byte of [first, last] stands, `end` if nowhere, and how to go on.

    chunk, bits: where 64 bytes begin, and those of them that match and were not returned yet.
    """
    while bits == 0:
        chunk += CHUNK_BYTES
        if chunk >= end:
            return end, chunk, bits
        bits = _matches(buffer, chunk, first, last)
    at = chunk + np.int64(lowest_bit(bits))
    return min(at, end), chunk, bits & (bits - np.uint64(1))


@inlined
def next_separator(buffer: Array, at: Int, end: Int) -> Int:
    """Return where the next byte that separates names, values or properties stands, else `end`."""
    chunk = at - CHUNK_BYTES
    return next_match(buffer, end, _NAME_VALUE_SEPARATOR, _PROPERTY_SEPARATOR, chunk, np.uint64(0))[
        0
    ]


@inlined
def _which_property(buffer: Array, begin: Int, end: Int) -> Int:
    length = end - begin
    if length == 4:
        word = u32_at(buffer, begin)
        return 0 if word == _KEYS else 1 if word == _TAGS else -1
    if length == 8:
        ours = u32_at(buffer, begin) == _UNIQ and u32_at(buffer, begin + 4) == _UNDERSCORE_KEY
        return 2 if ours else -1
    if length == 5 and equals(buffer, begin, end, b"DELAY"):
        return 3
    if length == 20 and equals(buffer, begin, end, b"INNER_MULTI_DISPATCH"):
        return 4
    return -1


@inlined
def find_properties(buffer: Array, begin: Int, end: Int, found: Array) -> None:
    """Put begin and end of the value of each of PROPERTIES into `found`, zeros where it is not."""
    found[:] = 0
    at = begin
    chunk, bits = begin - CHUNK_BYTES, np.uint64(0)
    while at < end:
        separator, chunk, bits = next_match(
            buffer, end, _NAME_VALUE_SEPARATOR, _PROPERTY_SEPARATOR, chunk, bits
        )
        stop = separator
        while stop < end and byte_at(buffer, stop) == _NAME_VALUE_SEPARATOR:
            stop, chunk, bits = next_match(
                buffer, end, _NAME_VALUE_SEPARATOR, _PROPERTY_SEPARATOR, chunk, bits
            )
        if separator > at and separator < stop - 1:
            which = _which_property(buffer, at, separator)
            if which >= 0:
                found[2 * which] = separator + 1
                found[2 * which + 1] = stop
        at = stop + 1
