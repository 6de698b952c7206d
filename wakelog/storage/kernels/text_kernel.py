"""Topic, keys and properties of records in compiled code: their Java hashes and their places.

Source: java.lang.String#hashCode,
org.apache.rocketmq.common.message.MessageDecoder#string2messageProperties (4.9.3).
"""

from typing import Final

import numpy as np

from wakelog.storage.kernels.compilation import inlined
from wakelog.storage.kernels.integers import Array, Int, byte_at
from wakelog.storage.kernels.layout import PLACES_COUNT

_INT32_MASK: Final = 0xFFFFFFFF
_NAME_VALUE_SEPARATOR: Final = 1
_PROPERTY_SEPARATOR: Final = 2
PROPERTIES: Final = ("KEYS", "TAGS", "UNIQ_KEY", "DELAY", "INNER_MULTI_DISPATCH")
"""The properties that `find_properties` finds."""

assert 2 * len(PROPERTIES) == PLACES_COUNT  # begin and end of each value


@inlined
def java_hash(buffer: Array, begin: Int, end: Int, value: Int) -> tuple[Int, Int]:
    """Continue the Java hash `value` with bytes [begin, end).

    Returns: the hash as an unsigned number; and 0 if all bytes are ASCII. Of other text Java's hash
        is not that of the bytes.
    """
    seen: Int = np.int64(0)
    for at in range(begin, end):
        byte = byte_at(buffer, at)
        value = (value * 31 + byte) & _INT32_MASK
        seen |= byte
    return value, seen & 0x80


@inlined
def equals(buffer: Array, begin: Int, end: Int, word: bytes) -> bool:
    """Return whether bytes [begin, end) are a word."""
    if end - begin != len(word):
        return False
    for i in range(len(word)):  # noqa: SIM110 - the compiler needs a loop
        if byte_at(buffer, begin + i) != word[i]:
            return False
    return True


@inlined
def next_byte(buffer: Array, at: Int, end: Int, byte: Int) -> Int:
    """Return where the next such byte of [at, end) stands, else `end`."""
    while at < end and byte_at(buffer, at) != byte:
        at += 1
    return at


@inlined
def next_separator(buffer: Array, at: Int, end: Int) -> Int:
    """Return where the next byte of [at, end) separates names, values or properties, else `end`."""
    while at < end and not (_NAME_VALUE_SEPARATOR <= byte_at(buffer, at) <= _PROPERTY_SEPARATOR):
        at += 1
    return at


@inlined
def next_property(buffer: Array, at: Int, end: Int) -> tuple[Int, Int, bool]:
    """Return where the first separator and the end of the property at `at` stand.

    And whether it is one: a name, a separator and a value, neither of them empty, and no further
    separator in the value.
    """
    separator = next_separator(buffer, at, end)
    stop = separator
    while stop < end and byte_at(buffer, stop) == _NAME_VALUE_SEPARATOR:
        stop = next_separator(buffer, stop + 1, end)
    return separator, stop, at < separator < stop - 1


@inlined
def _which_property(buffer: Array, begin: Int, end: Int) -> Int:
    length = end - begin
    if length == 4:
        if equals(buffer, begin, end, b"KEYS"):
            return 0
        return 1 if equals(buffer, begin, end, b"TAGS") else -1
    if length == 8:
        return 2 if equals(buffer, begin, end, b"UNIQ_KEY") else -1
    if length == 5 and equals(buffer, begin, end, b"DELAY"):
        return 3
    if length == 20 and equals(buffer, begin, end, b"INNER_MULTI_DISPATCH"):
        return 4
    return -1


@inlined
def find_properties(buffer: Array, begin: Int, end: Int, found: Array) -> None:
    """Put begin and end of each of PROPERTIES' values into `found`, zeros where one is absent."""
    found[:] = 0
    at = begin
    while at < end:
        separator, stop, is_property = next_property(buffer, at, end)
        if is_property:
            which = _which_property(buffer, at, separator)
            if which >= 0:
                found[2 * which] = separator + 1
                found[2 * which + 1] = stop
        at = stop + 1
