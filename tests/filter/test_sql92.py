"""A compiled filter: what matches, what is remembered, how long a text may be."""

import pytest

from wakelog.filter.errors import EvaluationFailed, IllegalExpression
from wakelog.filter.sql92 import EXPRESSION_CHARACTERS_MAX, compile_filter


def test_only_what_is_true_matches() -> None:
    wanted = compile_filter("a > 5")
    assert wanted.matches({"a": "6"})
    assert not wanted.matches({"a": "5"})
    assert not wanted.matches({})
    assert not wanted.matches({"a": "six"})
    with pytest.raises(EvaluationFailed):
        wanted.evaluate({"a": "six"})
    assert wanted.evaluate({}) is None


def test_what_was_compiled_is_remembered_and_so_are_failures() -> None:
    assert compile_filter("a = 'once'") is compile_filter("a = 'once'")
    for _ in range(2):
        with pytest.raises(IllegalExpression, match="ParseException"):
            compile_filter("a >")


def test_a_text_has_a_greatest_length() -> None:
    text = "a = 1 ".ljust(EXPRESSION_CHARACTERS_MAX)
    assert compile_filter(text).matches({"a": "1"})
    with pytest.raises(IllegalExpression, match="longer than"):
        compile_filter(text + " ")
