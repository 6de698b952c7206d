"""Expressions as closures: what each construct of the language checks and does.

A builder takes expressions and returns one; it refuses what 4.9.3 refuses while it parses, with the
same words. The closure of an expression takes a message's properties and returns a value, or raises
EvaluationFailed.

    construct       unknown (null) when                      note
    a property      it is absent                             otherwise always a string
    -x              x is no number, so for any property
    x = y           x is null and y is not                   null = null is true; 'v' = absent is
                                                             false, absent = 'v' is unknown
    x < y ...       either is null                           two strings are compared as doubles
    x IN (...)      x is null
    NOT, AND, OR    as in SQL's three-valued logic           a bare property that is there is false

Invariant: no closure nests deeper than DEPTH_MAX; chains of AND and of OR are one level.

Source: org.apache.rocketmq.filter.expression.{ComparisonExpression, LogicExpression,
UnaryExpression, ConstantExpression} (4.9.3).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from wakelog.filter.errors import EvaluationFailed, IllegalExpression
from wakelog.filter.values import (
    NUMBER_EXCEPTION,
    Known,
    Long,
    Value,
    compare,
    equals,
    parse_double,
    parse_long,
    value_text,
)
from wakelog.protocol.java import INT_MAX, hash_map_order

# Each level is at most two Python frames, of 1,000 that there are. 4.9.3 goes on until its stack
# overflows, which takes a few thousand levels.
DEPTH_MAX: Final = 200

RUNTIME_EXCEPTION: Final = "java.lang.RuntimeException"
PARSE_EXCEPTION: Final = "org.apache.rocketmq.filter.parser.ParseException"

Properties: TypeAlias = Mapping[str, str]
Evaluate: TypeAlias = Callable[[Properties], Value]

_IN_ELEMENTS_AS_LISTED: Final = 5  # from here on upstream keeps them in a HashSet


class Expression:
    """One expression: its closure, and what builders have to know about it.

    is_boolean: it can stand where a condition is asked for.
    is_constant: `constant` is its value.
    text: makes what upstream's toString gives; error texts quote it.
    parts: of a chain of ANDs or ORs, so that a longer chain stays one level.
    """

    __slots__ = (
        "constant",
        "depth",
        "evaluate",
        "is_boolean",
        "is_constant",
        "name",
        "parts",
        "text",
    )

    def __init__(
        self,
        evaluate: Evaluate,
        text: Callable[[], str],
        *inner: Expression,
        is_boolean: bool = True,
        is_constant: bool = False,
        constant: Value = None,
        name: str | None = None,
        parts: tuple[str, tuple[Expression, ...]] = ("", ()),
    ) -> None:
        """Raises: IllegalExpression if it nests too deep."""
        self.evaluate = evaluate
        self.text = text
        self.is_boolean = is_boolean
        self.is_constant = is_constant
        self.constant = constant
        self.name = name
        self.parts = parts
        self.depth: int = 1 + max((part.depth for part in inner), default=0)
        if self.depth > DEPTH_MAX:
            raise IllegalExpression(f"the expression is nested deeper than {DEPTH_MAX} levels")


def constant(value: Value) -> Expression:
    """Make a literal; only TRUE, FALSE and NULL are conditions."""
    return Expression(
        lambda _: value,
        lambda: _literal_text(value),
        is_boolean=value is None or isinstance(value, bool),
        is_constant=True,
        constant=value,
    )


def decimal(image: str) -> Expression:
    """Make a whole number: an Integer if it fits, else a Long."""
    digits = image.rstrip("lL")
    try:
        value = parse_long(digits)
    except ValueError as error:
        raise IllegalExpression(f"{NUMBER_EXCEPTION}: {error}") from None
    return constant(int(value) if value <= INT_MAX else value)


def floating(image: str) -> Expression:
    """Make a Double; upstream refuses 0.0 along with what is too small or too great."""
    value = parse_double(image)
    if value > sys.float_info.max:
        raise _refused(f"{image} is greater than 1.7976931348623157E308")
    if value < math.ulp(0.0):
        raise _refused(f"{image} is less than 4.9E-324")
    return constant(value)


def property_of(name: str) -> Expression:
    """Make a property."""
    return Expression(lambda given: given.get(name), lambda: name, is_boolean=False, name=name)


def negate(inner: Expression) -> Expression:
    """Make -x."""
    ask = inner.evaluate

    def evaluate(given: Properties) -> Value:
        value = ask(given)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return Long(-value) if isinstance(value, Long) else -value

    return Expression(evaluate, lambda: f"(- {inner.text()})", inner, is_boolean=False)


def condition(inner: Expression) -> Expression:
    """Return what stands where a condition is asked for. Raises: IllegalExpression."""
    if inner.is_boolean:
        return inner
    if inner.name is None:
        raise IllegalExpression(
            f"{PARSE_EXCEPTION}: Expression will not result in a boolean value: {inner.text()}"
        )
    ask = inner.evaluate
    return Expression(lambda given: None if ask(given) is None else False, inner.text, inner)


def negation(inner: Expression) -> Expression:
    """Make NOT x."""
    inner = condition(inner)
    ask = inner.evaluate

    def evaluate(given: Properties) -> Value:
        value = ask(given)
        return None if value is None else not value

    return Expression(evaluate, lambda: f"(NOT {inner.text()})", inner)


def conjunction(left: Expression, right: Expression) -> Expression:
    """Make x AND y."""
    return _chain("&&", condition(left), condition(right), decided=False)


def disjunction(left: Expression, right: Expression) -> Expression:
    """Make x OR y."""
    return _chain("||", condition(left), condition(right), decided=True)


def equal(left: Expression, right: Expression) -> Expression:
    """Make x = y."""
    for side in (left, right):
        if side.is_constant and side.constant is None:
            raise _refused(f"'{side.text()}' cannot be compared.")
    if left.is_constant and right.is_constant and left.is_boolean and not right.is_boolean:
        raise _refused(f"'{left.text()}' cannot be compared with '{right.text()}'")
    return _equality(left, right)


def not_equal(left: Expression, right: Expression) -> Expression:
    """Make x <> y."""
    return negation(equal(left, right))


def is_null(inner: Expression) -> Expression:
    """Make x IS NULL."""
    return _equality(inner, constant(None))


def is_not_null(inner: Expression) -> Expression:
    """Make x IS NOT NULL."""
    return negation(is_null(inner))


def order(sign: str, left: Expression, right: Expression) -> Expression:
    """Make x < y, or with another of the four signs."""
    for side in (left, right):
        is_number = isinstance(side.constant, int | float) and not isinstance(side.constant, bool)
        if (side.is_constant and not is_number) or side.is_boolean:
            raise _refused(f"Value '{side.text()}' cannot be compared.")
    holds = _HOLDS[sign]
    ask_left, ask_right = left.evaluate, right.evaluate

    def evaluate(given: Properties) -> Value:
        lower = ask_left(given)
        if lower is None:
            return None
        upper = ask_right(given)
        if upper is None:
            return None
        if isinstance(lower, str) and isinstance(upper, str):
            lower, upper = _as_doubles(lower, upper)
        return holds(compare(lower, upper))

    return Expression(evaluate, lambda: f"({left.text()} {sign} {right.text()})", left, right)


def between(inner: Expression, low: Expression, high: Expression) -> Expression:
    """Make x BETWEEN low AND high; two constants have to be in order."""
    if low.is_constant and high.is_constant:
        if low.constant is None or high.constant is None:
            raise _refused("Illegal values of between, values can not be null!")
        if _compare_constants(high.constant, low.constant) < 0:
            raise _refused(
                f"Illegal values of between, left value({value_text(low.constant)}) must less "
                f"than or equal to right value({value_text(high.constant)})"
            )
    return conjunction(order(">=", inner, low), order("<=", inner, high))


def not_between(inner: Expression, low: Expression, high: Expression) -> Expression:
    """Make x NOT BETWEEN low AND high."""
    return disjunction(order("<", inner, low), order(">", inner, high))


def contained(inner: Expression, elements: Sequence[str], *, negated: bool) -> Expression:
    """Make x [NOT] IN (...)."""
    if inner.name is None:
        raise _refused(f"Expected a property for In expression, got: {inner.text()}")
    ask, wanted = inner.evaluate, frozenset(elements)
    name, symbol = inner.name, "NOT IN" if negated else "IN"

    def evaluate(given: Properties) -> Value:
        value = ask(given)
        return None if value is None else (value in wanted) is not negated

    def text() -> str:
        listed = list(elements)
        if len(listed) >= _IN_ELEMENTS_AS_LISTED:
            listed = hash_map_order(dict.fromkeys(listed))
        return f"{name} {symbol} ( {', '.join(listed)} )"

    return Expression(evaluate, text, inner)


def _equality(left: Expression, right: Expression) -> Expression:
    ask_left, ask_right = left.evaluate, right.evaluate

    def evaluate(given: Properties) -> Value:
        one, other = ask_left(given), ask_right(given)
        if one is None:
            return True if other is None else None
        if other is None:
            return False
        return equals(one, other) or compare(one, other) == 0

    return Expression(evaluate, lambda: f"({left.text()} == {right.text()})", left, right)


def _chain(symbol: str, left: Expression, right: Expression, *, decided: bool) -> Expression:
    """Make a chain of conditions that the first `decided` one decides."""
    known = left.parts[1] if left.parts[0] == symbol else (left,)
    parts = (*known, right)
    conditions = tuple(part.evaluate for part in parts)

    def evaluate(given: Properties) -> Value:
        outcome: Value = not decided
        for ask in conditions:
            value = ask(given)
            if value is decided:
                return decided
            if value is None:
                outcome = None
        return outcome

    def text() -> str:
        texts = [part.text() for part in parts]
        return (
            "(" * (len(texts) - 1)
            + f"{texts[0]} "
            + " ".join(f"{symbol} {later})" for later in texts[1:])
        )

    return Expression(evaluate, text, *parts, parts=(symbol, parts))


def _as_doubles(lower: str, upper: str) -> tuple[float, float]:
    try:
        return parse_double(lower), parse_double(upper)
    except ValueError:
        raise EvaluationFailed("strings that are no numbers have no order") from None


def _compare_constants(left: Known, right: Known) -> int:
    try:
        return compare(left, right)
    except EvaluationFailed as error:
        raise IllegalExpression(str(error)) from None


def _literal_text(value: Value) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if value is None or isinstance(value, bool):
        return value_text(value).upper()
    return value_text(value)


def _refused(reason: str) -> IllegalExpression:
    return IllegalExpression(f"{RUNTIME_EXCEPTION}: {reason}")


_HOLDS: Final[dict[str, Callable[[int], bool]]] = {
    ">": lambda answer: answer > 0,
    ">=": lambda answer: answer >= 0,
    "<": lambda answer: answer < 0,
    "<=": lambda answer: answer <= 0,
}
