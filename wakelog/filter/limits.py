"""The limits of one expression, each with its reason. 4.9.3 has none of them.

How many a broker keeps is in `broker/table_limits.py`.

`requestLimitFactor` in broker.conf multiplies those of characters and words. What one of them
refuses is an expression that does not compile; its error has the limit.
"""

from typing import Final

from wakelog.filter.errors import IllegalExpression

FACTOR_MAX: Final = 16
"""The greatest requestLimitFactor. Expressions of our own files may have been allowed by it."""

CHARACTERS_MAX: Final = 16_384
"""Of one expression; those that people write have a few hundred."""

WORDS_MAX: Final = 4_096
"""Of one expression: IN with 2,000 values. Compiling takes 10 us a word, and a message is judged by
all of them."""

LEVELS_MAX: Final = 200
"""How deep closures may nest, whatever the factor. Each level is at most two Python frames, of
1,000 that there are. 4.9.3 goes on until its stack overflows, which takes a few thousand."""

WORDS_PER_STEP: Final = 16
"""How many words are compiled before others have their turn: some 0.2 ms."""

LOOP_CHARACTERS_MAX: Final = 1_024
"""Of an expression that judges records on the Broker's loop: 100 conditions take some 30 us. A
longer one does so in a thread."""

RECENT_CHARACTERS_MAX: Final = 262_144
"""Of the expressions that were compiled last; they stay compiled though nobody uses them now.
SelectorParser.PARSE_CACHE of 4.9.3 has 100 expressions of any length."""


def check_characters(text: str, factor: int) -> None:
    """Raise IllegalExpression for a text that is too long."""
    if len(text) > factor * CHARACTERS_MAX:
        limit = f"at most {factor * CHARACTERS_MAX} are allowed"
        raise IllegalExpression(f"the expression has {len(text)} characters, {limit}")


def check_words(count: int, factor: int) -> None:
    """Raise IllegalExpression for too many words."""
    if count > factor * WORDS_MAX:
        raise IllegalExpression(f"the expression has more than {factor * WORDS_MAX} words")


def check_levels(count: int) -> None:
    """Raise IllegalExpression for too many levels."""
    if count > LEVELS_MAX:
        raise IllegalExpression(f"the expression is nested deeper than {LEVELS_MAX} levels")
