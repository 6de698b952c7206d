"""The values of a filter expression: what Java's compareTo makes of two of them.

A value is None (null: unknown), a bool, a str, a float (Double), an int (Integer) or a `Long`.
Properties are always strings; the other kinds come from literals and comparisons.

    left        right             compared as
    same kind                     that kind; Double as Double.compare: NaN is the greatest
    Integer     Long, Double      the right one's kind; likewise with the sides exchanged
    a number    String            the string parsed as that kind of number, else an error
    Boolean     String            an error: upstream casts the wrong side
    String      Boolean           the string is true if it is "true" in any case
    Boolean     a number          left is less; likewise with the sides exchanged

Source: org.apache.rocketmq.filter.expression.ComparisonExpression.__compare (4.9.3);
java.lang.{Integer,Long}.parse..., Double.valueOf, Double.compare, Double.toString (OpenJDK 17).
"""

import math
import re
import unicodedata
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, TypeAlias

from wakelog.filter.errors import EvaluationFailed
from wakelog.protocol.java import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN


class Long(int):
    """A Java long; a plain int is an Integer."""

    __slots__ = ()


Value: TypeAlias = bool | int | float | str | None
Known: TypeAlias = bool | int | float | str

NUMBER_EXCEPTION: Final = "java.lang.NumberFormatException"
# From an object's "Boolean" to "String": the words of the class cast that upstream stumbles over.
CAST_EXCEPTION: Final = (
    "java.lang.ClassCastException: class java.lang.Boolean cannot be cast to class "
    "java.lang.String (java.lang.Boolean and java.lang.String are in module java.base of loader "
    "'bootstrap')"
)

_DECIMAL: Final = re.compile(r"[+-]?(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d++)?[fFdD]?", re.ASCII)
_HEXADECIMAL: Final = re.compile(
    r"([+-]?)0[xX]([0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP]([+-]?\d+)[fFdD]?", re.ASCII
)
_WORDS: Final = {"NaN": math.nan, "Infinity": math.inf}
_TRIMMED: Final = "".join(map(chr, range(0x21)))  # String.trim
_DIGITS_MAX: Final = 1_000  # leading zeros are legal, endless ones only cost time
_PLAIN_MIN, _PLAIN_MAX = 1e-3, 1e7  # between which Double.toString writes no exponent


def compare(left: Known, right: Known) -> int:
    """Return a number below, at or above 0.

    Raises: EvaluationFailed if the two cannot be compared; its text is Java's exception.
    """
    kinds = type(left), type(right)
    if kinds[0] is not kinds[1]:
        convert = _CONVERSIONS.get(kinds)
        if convert is None:
            return -1
        left, right = convert(left, right)
    if isinstance(left, float) and isinstance(right, float):
        return _compare_doubles(left, right)
    if isinstance(left, str) and isinstance(right, str):
        return _compare_strings(left, right)
    return (left > right) - (left < right)  # type: ignore[operator]


def equals(left: Known, right: Known) -> bool:
    """Return whether Java's equals holds: kind and value are the same."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float) and isinstance(right, float):
        return _compare_doubles(left, right) == 0
    return left == right


def parse_int(text: str) -> int:
    """Parse as Integer.valueOf. Raises: ValueError with the exception's text."""
    return _parse_whole(text, INT_MIN, INT_MAX)


def parse_long(text: str) -> Long:
    """Parse as Long.valueOf. Raises: ValueError with the exception's text."""
    return Long(_parse_whole(text, LONG_MIN, LONG_MAX))


def parse_double(text: str) -> float:
    """Parse as Double.valueOf. Raises: ValueError with the exception's text."""
    trimmed = text[: _DIGITS_MAX + 1].strip(_TRIMMED)
    if not trimmed:
        raise ValueError("empty String")
    if len(text) > _DIGITS_MAX:
        raise ValueError(f'For input string: "{trimmed}"')
    unsigned = trimmed[1:] if trimmed[0] in "+-" else trimmed
    if unsigned in _WORDS:
        return -_WORDS[unsigned] if trimmed[0] == "-" else _WORDS[unsigned]
    if _DECIMAL.fullmatch(trimmed):
        return float(trimmed.rstrip("fFdD"))
    found = _HEXADECIMAL.fullmatch(trimmed)
    if found is None:
        raise ValueError(f'For input string: "{trimmed}"')
    try:
        return float.fromhex(f"{found[1]}0x{found[2]}p{found[3]}")
    except OverflowError:
        return -math.inf if found[1] == "-" else math.inf


