"""Precedence, where an expression ends, and what is said of a wrong word."""

import pytest

from wakelog.filter.errors import IllegalExpression
from wakelog.filter.grammar import parse

OPERANDS = (
    '"NOT" "TRUE" "FALSE" "NULL" <DECIMAL_LITERAL> <FLOATING_POINT_LITERAL> <STRING_LITERAL> '
    '<ID> "(" "-"'
)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("a = 1 OR b = 2 AND NOT c", "((a == 1) || ((b == 2) && (NOT c)))"),
        ("a and b and (c and d)", "((a && b) && (c && d))"),
        ("a <> 1", "(NOT (a == 1))"),
        ("a = b = c", "((a == b) == c)"),
        ("a BETWEEN 1 AND 2 AND b", "(((a >= 1) && (a <= 2)) && b)"),
        ("a NOT BETWEEN 1 AND 2", "((a < 1) || (a > 2))"),
        ("NOT a IS NOT NULL", "(NOT ((NOT a) == NULL))"),
        ("a IN ('y', 'x')", "a IN ( y, x )"),
        ("a NOT IN ('1','2','3','4','5','5')", "a NOT IN ( 1, 2, 3, 4, 5 )"),
        ("- - a < + 2.5", "((- (- a)) < 2.5)"),
        ("(((a))) = 'it''s'", "(a == 'it''s')"),
        ("a > 5 garbage # here", "(a > 5)"),
        ("a = 007", "(a == 0)"),
        ("a = 1 -- no line end", "(a == 1)"),
    ],
)
def test_precedence_and_where_an_expression_ends(text: str, meaning: str) -> None:
    assert parse(text).text() == meaning


@pytest.mark.parametrize(
    ("text", "found", "expected"),
    [
        ("", '"<EOF>" at line 0, column 0', OPERANDS),
        ("a >", '"<EOF>" at line 1, column 3', OPERANDS),
        ("a == 1", '" "=" "= "" at line 1, column 4', OPERANDS),
        ("+ (a >", '" "+" "+ "" at line 1, column 1', OPERANDS),
        ("a NOT b", '" "NOT" "NOT "" at line 1, column 3', '"BETWEEN" "IN" ">" ">=" "<" "<="'),
        ("a IS 5", '" <DECIMAL_LITERAL> "5 "" at line 1, column 6', '"NOT"'),
        ("a IS NOT 5", '" <DECIMAL_LITERAL> "5 "" at line 1, column 10', '"NULL"'),
        ("a BETWEEN + 1 OR 2", '" "OR" "OR "" at line 1, column 15', '"AND"'),
        ("a IN ('x'", '"<EOF>" at line 1, column 9', '"," ")"'),
        ("(a IS NULL b", '" <ID> "b "" at line 1, column 12', '"AND" "OR" "IS" "=" "<>" ")"'),
    ],
)
def test_a_wrong_word_is_reported_as_upstream_does(text: str, found: str, expected: str) -> None:
    with pytest.raises(IllegalExpression) as caught:
        parse(text)
    kinds = expected.split(" ")
    one_of = " one of" if len(kinds) > 1 else ""
    listed = "".join(f"{kind} ...\n    " for kind in kinds)
    assert caught.value.remark == (
        "org.apache.rocketmq.filter.parser.ParseException: "
        f"Encountered {found}.\nWas expecting{one_of}:\n    {listed}"
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("'x' > 5 #", "RuntimeException: Value ''x'' cannot be compared."),
        ("a AND 'x' #", "TokenMgrError: "),
        ("('x' > 5 b", "RuntimeException: Value ''x'' cannot be compared."),
    ],
)
def test_of_two_errors_the_first_of_upstream_is_reported(text: str, error: str) -> None:
    with pytest.raises(IllegalExpression) as caught:
        parse(text)
    assert error in caught.value.remark
