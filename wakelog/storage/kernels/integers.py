"""Big-endian integers in a buffer of bytes, for kernels.

Invariants: the caller knows that all bytes lie in the buffer, because numba checks no index.
"""

from typing import Any

import numpy as np

from wakelog.storage.kernels.compilation import inlined

Array = np.ndarray[Any, Any]
Int = Any  # a machine integer in compiled code, whatever it was before


@inlined
def byte_at(buffer: Array, at: Int) -> Int:
    """Return one byte."""
    # A signed index needs a test for negative values, which keeps LLVM from joining loads.
    return np.int64(buffer[np.uintp(at)])


@inlined
def u32_at(buffer: Array, at: Int) -> Int:
    """Return an unsigned big-endian int."""
    return (
        (byte_at(buffer, at) << 24)
        | (byte_at(buffer, at + 1) << 16)
        | (byte_at(buffer, at + 2) << 8)
        | byte_at(buffer, at + 3)
    )


@inlined
def i32_at(buffer: Array, at: Int) -> Int:
    """Return a big-endian int."""
    value = u32_at(buffer, at)
    return value - (1 << 32) if value >= (1 << 31) else value


@inlined
def i64_at(buffer: Array, at: Int) -> Int:
    """Return a big-endian long."""
    return (i32_at(buffer, at) << 32) | u32_at(buffer, at + 4)


@inlined
def word_at(buffer: Array, at: Int) -> Int:
    """Return a little-endian long."""
    value: Int = np.int64(0)
    for i in range(8):
        value |= byte_at(buffer, at + i) << (8 * i)
    return value


@inlined
def same_bytes(one: Array, begin: Int, other: Array, other_begin: Int, length: Int) -> bool:
    """Return whether `length` bytes at two places are the same."""
    at = 0
    while at + 8 <= length:
        if word_at(one, begin + at) != word_at(other, other_begin + at):
            return False
        at += 8
    while at < length:
        if byte_at(one, begin + at) != byte_at(other, other_begin + at):
            return False
        at += 1
    return True
