"""Lexemes, their places, and what is none."""

import pytest

from wakelog.filter.errors import IllegalExpression
from wakelog.filter.tokens import END, Lexer, escape, unescape_string


def cut(text: str) -> list[tuple[str, str]]:
    words = Lexer(text)
    found = []
    while (word := words.next()).kind != END:
        found.append((word.kind, word.text))
    return found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a>=5", [("IDENTIFIER", "a"), ("GREATER_EQUAL", ">="), ("DECIMAL", "5")]),
        ("nOt NOTE", [("NOT", "nOt"), ("IDENTIFIER", "NOTE")]),
        ("007", [("DECIMAL", "0"), ("DECIMAL", "0"), ("DECIMAL", "7")]),
        ("00.5 5. .5e3", [("FLOAT", "00.5"), ("FLOAT", "5."), ("FLOAT", ".5e3")]),
        ("5e", [("DECIMAL", "5"), ("IDENTIFIER", "e")]),
        ("0L5l", [("DECIMAL", "0"), ("IDENTIFIER", "L5l")]),
        ("'it''s'", [("STRING", "'it''s'")]),
        ("a /* ** */-- x\r\nb", [("IDENTIFIER", "a"), ("IDENTIFIER", "b")]),
        ("-- x", [("MINUS", "-"), ("MINUS", "-"), ("IDENTIFIER", "x")]),
        ("--x", [("MINUS", "-"), ("MINUS", "-"), ("IDENTIFIER", "x")]),
        (" \t--x\n/*/ * **//**/\f--\r-", [("MINUS", "-")]),
    ],
)
def test_the_longest_word_counts(text: str, words: list[tuple[str, str]]) -> None:
    assert cut(text) == words


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a # b", 'line 1, column 3.  Encountered: "#" (35), after : ""'),
        ("#", 'line 1, column 2.  Encountered: <EOF> after : ""'),
        ("a /* * /", 'line 1, column 9.  Encountered: <EOF> after : "/* * /"'),
        ("'abc", 'line 1, column 5.  Encountered: <EOF> after : "\\\'abc"'),
        ("a > .x y", 'line 1, column 6.  Encountered: "x" (120), after : "."'),
        ("\n\t\u00e9 = 1", 'line 2, column 9.  Encountered: "\\u00e9" (233), after : ""'),
        ("\U0001f600 = 1", 'line 1, column 1.  Encountered: "\\ud83d" (55357), after : ""'),
    ],
)
def test_what_is_no_word_is_reported_with_its_place(text: str, error: str) -> None:
    with pytest.raises(IllegalExpression) as caught:
        cut(text)
    assert caught.value.remark.endswith(f"TokenMgrError: Lexical error at {error}")


def test_places_count_lines_and_tabs() -> None:
    words = Lexer("a\tb\r\nc")
    assert [words.place(position) for position in (0, 1, 2, 4, 5)] == [
        (1, 1),
        (1, 8),
        (1, 9),
        (1, 11),
        (2, 1),
    ]
    assert Lexer("").place(-1) == (0, 0)


def test_a_string_keeps_characters_beyond_the_first_plane() -> None:
    (word,) = cut("'\U0001f600''s'")
    assert unescape_string(word[1]) == "\U0001f600's"


def test_error_texts_are_escaped() -> None:
    assert escape("a\"'\\\n\u00e9\0") == "a\\\"\\'\\\\\\n\\u00e9"
