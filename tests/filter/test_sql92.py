"""A compiled filter: what matches, what is remembered, how long a text may be."""

from contextlib import suppress
from typing import Any

import pytest
from lark.parsers.lalr_parser_state import ParserState

from wakelog.filter.errors import EvaluationFailed, IllegalExpression
from wakelog.filter.limits import CHARACTERS_MAX, RECENT_CHARACTERS_MAX, WORDS_MAX, WORDS_PER_STEP
from wakelog.filter.sql92 import _COMPILED, _COMPILING, compile_filter, compile_in_steps
from wakelog.protocol.steps import finish


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


def test_a_filter_in_use_is_shared_and_the_latest_are_kept() -> None:
    used = compile_filter("a = 'used'")
    compile_filter("a = 'unused'")
    assert list(compile_in_steps("a = 'unused'")) == []
    for number in range(RECENT_CHARACTERS_MAX // CHARACTERS_MAX + 1):
        compile_filter(f"a = '{number}'".ljust(CHARACTERS_MAX))
    assert compile_filter("a = 'used'") is used
    assert len(_COMPILED._recent) <= RECENT_CHARACTERS_MAX // CHARACTERS_MAX + 1


def test_a_text_has_a_greatest_length_and_number_of_words() -> None:
    for text, limit, more in (
        ("a = 1".ljust(CHARACTERS_MAX), CHARACTERS_MAX, " "),
        ("NOT " + "a OR " * (WORDS_MAX // 2 - 1) + "a", WORDS_MAX, " OR a"),
    ):
        assert compile_filter(text)
        with pytest.raises(IllegalExpression, match=str(limit)):
            compile_filter(text + more)
        assert compile_filter(text + more, 2)


def test_of_equal_new_texts_one_is_compiled_and_the_others_wait() -> None:
    text = " OR ".join(f"a = 'wanted by many {number}'" for number in range(50))
    first, second, third = (compile_in_steps(text) for _ in range(3))
    next(first)
    next(second)
    next(third)
    first.close()  # its client has gone: another compiles
    found = finish(second)
    with pytest.raises(StopIteration) as end:
        next(third)
    assert end.value.value is found is compile_filter(text)
    assert not _COMPILING


def test_what_is_needed_at_once_waits_for_no_steps() -> None:
    steps = compile_in_steps("a = 'under way' OR a = 'b' OR a = 'c' OR a = 'd' OR a = 'e'")
    next(steps)
    assert compile_filter("a = 'under way' OR a = 'b' OR a = 'c' OR a = 'd' OR a = 'e'")
    steps.close()


WIDE = {
    "OR": " OR ".join(["a"] * 2_000),
    "AND": " AND ".join(f"a > {number}" for number in range(900)),
    "a long list": "a IN (" + ",".join(["'x'"] * 2_000) + ")",
    "parentheses": "(" * 2_000 + "a" + ")" * 2_000,
    "parentheses that stay open": "(" * 4_000,
    "negations": "NOT " * 3_900 + "a",
    "signs": "-" * 4_000 + "1 > a",
    "a wrong end": "a > 1 AND " * 1_000 + "b =",
    "a wrong word": "a > 1 AND " * 1_000 + "b = = c",
}


@pytest.mark.parametrize("shape", WIDE)
def test_no_step_of_compiling_is_long(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lark is asked for a few things for each word, and for a bounded number in a step."""
    counts = [0]
    feed = ParserState.feed_token

    def count(*arguments: Any, **options: Any) -> Any:
        counts[-1] += 1
        return feed(*arguments, **options)

    monkeypatch.setattr(ParserState, "feed_token", count)
    steps = compile_in_steps(WIDE[shape] + " ")
    with suppress(IllegalExpression):
        while True:
            try:
                next(steps)
            except StopIteration:
                break
            counts.append(0)
    assert max(counts[:-1]) <= WORDS_PER_STEP + 1
    assert len(counts) <= 3 * (WORDS_MAX // WORDS_PER_STEP + 1)
    assert counts[-1] <= WORDS_PER_STEP + 40  # each kind of word is tried for the text of an error
