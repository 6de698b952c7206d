"""What each operator checks and does: expressions in, one expression out.

    construct       unknown (null) when                      note
    -x              x is no number, so for any property
    x = y           x is null and y is not                   null = null is true; 'v' = absent is
                                                             false, absent = 'v' is unknown
    x < y ...       either is null                           two strings are compared as doubles
    x IN (...)      x is null
    NOT, AND, OR    as in SQL's three-valued logic           a bare property that is there is false

A builder refuses what 4.9.3 refuses while it parses, with the same words.

Source: org.apache.rocketmq.filter.expression.{ComparisonExpression, LogicExpression,
UnaryExpression} (4.9.3).
"""

from collections.abc import Callable, Sequence
from operator import ge, gt, le, lt
from typing import Final

from wakelog.filter.errors import EvaluationFailed, IllegalExpression
from wakelog.filter.expression import (
    PARSE_EXCEPTION,
    Chain,
    Evaluate,
    Expression,
    Properties,
    constant,
    refused,
)
from wakelog.filter.values import Known, Long, Value, compare, equals, parse_double, value_text
from wakelog.protocol.java import hash_map_order

_IN_ELEMENTS_AS_LISTED: Final = 5  # from here on upstream keeps them in a HashSet


def negate(inner: Expression) -> Expression:
    """Make -x."""
    ask = inner.evaluate

    def evaluate(given: Properties) -> Value:
        value = ask(given)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return Long(-value) if isinstance(value, Long) else -value

    return Expression(evaluate, lambda: f"(- {inner.text()})", (inner,), is_boolean=False)


def condition(inner: Expression) -> Expression:
    """Return what stands where a condition is asked for. Raises: IllegalExpression."""
    if inner.is_boolean:
        return inner
    if inner.name is None:
        raise IllegalExpression(
            f"{PARSE_EXCEPTION}: Expression will not result in a boolean value: {inner.text()}"
        )
    ask = inner.evaluate
    return Expression(lambda given: None if ask(given) is None else False, inner.text, (inner,))


def negation(inner: Expression) -> Expression:
    """Make NOT x."""
    inner = condition(inner)
    ask = inner.evaluate

    def evaluate(given: Properties) -> Value:
        value = ask(given)
        return None if value is None else not value

    return Expression(evaluate, lambda: f"(NOT {inner.text()})", (inner,))


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
            raise refused(f"'{side.text()}' cannot be compared.")
    if left.is_constant and right.is_constant and left.is_boolean and not right.is_boolean:
        raise refused(f"'{left.text()}' cannot be compared with '{right.text()}'")
    return _equality(left, right)


def is_null(inner: Expression) -> Expression:
    """Make x IS NULL."""
    return _equality(inner, constant(None))


def order(sign: str, left: Expression, right: Expression) -> Expression:
    """Make x < y, or with another of the four signs."""
    for side in (left, right):
        is_number = isinstance(side.constant, int | float) and not isinstance(side.constant, bool)
        if (side.is_constant and not is_number) or side.is_boolean:
            raise refused(f"Value '{side.text()}' cannot be compared.")
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
            try:
                lower, upper = parse_double(lower), parse_double(upper)
            except ValueError:
                raise EvaluationFailed("strings that are no numbers have no order") from None
        return holds(compare(lower, upper), 0)

    return Expression(evaluate, lambda: f"({left.text()} {sign} {right.text()})", (left, right))


def between(inner: Expression, low: Expression, high: Expression) -> Expression:
    """Make x BETWEEN low AND high; two constants have to be in order."""
    if low.is_constant and high.is_constant:
        if low.constant is None or high.constant is None:
            raise refused("Illegal values of between, values can not be null!")
        if _compare_constants(high.constant, low.constant) < 0:
            raise refused(
                f"Illegal values of between, left value({value_text(low.constant)}) must less "
                f"than or equal to right value({value_text(high.constant)})"
            )
    return conjunction(order(">=", inner, low), order("<=", inner, high))


def contained(inner: Expression, elements: Sequence[str], *, negated: bool) -> Expression:
    """Make x [NOT] IN (...)."""
    if inner.name is None:
        raise refused(f"Expected a property for In expression, got: {inner.text()}")
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

    return Expression(evaluate, text, (inner,))


def _equality(left: Expression, right: Expression) -> Expression:
    ask_left, ask_right = left.evaluate, right.evaluate

    def evaluate(given: Properties) -> Value:
        one, other = ask_left(given), ask_right(given)
        if one is None:
            return True if other is None else None
        if other is None:
            return False
        if type(one) is type(other):
            return equals(one, other)
        return compare(one, other) == 0

    return Expression(evaluate, lambda: f"({left.text()} == {right.text()})", (left, right))


def _chain(symbol: str, left: Expression, right: Expression, *, decided: bool) -> Expression:
    """Make a chain of conditions that the first `decided` one decides."""
    known = left.chain
    if known is None or known.symbol != symbol:
        known = Chain(symbol, None, left)
    chain = Chain(symbol, known, right)
    conditions: list[Evaluate] = []

    def evaluate(given: Properties) -> Value:
        if not conditions:  # of most chains a longer one is made, and they are never asked
            conditions[:] = [part.evaluate for part in chain.conditions()]  # at once, for threads
        outcome: Value = not decided
        for ask in conditions:
            value = ask(given)
            if value is decided:
                return decided
            if value is None:
                outcome = None
        return outcome

    def text() -> str:
        texts = [part.text() for part in chain.conditions()]
        return (
            "(" * (len(texts) - 1)
            + f"{texts[0]} "
            + " ".join(f"{symbol} {later})" for later in texts[1:])
        )

    depth = max(left.depth - (left.chain is known), right.depth) + 1
    return Expression(evaluate, text, chain=chain, depth=depth)


def _compare_constants(left: Known, right: Known) -> int:
    try:
        return compare(left, right)
    except EvaluationFailed as error:
        raise IllegalExpression(str(error)) from None


_HOLDS: Final[dict[str, Callable[[int, int], bool]]] = {">": gt, ">=": ge, "<": lt, "<=": le}
