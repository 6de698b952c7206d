"""What commands put out: text for people, or objects of JSON, one a line.

A table has mqadmin's columns; those of `cluster/output.py` are as wide as their cells. Its rows are
the objects.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, repeat
from typing import Any, Final, NamedTuple, Protocol

_CELL: Final = re.compile(r"%([-0]*)(\d*)(?:\.\d+)?[dfs]")


class Table(NamedTuple):
    """Rows under heads. `layout` is the format of one line, in C's manner."""

    layout: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Any]]
    shows_heads: bool = True

    def lines(self) -> Iterator[str]:
        """Yield the heads and each row as text."""
        if self.shows_heads:
            texts = _CELL.sub(lambda found: f"%{found[1].strip('0')}{found[2]}s", self.layout)
            yield texts % tuple(f"#{head}" for head in self.heads)
        for row in self.rows:
            yield self.layout % tuple(row)

    def values(self) -> Iterator[dict[str, Any]]:
        """Yield each row by the names of the heads, in camel case."""
        return named_values(self.heads, self.rows)


class Text(NamedTuple):
    """A text of one or more lines, and the value that it stands for: none if it is empty.

    A value with an empty text is for JSON alone; without a value that is an empty line.
    """

    text: str
    value: dict[str, Any]

    def lines(self) -> Iterator[str]:
        """Yield the text, if it is one."""
        if self.text or not self.value:
            yield self.text

    def values(self) -> Iterator[dict[str, Any]]:
        """Yield the value, if there is one."""
        if self.value:
            yield self.value


class Output(Protocol):
    """One part of what a command puts out."""

    def lines(self) -> Iterator[str]:
        """Yield it as text."""
        ...

    def values(self) -> Iterator[dict[str, Any]]:
        """Yield it as objects of JSON."""
        ...


def show(output: Output, say: Callable[[str], None], *, as_json: bool) -> None:
    """Put out one part of a command's result."""
    if as_json:
        for value in output.values():
            say(json.dumps(value, ensure_ascii=False))
    else:
        for line in output.lines():
            say(line)


def aligned(rows: Sequence[Sequence[str]], to_right: Sequence[bool] = ()) -> Iterator[str]:
    """Yield rows in columns as wide as their widest cell; a column without a text is left out."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, widths, chain(to_right, repeat(False)), strict=False)
        texts = (x.rjust(width) if right else x.ljust(width) for x, width, right in cells if width)
        yield "  ".join(texts).rstrip()


def named_values(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Yield each row by the names of its heads, in camel case."""
    names = [camel(head) for head in heads]
    for row in rows:
        yield dict(zip(names, row, strict=True))


def camel(head: str) -> str:
    """Return a name as JSON has it: `queue_offset` and `Queue Offset` are `queueOffset`."""
    first, *rest = (str(word) for word in re.findall(r"[A-Za-z0-9]+", head.partition("(")[0]))
    if first.isupper():
        first = first.lower()
    return first[:1].lower() + first[1:] + "".join(word[:1].upper() + word[1:] for word in rest)
