"""Literals, properties, and how deep expressions nest."""

import pytest

from wakelog.broker.config import RANGES
from wakelog.filter import limits
from wakelog.filter.errors import IllegalExpression
from wakelog.filter.expression import (
    Expression,
    constant,
    decimal,
    floating,
    property_of,
    refused,
)
from wakelog.filter.limits import LEVELS_MAX
from wakelog.filter.values import Long, Value


@pytest.mark.parametrize(
    ("literal", "value", "text"),
    [
        (decimal("2147483647"), 2_147_483_647, "2147483647"),
        (decimal("2147483648"), Long(2_147_483_648), "2147483648"),
        (decimal("5L"), 5, "5"),
        (floating("1E7"), 1e7, "1.0E7"),
        (constant("it's"), "it's", "'it''s'"),
        (constant(True), True, "TRUE"),
        (constant(None), None, "NULL"),
    ],
)
def test_a_literal_has_javas_kind_and_text(literal: Expression, value: Value, text: str) -> None:
    found = literal.evaluate({})
    assert (found, type(found), literal.text()) == (value, type(value), text)
    assert literal.is_constant and literal.is_boolean == (value is None or value is True)


def test_a_property_is_what_the_message_has() -> None:
    expression = property_of("a")
    assert (expression.evaluate({"a": "5"}), expression.evaluate({})) == ("5", None)
    assert expression.text() == expression.name == "a" and not expression.is_boolean


def test_an_expression_knows_its_depth_and_has_a_greatest() -> None:
    expression = constant(True)
    for _ in range(LEVELS_MAX - 1):
        expression = Expression(expression.evaluate, expression.text, (expression,))
    assert expression.depth == LEVELS_MAX
    with pytest.raises(IllegalExpression, match="nested deeper"):
        Expression(expression.evaluate, expression.text, (expression,))


def test_a_refusal_has_the_text_of_javas() -> None:
    assert refused("so").remark == "java.lang.RuntimeException: so"


def test_an_illegal_expression_carries_its_remark() -> None:
    assert IllegalExpression("a remark").remark == str(IllegalExpression("a remark")) == "a remark"


def test_the_greatest_factor_is_that_of_the_configuration() -> None:
    assert RANGES["requestLimitFactor"][1] == limits.FACTOR_MAX
    assert limits.CHARACTERS_MAX * limits.FACTOR_MAX <= limits.RECENT_CHARACTERS_MAX


def test_what_is_beyond_a_limit_is_refused_with_it() -> None:
    limits.check_characters("a" * limits.CHARACTERS_MAX, 1)
    limits.check_words(2 * limits.WORDS_MAX, 2)
    limits.check_levels(limits.LEVELS_MAX)
    with pytest.raises(IllegalExpression, match="16385 characters, at most 16384"):
        limits.check_characters("a" * (limits.CHARACTERS_MAX + 1), 1)
    with pytest.raises(IllegalExpression, match="more than 8192 words"):
        limits.check_words(2 * limits.WORDS_MAX + 1, 2)
    with pytest.raises(IllegalExpression, match="deeper than 200 levels"):
        limits.check_levels(limits.LEVELS_MAX + 1)
