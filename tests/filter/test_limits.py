"""The limits of an expression: how they relate, and what is said of one that is beyond."""

import pytest

from wakelog.broker.config import RANGES
from wakelog.filter import limits
from wakelog.filter.errors import IllegalExpression


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
