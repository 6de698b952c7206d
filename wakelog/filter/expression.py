"""Expression: a closure over a message's properties, and the ones that contain no others.

The closure takes the properties and returns a value, or raises EvaluationFailed. An absent property
is None, which stands for unknown; a present one is always a string.

Invariant: no closure nests deeper than LEVELS_MAX; chains of AND and of OR are one level.

Source: org.apache.rocketmq.filter.expression.{Expression, ConstantExpression, PropertyExpression}
(4.9.3).
"""

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass
from typing import Final, NamedTuple, TypeAlias

from wakelog.filter.errors import IllegalExpression
from wakelog.filter.limits import check_levels
from wakelog.filter.values import NUMBER_EXCEPTION, Value, parse_double, parse_long, value_text
from wakelog.protocol.java import INT_MAX

RUNTIME_EXCEPTION: Final = "java.lang.RuntimeException"
PARSE_EXCEPTION: Final = "org.apache.rocketmq.filter.parser.ParseException"

Properties: TypeAlias = Mapping[str, str]
Evaluate: TypeAlias = Callable[[Properties], Value]


class Chain(NamedTuple):
    """The end of a chain of conditions; `before` is the chain without it, None for the first."""

    symbol: str
    before: "Chain | None"
    last: "Expression"

    def conditions(self) -> "list[Expression]":
        """Return the conditions in their order."""
        found = []
        link: Chain | None = self
        while link is not None:
            found.append(link.last)
            link = link.before
        return found[::-1]


@dataclass(slots=True, eq=False)
class Expression:
    """One expression: its closure, and what builders have to know about it.

    text: makes what upstream's toString gives; error texts quote it.
    inner: the expressions in it.
    is_boolean: it can stand where a condition is asked for.
    is_constant: `constant` is its value.
    name: of a property.
    chain: of ANDs or ORs, so that a longer one stays one level and is made in a time that grows
        with its length.

    Raises: IllegalExpression if it nests too deep.
    """

    evaluate: Evaluate
    text: Callable[[], str]
    inner: "InitVar[tuple[Expression, ...]]" = ()
    is_boolean: bool = True
    is_constant: bool = False
    constant: Value = None
    name: str | None = None
    chain: "Chain | None" = None
    depth: int = 1

    def __post_init__(self, inner: "tuple[Expression, ...]") -> None:
        """Check the depth."""
        self.depth += max((part.depth for part in inner), default=0)
        check_levels(self.depth)


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
        raise refused(f"{image} is greater than 1.7976931348623157E308")
    if value < math.ulp(0.0):
        raise refused(f"{image} is less than 4.9E-324")
    return constant(value)


def property_of(name: str) -> Expression:
    """Make a property."""
    return Expression(lambda given: given.get(name), lambda: name, is_boolean=False, name=name)


def refused(reason: str) -> IllegalExpression:
    """Return the error for what upstream refuses with a RuntimeException."""
    return IllegalExpression(f"{RUNTIME_EXCEPTION}: {reason}")


def _literal_text(value: Value) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    text = value_text(value)
    return text.upper() if value is None or isinstance(value, bool) else text
