"""Tests of Java's hashes, numbers and map order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocol.strategies import int32, int64
from wakelog.protocol.java import (
    INT_MAX,
    INT_MIN,
    LONG_MAX,
    LONG_MIN,
    boolean_text,
    hash_map_order,
    iteration_order,
    parse_boolean,
    parse_integer,
    string_hash,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("TagA", 2598919),
        ("polygenelubricants", INT_MIN),
        ("标签", 857175),
        ("\U0001f600", 1772899),  # two UTF-16 units, 0xD83D and 0xDE00
    ],
)
def test_hashes_are_javas(text: str, value: int) -> None:
    assert string_hash(text) == value


@given(st.text())
def test_a_hash_is_the_polynomial_over_utf16_units(text: str) -> None:
    units = text.encode("utf-16-be", "surrogatepass")
    numbers = [high << 8 | low for high, low in zip(units[::2], units[1::2], strict=True)]
    count = len(numbers)
    polynomial = sum(number * 31 ** (count - 1 - i) for i, number in enumerate(numbers))
    assert (string_hash(text) - polynomial) % 2**32 == 0
    assert INT_MIN <= string_hash(text) <= INT_MAX


@pytest.mark.parametrize("text", ["", "+", "-", "1.0", "1e3", " 1", "1_0", "0x1", "٣", "null"])
def test_what_java_does_not_parse_is_refused_in_its_words(text: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_integer(text)
    assert str(refused.value) == f'For input string: "{text}"'


@given(int32)
def test_an_int_is_parsed_with_signs_and_zeros(value: int) -> None:
    sign = "-" if value < 0 else "+"
    assert parse_integer(f"{sign}000{abs(value)}") == value


@given(int64)
def test_a_long_needs_a_longs_bounds(value: int) -> None:
    assert parse_integer(str(value), minimum=LONG_MIN, maximum=LONG_MAX) == value


@pytest.mark.parametrize("text", ["2147483648", "-2147483649", "9" * 5000])
def test_an_int_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_integer(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("TRUE", True), ("1", False), ("yes", False), ("", False), (None, False)],
)
def test_only_true_is_true(text: str | None, value: bool) -> None:
    assert parse_boolean(text) is value


def test_booleans_are_written_in_lower_case() -> None:
    assert (boolean_text(True), boolean_text(False)) == ("true", "false")


def test_names_come_in_the_order_of_their_buckets() -> None:
    # One-letter names hash to their character: of 16 buckets, p has 0, a has 1, o has 15.
    assert hash_map_order(["o", "a", "p"]) == ["p", "a", "o"]


def test_names_in_one_bucket_keep_the_order_of_insertion() -> None:
    # A, Q and a have 65, 81 and 97: bucket 1 of 16.
    assert hash_map_order(["a", "A", "Q"]) == ["a", "A", "Q"]
    assert hash_map_order(["Q", "a", "A"]) == ["Q", "a", "A"]


def test_equal_hashes_keep_the_order_of_insertion() -> None:
    assert string_hash("Aa") == string_hash("BB")
    assert hash_map_order(["BB", "Aa"]) == ["BB", "Aa"]
    assert hash_map_order(["Aa", "BB"]) == ["Aa", "BB"]


def test_the_thirteenth_name_doubles_the_table() -> None:
    letters = [chr(code) for code in range(0x41, 0x4D)]  # twelve; A in bucket 1 of 16 and of 32
    assert hash_map_order([*letters[1:], "A"]) == letters
    # Of 32 buckets P has 16: beyond A to M, while of 16 it had 0.
    assert hash_map_order(["P", *letters[:11]])[0] == "P"
    assert hash_map_order(["P", *letters])[-1] == "P"


def test_the_high_half_of_the_hash_counts() -> None:
    # hash("BBBB") is 0x001F0080: its bucket of 16 is 0x0 ^ 0xF, that of o.
    assert string_hash("BBBB") == 0x001F0080
    assert hash_map_order(["o", "BBBB", "a"]) == ["a", "o", "BBBB"]


def test_a_ninth_name_in_one_bucket_doubles_a_small_table() -> None:
    # Nine names of equal hash sit in one bucket; the table of 16 doubles although it holds
    # only eleven, and p, which had bucket 0, moves to bucket 16, after A in bucket 1.
    pairs = [
        a + b + c + d
        for a in ("Aa", "BB")
        for b in ("Aa", "BB")
        for c in ("Aa", "BB")
        for d in ("Aa", "BB")
    ][:9]
    assert len({string_hash(pair) for pair in pairs}) == 1
    order = hash_map_order(["p", "A", *pairs])
    assert order.index("A") < order.index("p")
    order = hash_map_order(["p", "A", *pairs[:8]])
    assert order.index("p") < order.index("A")


class LiteralHashMap:
    """HashMap.putVal and resize step by step, without trees."""

    def __init__(self) -> None:
        self.table: list[list[str]] = [[] for _ in range(16)]
        self.size = 0

    def put(self, key: str) -> None:
        bucket = self.table[self._index(key)]
        crowded = len(bucket) >= 8
        bucket.append(key)
        if crowded and len(self.table) < 64:
            self._resize()
        self.size += 1
        if self.size > len(self.table) * 0.75:
            self._resize()

    def _index(self, key: str) -> int:
        code = string_hash(key) % 2**32
        return (code ^ code >> 16) % len(self.table)

    def _resize(self) -> None:
        keys = [key for bucket in self.table for key in bucket]
        self.table = [[] for _ in range(2 * len(self.table))]
        for key in keys:
            self.table[self._index(key)].append(key)


colliding = st.text("ABa", min_size=1, max_size=6)


@given(st.lists(st.one_of(colliding, st.text(max_size=8)), unique=True, max_size=80))
def test_the_order_is_a_literal_hash_maps(keys: list[str]) -> None:
    literal = LiteralHashMap()
    for key in keys:
        literal.put(key)
    expected = [key for bucket in literal.table for key in bucket]
    assert hash_map_order(keys) == expected
    assert iteration_order(tuple(keys)) == tuple(expected)
