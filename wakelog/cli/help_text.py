"""The help of a command or a group, as text of some columns."""

import shutil
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from wakelog.cli.command import HELP_NAMES, VERBATIM, Command, Group, Option
from wakelog.protocol.java import LONG_MAX, LONG_MIN

COLUMNS_MAX: Final = 78
COLUMNS_MIN: Final = 50
NAMES_COLUMNS_MAX: Final = 30
"""A longer name or option has the line to itself."""

Row = tuple[str, str]

_HELP: Final = (", ".join(HELP_NAMES), "Show this message and exit.")


def help_text(shown: Command | Group, program: str = "", columns: int = 0) -> str:
    """Return the help. program: how it is called, if not by its path."""
    columns = columns or max(COLUMNS_MIN, min(shutil.get_terminal_size().columns, COLUMNS_MAX))
    parts = [_usage(shown, program), *_paragraphs(shown.help, columns)]
    if isinstance(shown, Group):
        options = [(name, meaning) for name, (meaning, _) in shown.actions.items()]
        parts.append(_section("Options:", [*options, _HELP], columns))
        rows = [(member.name, member.summary) for member in shown.members.values()]
        parts.append(_section("Commands:", rows, columns))
    else:
        arguments = [_row(x) for x in shown.every if x.is_argument and x.meaning]
        if arguments:
            parts.append(_section("Arguments:", arguments, columns))
        rows = [_row(x) for x in shown.every if not x.is_argument]
        parts.append(_section("Options:", [*rows, _HELP], columns))
    return "\n\n".join(parts)


def _usage(shown: Command | Group, program: str) -> str:
    words = ["Usage:", program or shown.path, "[OPTIONS]"]
    if isinstance(shown, Group):
        words.append("COMMAND [ARGS]...")
    else:
        for x in shown.own:
            if x.is_argument:
                words.append(x.title if x.is_required else f"[{x.title}]")
    return " ".join(words)


def _paragraphs(text: str, columns: int) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        if paragraph.startswith(VERBATIM):
            yield textwrap.indent(paragraph.removeprefix(VERBATIM).strip(), "  ")
        else:
            yield _filled(paragraph, columns, "  ", "  ")


def _section(title: str, rows: Sequence[Row], columns: int) -> str:
    width = 4 + min(NAMES_COLUMNS_MAX, max(len(names) for names, _ in rows))
    lines = [title]
    for names, meaning in rows:
        begin = f"  {names}"
        if len(begin) + 2 > width or not meaning:
            lines.append(begin)
            begin = ""
        if meaning:
            lines.append(_filled(meaning, columns, f"{begin:{width}}", " " * width))
    return "\n".join(lines)


def _filled(text: str, columns: int, first: str, rest: str) -> str:
    """Wrap a text; two blanks within it stay."""
    lines = textwrap.wrap(
        text.replace("\n", " "),
        columns,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines)


def _row(x: Option) -> Row:
    """Return the names of an option with what it takes, and its meaning."""
    names = ", ".join(sorted(x.names, key=len)) or x.title
    if x.takes_value and not x.is_argument:
        names = f"{names} {_metavar(x)}"
    return names, meaning_text(x)


def meaning_text(x: Option) -> str:
    """Return what an option means, with its default and its bounds."""
    return "  ".join(filter(None, (x.meaning, _bounds(x))))


def _metavar(x: Option) -> str:
    if x.choices or x.kind is bool:
        return f"<{'|'.join(x.choices or ('true', 'false'))}>"
    return x.metavar or ("N" if x.kind in (int, float) else "TEXT")


def _bounds(x: Option) -> str:
    """Return what is required, the default and the bounds, in brackets."""
    parts = ["required"] if x.is_required else []
    if x.default not in (None, "") and not x.is_required and x.takes_value:
        parts.append(f"default: {str(x.default).lower() if x.kind is bool else x.default}")
    low, high = x.minimum, x.maximum
    if x.kind in (int, float) and (low, high) != (LONG_MIN, LONG_MAX):
        begin = "" if low == LONG_MIN else f"{low}<=" if high != LONG_MAX else ""
        end = f"<={high}" if high != LONG_MAX else f">={low}"
        parts.append(f"{begin}x{end}")
    return f"[{'; '.join(parts)}]" if parts else ""
