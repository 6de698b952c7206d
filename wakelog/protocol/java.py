"""Java's string hash, map order, and texts of numbers and times, as on the wire and on disk.

Tags codes and index keys are String.hashCode. The properties of a stored message have the order of
a java.util.HashMap. Both have to be the same here.

Invariants: the results depend on the arguments alone (times: on the zone); caches are bounded.

Source: java.lang.String.hashCode, java.util.HashMap (OpenJDK 8 to 17)
"""

import re
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from struct import iter_unpack
from typing import Final

INT_MIN: Final = -(1 << 31)
INT_MAX: Final = (1 << 31) - 1
LONG_MIN: Final = -(1 << 63)
LONG_MAX: Final = (1 << 63) - 1

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_INTEGER_DIGITS_MAX = 40  # a long has 19; leading zeros are legal, endless ones are an attack

# What a datetime can be in every zone.
_SECONDS_MIN = -62_135_510_400
_SECONDS_MAX = 253_402_214_400

_TABLE_CAPACITY_MIN = 16  # HashMap.DEFAULT_INITIAL_CAPACITY
_TREEIFY_THRESHOLD = 8
_TREEIFY_CAPACITY_MIN = 64

_MEMO_ENTRIES_MAX = 256  # distinct sets of property names; producers use a handful
_MEMO_NAMES_MAX = 32  # a longer set is unusual and not cached


def string_hash(text: str) -> int:
    """Return String.hashCode: a signed 32-bit number over the UTF-16 units of `text`."""
    value = 0
    if text.isascii():
        for unit in text.encode("ascii"):
            value = (value * 31 + unit) & 0xFFFFFFFF
    else:
        for (unit,) in iter_unpack("<H", text.encode("utf-16-le", "surrogatepass")):
            value = (value * 31 + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value > INT_MAX else value


def parse_integer(text: str, *, minimum: int = INT_MIN, maximum: int = INT_MAX) -> int:
    """Parse by the rules of Integer.parseInt, or of Long.parseLong with a long's bounds.

    Raises:
        ValueError: with NumberFormatException's own text.
    """
    if len(text) <= _INTEGER_DIGITS_MAX and _INTEGER.fullmatch(text):
        value = int(text)
        if minimum <= value <= maximum:
            return value
    raise ValueError(f'For input string: "{text[:_INTEGER_DIGITS_MAX]}"')


def exact_time(timestamp_ms: int) -> str:
    """Return a local time with milliseconds, as UtilAll.timeMillisToHumanString2 does.

    Times before the year 1 and after 9999 are those of its first and last day.
    """
    seconds, ms = divmod(timestamp_ms, 1000)
    moment = datetime.fromtimestamp(min(max(seconds, _SECONDS_MIN), _SECONDS_MAX))
    return f"{moment.isoformat(' ', 'seconds')},{ms:03d}"


def parse_boolean(text: str | None) -> bool:
    """Parse by the rules of Boolean.parseBoolean: only "true", in any case, is true."""
    return text is not None and text.lower() == "true"


def boolean_text(value: bool) -> str:
    """Write a boolean in Java's form."""
    return "true" if value else "false"


def double_text(value: float) -> str:
    """Write a finite double as Double.toString does: 0.001 up to 10^7 without an exponent."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int), value
    first, *rest = digits
    exponent += len(rest)
    return f"{'-' * sign}{first}.{''.join(map(str, rest)) or 0}E{exponent}"


def hash_map_order(keys: Iterable[str]) -> list[str]:
    """Return distinct `keys`, given in insertion order, in the order of a HashMap.

    The table is assumed to have grown by these insertions alone, from its default capacity.
    """
    return list(iteration_order(tuple(keys)))


def iteration_order(keys: tuple[str, ...]) -> tuple[str, ...]:
    """Do what `hash_map_order` does for a tuple, from a cache."""
    if len(keys) > _MEMO_NAMES_MAX:
        return _iteration_order(keys)
    return _remembered_order(keys)


def _iteration_order(keys: tuple[str, ...]) -> tuple[str, ...]:
    # A bucket keeps the order of insertion: put appends to it, and a resize splits it in two
    # without changing the order inside. So only the final capacity matters, and one stable
    # sort by bucket gives the order. Tree bins move their root to the front; they need nine
    # colliding names in a table of 64 buckets, and are left out.
    hashes = [_spread(string_hash(key)) for key in keys]
    mask = _table_capacity(hashes) - 1
    order = sorted(range(len(keys)), key=lambda index: hashes[index] & mask)
    return tuple(keys[index] for index in order)


_remembered_order = lru_cache(maxsize=_MEMO_ENTRIES_MAX)(_iteration_order)


def _spread(value: int) -> int:
    value &= 0xFFFFFFFF
    return value ^ (value >> 16)


def _table_capacity(hashes: list[int]) -> int:
    # The table doubles when it holds more than three quarters of its capacity, and, while it
    # is below 64 buckets, also when a ninth name falls into one bucket.
    capacity = _TABLE_CAPACITY_MIN
    sizes = [0] * capacity
    for count, value in enumerate(hashes, start=1):
        bucket = value & (capacity - 1)
        crowded = sizes[bucket] >= _TREEIFY_THRESHOLD and capacity < _TREEIFY_CAPACITY_MIN
        sizes[bucket] += 1
        doublings = int(crowded)
        while count > (capacity << doublings) * 3 // 4:
            doublings += 1
        if doublings:
            capacity <<= doublings
            sizes = [0] * capacity
            for seen in hashes[:count]:
                sizes[seen & (capacity - 1)] += 1
    return capacity
