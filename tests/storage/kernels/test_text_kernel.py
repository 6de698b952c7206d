"""Texts of any length at any place, up to the very end of a buffer."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from wakelog.protocol.properties import decode_properties
from wakelog.storage.kernels.layout import PLACES_COUNT
from wakelog.storage.kernels.text_kernel import (
    PROPERTIES,
    find_properties,
    java_hash,
    next_separator,
)

IN_FRONT = bytes(range(100, 116))
NAMES = st.sampled_from([*PROPERTIES, "KEY", "UNIQ_KEX", "", "tags"])
TEXTS = st.text("a\x01 \x02z", max_size=90)


@given(st.binary(max_size=70), st.integers(0, (1 << 32) - 1))
def test_a_hash_goes_on_from_any_value(data: bytes, before: int) -> None:
    value, foreign = java_hash(
        np.frombuffer(IN_FRONT + data, dtype=np.uint8),
        len(IN_FRONT),
        len(IN_FRONT) + len(data),
        before,
    )
    for byte in data:
        before = (31 * before + byte) % (1 << 32)
    assert value == before
    assert bool(foreign) == (not data.isascii())


@given(st.lists(st.tuples(NAMES, TEXTS), max_size=8), st.binary(max_size=80))
@example([("KEYS", "k" * 200)], b"")
@example([("KEYS", "a"), ("KEYS", "b")], b"\x02")
def test_properties_are_found_where_they_are_read(
    properties: list[tuple[str, str]], after: bytes
) -> None:
    text = "\x02".join(f"{name}\x01{value}" for name, value in properties)
    data = IN_FRONT + text.encode() + after
    found = np.full(PLACES_COUNT, 7, dtype=np.int64)
    buffer = np.frombuffer(data, dtype=np.uint8)
    find_properties(buffer, len(IN_FRONT), len(IN_FRONT) + len(text), found)
    places = found.reshape(-1, 2).tolist()
    expected = decode_properties(text)
    for name, (begin, end) in zip(PROPERTIES, places, strict=True):
        assert data[begin:end].decode() == expected.get(name, "")


@given(st.binary(max_size=200), st.integers(0, 200))
def test_the_next_separator(data: bytes, at: int) -> None:
    at = min(at, len(data))
    places = [i for i, byte in enumerate(data) if i >= at and byte in (1, 2)]
    buffer = np.frombuffer(data, dtype=np.uint8)
    assert next_separator(buffer, at, len(data)) == (places[0] if places else len(data))
