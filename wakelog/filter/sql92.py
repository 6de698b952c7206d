"""Sql92Filter: a compiled filter, and the way from its text to it.

Equal texts share one compiled filter for as long as anybody uses it. The latest stay for a while
without a user, failures too: pulls and heartbeats repeat their texts. Of requests that come with
the same new text one compiles it, and the others wait.

Source: org.apache.rocketmq.filter.{FilterFactory, SqlFilter}, SelectorParser.parse (4.9.3).
"""

from collections import OrderedDict
from typing import Final, TypeAlias
from weakref import WeakValueDictionary

from wakelog.filter.errors import EvaluationFailed, IllegalExpression
from wakelog.filter.expression import Expression, Properties
from wakelog.filter.grammar import parse_in_steps
from wakelog.filter.limits import RECENT_CHARACTERS_MAX, check_characters
from wakelog.protocol.steps import Steps, finish

TYPE: Final = "SQL92"

_Key: TypeAlias = tuple[str, int]


class Sql92Filter:
    """One compiled expression.

    evaluate: returns True, False, or None for unknown. Raises: EvaluationFailed.
    """

    __slots__ = ("__weakref__", "evaluate", "text")

    def __init__(self, text: str, expression: Expression) -> None:
        self.text = text
        self.evaluate = expression.evaluate

    def matches(self, properties: Properties) -> bool:
        """Return whether a message passes: unknown and failed evaluations do not."""
        try:
            return self.evaluate(properties) is True
        except EvaluationFailed:
            return False


class _Compiled:
    """Compiled filters by text and factor: those in use, the latest, and remarks of failures."""

    def __init__(self) -> None:
        self._in_use: WeakValueDictionary[_Key, Sql92Filter] = WeakValueDictionary()
        self._recent: OrderedDict[_Key, Sql92Filter | str] = OrderedDict()
        self._recent_characters = 0

    def get(self, key: _Key) -> Sql92Filter | str | None:
        return self._in_use.get(key) or self._recent.get(key)

    def add(self, key: _Key, found: Sql92Filter | str) -> None:
        if isinstance(found, Sql92Filter):
            self._in_use[key] = found
        if key not in self._recent:
            self._recent_characters += len(key[0])
        self._recent[key] = found
        while self._recent_characters > RECENT_CHARACTERS_MAX:
            (oldest, _), _ = self._recent.popitem(last=False)
            self._recent_characters -= len(oldest)


_COMPILED: Final = _Compiled()
_COMPILING: Final[set[_Key]] = set()
"""What is being compiled in steps."""


def known_filter(text: str, factor: int = 1) -> Sql92Filter | str | None:
    """Return the compiled filter, or why it does not compile; None if that is not known."""
    return _COMPILED.get((text, factor))


def compile_filter(text: str, factor: int = 1) -> Sql92Filter:
    """Compile an expression at once. Raises: IllegalExpression.

    factor: multiplies the limits of one expression.
    """
    check_characters(text, factor)
    return finish(_find_or_compile((text, factor)))


def compile_in_steps(text: str, factor: int = 1) -> Steps[Sql92Filter]:
    """Compile an expression; no step if it is known already. Raises: IllegalExpression."""
    check_characters(text, factor)
    key = (text, factor)
    while key in _COMPILING:
        yield
    _COMPILING.add(key)
    try:
        return (yield from _find_or_compile(key))
    finally:
        _COMPILING.discard(key)


def _find_or_compile(key: _Key) -> Steps[Sql92Filter]:
    text, factor = key
    found = _COMPILED.get(key)
    if found is None:
        try:
            found = Sql92Filter(text, (yield from parse_in_steps(text, factor)))
        except IllegalExpression as error:
            found = error.remark
        _COMPILED.add(key, found)
    if isinstance(found, str):
        raise IllegalExpression(found)
    return found