def value_text(value: Value) -> str:
    """Write a value as Java's String.valueOf."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _double_text(value)
    return "null" if value is None else str(value)


def _parse_whole(text: str, minimum: int, maximum: int) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    # Character.digit takes the decimal digits of every script, as int does; int also takes
    # spaces and underscores.
    is_short = 0 < len(digits) <= _DIGITS_MAX
    if is_short and ((digits.isascii() and digits.isdigit()) or all(map(_is_digit, digits))):
        value = int(text)
        if minimum <= value <= maximum:
            return value
    raise ValueError(f'For input string: "{text}"')


def _is_digit(character: str) -> bool:
    # Java looks at UTF-16 units one by one: digits beyond the first plane are none to it.
    return character <= "\uffff" and unicodedata.category(character) == "Nd"


def _double_text(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    # Before JDK 19 the smallest double is written with one digit more than it takes.
    shortest = "4.9e-324" if value == math.ulp(0.0) else repr(value)
    sign, digits, exponent = Decimal(shortest).normalize().as_tuple()
    assert isinstance(exponent, int)
    text, minus = "".join(map(str, digits)), "-" if sign else ""
    point = len(text) + exponent
    if value and not _PLAIN_MIN <= abs(value) < _PLAIN_MAX:
        return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"
    if point <= 0:
        return f"{minus}0.{'0' * -point}{text}"
    return f"{minus}{text[:point].ljust(point, '0')}.{text[point:] or '0'}"


def _compare_doubles(left: float, right: float) -> int:
    # Double.compare orders NaN above everything and -0.0 below 0.0.
    return (_double_rank(left) > _double_rank(right)) - (_double_rank(left) < _double_rank(right))


def _double_rank(value: float) -> tuple[bool, float, float]:
    if math.isnan(value):
        return True, 0.0, 0.0
    return False, value, math.copysign(1.0, value)


def _compare_strings(left: str, right: str) -> int:
    units = [text.encode("utf-16-be", "surrogatepass") for text in (left, right)]
    return (units[0] > units[1]) - (units[0] < units[1])


def _parsed(parse: Callable[[str], Known], text: str) -> Known:
    try:
        return parse(text)
    except ValueError as error:
        raise EvaluationFailed(f"java.lang.RuntimeException: {NUMBER_EXCEPTION}: {error}") from None


def _cast_failed(_left: Any, _right: Any) -> tuple[Known, Known]:
    raise EvaluationFailed(CAST_EXCEPTION)


_CONVERSIONS: Final[dict[tuple[type, type], Callable[[Any, Any], tuple[Known, Known]]]] = {
    (bool, str): _cast_failed,
    (str, bool): lambda left, right: (left.lower() == "true", right),
    (int, Long): lambda left, right: (Long(left), right),
    (Long, int): lambda left, right: (left, Long(right)),
    (int, float): lambda left, right: (float(left), right),
    (Long, float): lambda left, right: (float(left), right),
    (float, int): lambda left, right: (left, float(right)),
    (float, Long): lambda left, right: (left, float(right)),
    (int, str): lambda left, right: (left, _parsed(parse_int, right)),
    (Long, str): lambda left, right: (left, _parsed(parse_long, right)),
    (float, str): lambda left, right: (left, _parsed(parse_double, right)),
    (str, int): lambda left, right: (_parsed(parse_int, left), right),
    (str, Long): lambda left, right: (_parsed(parse_long, left), right),
    (str, float): lambda left, right: (_parsed(parse_double, left), right),
}
"""How two values of different kinds become one kind; a pair that is not here compares as -1."""
