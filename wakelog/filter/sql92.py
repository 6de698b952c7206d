"""Sql92Filter: a compiled filter, and the way from its text to it.

What was compiled lately is remembered, failures too: pulls and heartbeats repeat their texts.

Source: org.apache.rocketmq.filter.{FilterFactory, SqlFilter}, SelectorParser.parse (4.9.3).
"""

from functools import lru_cache
from typing import Final

from wakelog.filter.errors import EvaluationFailed, IllegalExpression
from wakelog.filter.expression import Expression, Properties
from wakelog.filter.grammar import parse

TYPE: Final = "SQL92"

# 4.9.3 has no limit. Compiling takes some 20 us a word, and a message is judged by the whole of it.
EXPRESSION_CHARACTERS_MAX: Final = 16_384
COMPILED_MAX: Final = 100  # SelectorParser.PARSE_CACHE


class Sql92Filter:
    """One compiled expression.

    evaluate: returns True, False, or None for unknown. Raises: EvaluationFailed.
    """

    __slots__ = ("evaluate", "text")

    def __init__(self, text: str, expression: Expression) -> None:
        self.text = text
        self.evaluate = expression.evaluate

    def matches(self, properties: Properties) -> bool:
        """Return whether a message passes: unknown and failed evaluations do not."""
        try:
            return self.evaluate(properties) is True
        except EvaluationFailed:
            return False


def compile_filter(text: str) -> Sql92Filter:
    """Compile an expression. Raises: IllegalExpression."""
    found = _compile(text)
    if isinstance(found, str):
        raise IllegalExpression(found)
    return found


@lru_cache(COMPILED_MAX)
def _compile(text: str) -> Sql92Filter | str:
    if len(text) > EXPRESSION_CHARACTERS_MAX:
        return f"the expression is longer than {EXPRESSION_CHARACTERS_MAX} characters"
    try:
        return Sql92Filter(text, parse(text))
    except IllegalExpression as error:
        return error.remark
