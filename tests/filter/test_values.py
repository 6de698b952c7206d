"""Java's comparisons, parsers and texts of values."""

import math

import pytest

from wakelog.filter.errors import EvaluationFailed
from wakelog.filter.values import (
    Known,
    Long,
    compare,
    equals,
    parse_double,
    parse_int,
    parse_long,
    value_text,
)

COMPARED: list[tuple[Known, Known, int]] = [
    (1, 2, -1),
    (2, Long(1), 1),
    (Long(1), 1, 0),
    (1, 1.5, -1),
    (1.5, Long(1), 1),
    (7, "7", 0),
    ("-3", 2, -1),
    ("7", Long(7), 0),
    ("1e1", 9.5, 1),
    (9.5, "1e1", -1),
    ("TRUE", True, 0),
    ("no", False, 0),
    (True, False, 1),
    (True, 5, -1),
    (5, True, -1),
    (math.nan, math.inf, 1),
    (math.nan, math.nan, 0),
    (-0.0, 0.0, -1),
    ("\uffff", "\U0001f600", 1),
]


@pytest.mark.parametrize(("left", "right", "sign"), COMPARED)
def test_two_values_compare_as_in_java(left: Known, right: Known, sign: int) -> None:
    assert compare(left, right) == sign


@pytest.mark.parametrize(
    ("left", "right"),
    [(1, "1.5"), (1, " 1"), ("", 1), (1, "2147483648"), (1.5, "x"), (Long(1), "1L"), (True, "x")],
)
def test_strings_that_are_not_of_the_other_kind_fail(left: Known, right: Known) -> None:
    with pytest.raises(EvaluationFailed, match=r"java\.lang\."):
        compare(left, right)


def test_equals_asks_for_the_same_kind() -> None:
    assert equals(1, 1) and equals("a", "a") and equals(math.nan, math.nan)
    assert not equals(1, Long(1)) and not equals(1, True) and not equals(0.0, -0.0)


@pytest.mark.parametrize("text", ["5", "+5", "-5", "005", "\u0665"])
def test_whole_numbers_are_parsed_as_by_java(text: str) -> None:
    assert abs(parse_int(text)) == 5
    assert type(parse_long(text)) is Long


@pytest.mark.parametrize(
    "text", ["", "+", "1_0", " 5", "5 ", "0x5", "5L", "\U0001d7d5", "2147483648"]
)
def test_other_texts_are_no_integers(text: str) -> None:
    with pytest.raises(ValueError, match="For input string"):
        parse_int(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (" 5 ", 5.0),
        ("5.", 5.0),
        (".5f", 0.5),
        ("1e2D", 100.0),
        ("-Infinity", -math.inf),
        ("0x1.8p1", 3.0),
        ("-0x1p5000", -math.inf),
        ("1e400", math.inf),
    ],
)
def test_doubles_are_parsed_as_by_java(text: str, value: float) -> None:
    assert parse_double(text) == value


ENDLESS = ("9" * 1_001, "9" * 30_000 + "x", " " * 1_001 + "1")
"""The second took the pattern 20 s, each time that a message was judged."""


@pytest.mark.parametrize("text", ["", "inf", "nan", "1_0", "1e", "0x1", "--1", "\u0665", *ENDLESS])
def test_other_texts_are_no_doubles(text: str) -> None:
    with pytest.raises(ValueError, match=r"empty String|For input string"):
        parse_double(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (5, "5"),
        (0.001, "0.001"),
        (0.0009, "9.0E-4"),
        (1e7, "1.0E7"),
        (1234567.5, "1234567.5"),
        (-120.0, "-120.0"),
        (5e-324, "4.9E-324"),
        (math.inf, "Infinity"),
        (math.nan, "NaN"),
    ],
)
def test_values_are_written_as_by_java(value: Known | None, text: str) -> None:
    assert value_text(value) == text
