"""Lexemes of a filter expression, one at a time, as 4.9.3's lexer cuts them.

The longest match counts. A word is cut only when the parser asks for it, because an expression
ends where its grammar does: what comes after that is never looked at. Text is a sequence of UTF-16
units here, as in Java, so that columns and error texts come out the same.

    skipped     space, tab, line end, form feed; `-- ...` with its line end; `/* ... */`
    keywords    NOT AND OR BETWEEN IN TRUE FALSE NULL IS, in any case
    decimal     0, or 1-9 and digits, then perhaps l or L: 007 is three words
    float       5. 5.5 .5 5e3 5.5E-3
    string      '...', a quote inside is doubled
    identifier  a letter, _ or $, then also digits; ASCII only

Source: org.apache.rocketmq.filter.parser.SelectorParser.jj, SelectorParserTokenManager,
SimpleCharStream, TokenMgrError (4.9.3).
"""

import re
from typing import Final, NamedTuple

from wakelog.filter.errors import IllegalExpression

END: Final = "$END"
TAB_COLUMNS: Final = 8

KEYWORDS: Final = ("NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS")
SIGNS: Final = {
    "=": "EQUAL",
    "<>": "NOT_EQUAL",
    ">": "GREATER",
    ">=": "GREATER_EQUAL",
    "<": "LESS",
    "<=": "LESS_EQUAL",
    "(": "LEFT",
    ",": "COMMA",
    ")": "RIGHT",
    "+": "PLUS",
    "-": "MINUS",
}

_SKIPPED: Final = re.compile(r"[ \t\n\r\f]++|--[^\n\r]*+(?:\r\n|\n|\r)|/\*(?s:.)*?\*/")
_WORD: Final = re.compile(
    r"(?P<FLOAT>[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?"
    r"|[0-9]+[eE][+-]?[0-9]+)"
    r"|(?P<DECIMAL>0|[1-9][0-9]*[lL]?)"
    r"|(?P<STRING>'(?:''|[^'])*')"
    r"|(?P<IDENTIFIER>[A-Za-z_$][A-Za-z0-9_$]*)"
    r"|(?P<SIGN><>|>=|<=|[-=><(),+])"
)
# What the lexer was in the middle of when it met a character that fits nothing.
_BEGUN: Final = re.compile(r"'(?:''|[^'])*|/\*(?s:.)*|[/.]")
_ESCAPES: Final = {
    "\0": "",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
    '"': '\\"',
    "'": "\\'",
    "\\": "\\\\",
}


class Lexeme(NamedTuple):
    """One word: its kind, how it is written, and where it begins."""

    kind: str
    text: str
    position: int


class Lexer:
    """The words of one expression."""

    def __init__(self, expression: str) -> None:
        """Keep the text as UTF-16 units."""
        self._text = _units(expression)
        self._position = 0

    def next(self) -> Lexeme:
        """Return the next word; at the end one of the kind END. Raises: IllegalExpression."""
        position = self._position
        while (skipped := _SKIPPED.match(self._text, position)) is not None:
            position = skipped.end()
        if position == len(self._text):
            return Lexeme(END, "", position)
        found = _WORD.match(self._text, position)
        if found is None:
            raise self._lexical_error(position)
        self._position = found.end()
        kind, text = str(found.lastgroup), found[0]
        if kind == "IDENTIFIER" and text.upper() in KEYWORDS:
            kind = text.upper()
        elif kind == "SIGN":
            kind = SIGNS[text]
        return Lexeme(kind, text, position)

    def place(self, position: int) -> tuple[int, int]:
        """Return line and column, from 1, of a position; 0 and 0 for the one before the text."""
        line = column = 0
        last = ""
        for unit in self._text[: position + 1]:
            if line == 0 or last == "\n" or (last == "\r" and unit != "\n"):
                line, column = line + 1, 0
            column += 1
            if unit == "\t":
                column += TAB_COLUMNS - 1 - (column - 1) % TAB_COLUMNS
            last = unit
        return line, column

    def _lexical_error(self, position: int) -> IllegalExpression:
        begun = _BEGUN.match(self._text, position)
        end = position if begun is None else begun.end()
        image = self._text[position:end]
        line, column = self.place(min(end, len(self._text) - 1))
        # Upstream looks one character beyond the wrong one, and calls it the end if there is none.
        if end >= len(self._text) - 1:
            wrong = self._text[end:]
            if wrong in ("\n", "\r"):
                line, column = line + 1, 0
            else:
                column += 1
            image = image + wrong if len(image + wrong) > 1 else ""
            encountered = "<EOF> "
        else:
            unit = self._text[end]
            encountered = f'"{escape(unit)}" ({ord(unit)}), '
        return IllegalExpression(
            "org.apache.rocketmq.filter.parser.TokenMgrError: Lexical error at line "
            f'{line}, column {column}.  Encountered: {encountered}after : "{escape(image)}"'
        )


def unescape_string(image: str) -> str:
    """Return what a string literal means: without its quotes, doubled ones single."""
    units = image[1:-1].replace("''", "'")
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def escape(text: str) -> str:
    """Write text of UTF-16 units as upstream's error texts do."""
    return "".join(
        _ESCAPES[unit]
        if unit in _ESCAPES
        else (unit if " " <= unit <= "~" else f"\\u{ord(unit):04x}")
        for unit in text
    )


def _units(text: str) -> str:
    if text.isascii() or max(text) <= "\uffff":
        return text
    raw = text.encode("utf-16-le", "surrogatepass")
    return "".join(chr(raw[i] | raw[i + 1] << 8) for i in range(0, len(raw), 2))
