"""Elements of HTML and SVG, from names, attributes and children.

Text is escaped unless it is `Markup`, so that a topic called `<b>` is shown as that.

Invariants: what is made is well-formed XML, every element is closed.
"""

from __future__ import annotations

from html import escape

_VOID = frozenset({"meta"})
"""Elements of HTML that have no end; others need one, however empty."""
_BREAKS = {code: "\ufffd" for code in range(32) if chr(code) not in "\t\n\r"}
"""Characters that no document may hold, not even escaped."""


class Markup(str):
    """Text that is markup already."""


def element(name: str, /, *children: str, **attributes: str | int | float) -> Markup:
    """Return an element. A trailing `_` of an attribute's name is dropped, others become `-`."""
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(_number(value))}"'
        for key, value in attributes.items()
    )
    inner = "".join(text(child) for child in children)
    return Markup(f"<{name}{words}/>" if name in _VOID else f"<{name}{words}>{inner}</{name}>")


def text(value: str) -> Markup:
    """Return text as markup that shows it."""
    return value if isinstance(value, Markup) else Markup(escape(value.translate(_BREAKS)))


def joined(*parts: Markup) -> Markup:
    """Return parts behind one another."""
    return Markup("".join(parts))


def _number(value: str | int | float) -> str:
    """Write a place in a picture to a tenth of a point, which nobody sees."""
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
