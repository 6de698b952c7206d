"""What each operator comes to, and what it refuses."""

import pytest

from wakelog.filter.errors import EvaluationFailed, IllegalExpression
from wakelog.filter.grammar import parse
from wakelog.filter.limits import LEVELS_MAX

GIVEN = {"a": "5", "b": "x", "empty": "", "yes": "true", "long": "3000000000"}

# Each row: an expression, and what it is for GIVEN; `no` is absent.
OUTCOMES: list[tuple[str, bool | None]] = [
    ("a = '5'", True),
    ("a = '5.0'", False),
    ("a = 5.0", True),
    ("a > 4 AND a >= 5 AND a < 6 AND a <= 5", True),
    ("long > 2147483648", True),
    ("no = 1", None),
    ("no <> 1", None),
    ("'x' = no", False),
    ("'x' <> no", True),
    ("no IS NULL", True),
    ("a IS NOT NULL", True),
    ("- no = no", True),
    ("- a IS NULL", True),
    ("NULL", None),
    ("NULL IS NULL", True),
    ("yes = TRUE", True),
    ("b", False),
    ("no", None),
    ("NOT b", True),
    ("NOT no", None),
    ("no AND b = 'y'", False),
    ("no OR b = 'x'", True),
    ("no OR b = 'y'", None),
    ("b IN ('x', 'y')", True),
    ("b NOT IN ('x', 'y')", False),
    ("no NOT IN ('x')", None),
    ("a BETWEEN 5 AND 5", True),
    ("a NOT BETWEEN 1 AND 3", True),
    ("no BETWEEN 1 AND 3", None),
    ("TRUE = FALSE", False),
    ("5 = TRUE", False),
    ("- 5 < a", True),
]


@pytest.mark.parametrize(("text", "outcome"), OUTCOMES)
def test_what_an_expression_is(text: str, outcome: bool | None) -> None:
    assert parse(text).evaluate(GIVEN) is outcome


@pytest.mark.parametrize("text", ["b > 1", "a > b OR TRUE", "TRUE = a", "empty = 1", "long = 1"])
def test_values_that_cannot_be_compared_end_the_evaluation(text: str) -> None:
    with pytest.raises(EvaluationFailed):
        parse(text).evaluate(GIVEN)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a = NULL", "'NULL' cannot be compared."),
        ("TRUE = 'x'", "'TRUE' cannot be compared with ''x''"),
        ("(a > 1) > 2", "Value '(a > 1)' cannot be compared."),
        ("a < TRUE", "Value 'TRUE' cannot be compared."),
        ("5 IN ('a')", "Expected a property for In expression, got: 5"),
        ("a BETWEEN NULL AND 5", "Illegal values of between, values can not be null!"),
        ("a BETWEEN 'x' AND 5", 'NumberFormatException: For input string: "x"'),
        ("a BETWEEN 'x' AND TRUE", "ClassCastException: class java.lang.Boolean cannot be cast"),
        ("a > 0.0", "0.0 is less than 4.9E-324"),
        ("a > 1e400", "1e400 is greater than 1.7976931348623157E308"),
        ("a > 9223372036854775808", 'For input string: "9223372036854775808"'),
        ("5", "Expression will not result in a boolean value: 5"),
        ("NOT - a", "Expression will not result in a boolean value: (- a)"),
    ],
)
def test_what_makes_no_sense_is_refused_in_upstreams_words(text: str, reason: str) -> None:
    with pytest.raises(IllegalExpression) as caught:
        parse(text)
    assert reason in caught.value.remark


def test_chains_are_one_level_and_nesting_has_a_limit() -> None:
    assert parse(" AND ".join(["a"] * 2_000) + " AND no = 1").evaluate(GIVEN) is False
    deepest = "NOT " * (LEVELS_MAX - 2)
    assert parse(f"{deepest}b").evaluate(GIVEN) is False
    with pytest.raises(IllegalExpression, match="nested deeper"):
        parse(f"{deepest} NOT b")
