"""Sentences of docstrings and documents, and how many words each has.

What is counted is running text. Tables, code, drawings, headings and lists of names are left out:
a line is one of them when it is indented, fenced, holds a column gap or a `|`.

A sentence ends at a full stop, a question mark or an exclamation mark before a blank, and at
the end of its paragraph or list item. A word is what stands between blanks and has a letter or a
digit in it; a span of code in backticks is one word.
"""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

SENTENCE_WORDS_MAX = 30
AVERAGE_WORDS_MAX = 18.0

_FENCE = re.compile(r"^\s*(```|~~~)")
_ITEM = re.compile(r"^\s*([-*+]|\d+[.)])\s+")
_GAP = re.compile(r"\S {2,}\S")
_END = re.compile(r"(?<=[.?!])[\"')\]*_`]*\s+")
_CODE = re.compile(r"`[^`]*`")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_LABEL = re.compile(r"^[a-z_][\w, *]*: ")  # an argument's name in a docstring


class Sentence(NamedTuple):
    """One sentence: the line its paragraph begins at, and its text."""

    line: int
    text: str

    @property
    def word_count(self) -> int:
        """How many words it has."""
        plain = _CODE.sub("code", _LINK.sub(r"\1", self.text))
        return sum(any(letter.isalnum() for letter in word) for word in plain.split())


def docstring_sentences(tree: ast.Module) -> Iterator[Sentence]:
    """Yield the sentences of every docstring, attribute docstrings included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            text = node.value.value
            if isinstance(text, str):
                yield from _sentences(text, node.lineno, indent_max=node.col_offset)


def document_sentences(text: str) -> Iterator[Sentence]:
    """Yield the sentences of a Markdown document."""
    yield from _sentences(text, 1, indent_max=0)


def _sentences(text: str, first_line: int, *, indent_max: int) -> Iterator[Sentence]:
    for line, paragraph in _paragraphs(text, first_line, indent_max):
        for part in _END.split(_LABEL.sub("", paragraph)):
            if part.strip():
                yield Sentence(line, part.strip())


def _paragraphs(text: str, first_line: int, indent_max: int) -> Iterator[tuple[int, str]]:
    """Yield the first line's number and the joined lines of each paragraph or list item."""
    begin, lines, is_fenced, item_indent = first_line, list[str](), False, -1
    for number, line in enumerate(text.splitlines(), first_line):
        indent = len(line) - len(line.lstrip())
        item = _ITEM.match(line)
        is_text = indent <= indent_max or 0 <= item_indent < indent or item is not None
        if _FENCE.match(line):
            is_fenced, is_text = not is_fenced, False
        if is_fenced or not line.strip() or "|" in line or line.lstrip().startswith("#"):
            is_text = False
        bare = line[item.end() :] if item else line.strip()
        if _GAP.search(bare):
            is_text = False
        if item is not None or not is_text or _LABEL.match(bare):
            if lines:
                yield begin, " ".join(lines)
            begin, lines = number, []
            item_indent = indent if item else item_indent if line.strip() and is_text else -1
        if is_text:
            if not lines:
                begin = number
            lines.append(bare)
    if lines:
        yield begin, " ".join(lines)
