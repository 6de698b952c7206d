"""A body as text, as JSON, as hexadecimal numbers: always as text, and bounded."""

import json
from typing import Final, NamedTuple

from wakelog.client.message_filter import begin_of
from wakelog.client.received import ReceivedMessage
from wakelog.console.views.messages import visible
from wakelog.protocol.sys_flag import MESSAGE_COMPRESSED

TEXT_BYTES_MAX: Final = 64 << 10
JSON_BYTES_MAX: Final = 256 << 10
HEX_BYTES_MAX: Final = 4 << 10
SHOWN_LENGTH_MAX: Final = 256 << 10
HEX_WIDTH: Final = 16
DEPTH_MAX: Final = 40
"""Of JSON: each level adds to the begin of every line in it."""

TEXT, JSON, HEX, STORED = "text", "json", "hex", "stored"
TABS: Final = ((TEXT, "Text"), (JSON, "JSON"), (HEX, "Hex"), (STORED, "As stored"))


class BodyShown(NamedTuple):
    """A body in one form. said: what a reader should know of it, "" for nothing."""

    tab: str
    text: str
    said: str
    is_compressed: bool


def body_of(message: ReceivedMessage, wanted: str) -> BodyShown:
    """Return a body in the wanted form; without one, as JSON if it is that, else as text."""
    is_compressed = bool(message.record.sys_flag & MESSAGE_COMPRESSED)
    if wanted == STORED:
        stored = bytes(message.record.body)
        said = _cut_text(HEX_BYTES_MAX, is_cut=len(stored) > HEX_BYTES_MAX)
        return BodyShown(STORED, hex_text(stored[:HEX_BYTES_MAX]), said, is_compressed)
    body = begin_of(message, JSON_BYTES_MAX + 1)
    if wanted == HEX:
        said = _cut_text(HEX_BYTES_MAX, is_cut=len(body) > HEX_BYTES_MAX)
        return BodyShown(HEX, hex_text(body[:HEX_BYTES_MAX]), said, is_compressed)
    if wanted == JSON or (not wanted and body[:1] in (b"{", b"[")):
        pretty, reason = json_text(body)
        if pretty is not None:
            is_cut = len(pretty) > SHOWN_LENGTH_MAX
            said = f"the first {SHOWN_LENGTH_MAX:,} characters are shown" if is_cut else ""
            return BodyShown(JSON, visible(pretty[:SHOWN_LENGTH_MAX]), said, is_compressed)
        if wanted == JSON:
            return BodyShown(JSON, "", f"it is no JSON: {reason}", is_compressed)
    said = _cut_text(TEXT_BYTES_MAX, is_cut=len(body) > TEXT_BYTES_MAX)
    text = body[:TEXT_BYTES_MAX].decode(errors="backslashreplace")
    return BodyShown(TEXT, visible(text), said, is_compressed)


def json_text(body: bytes) -> tuple[str | None, str]:
    """Return JSON with one value a line, or None with why it is none."""
    if len(body) > JSON_BYTES_MAX:
        return None, f"it has more than {JSON_BYTES_MAX:,} bytes"
    try:
        value = json.loads(body, parse_int=str_number, parse_float=str_number)
        return _pretty(value), ""
    except RecursionError:
        return None, "it is nested too deep"
    except ValueError as error:
        return None, str(error)


class _Number(float):
    """A number that is written as it stood there, with all of its digits."""

    text: str

    def __repr__(self) -> str:
        return self.text


def str_number(text: str) -> _Number:
    """Return a number that keeps its digits."""
    number = _Number(0)
    number.text = text
    return number


def _pretty(value: object, depth: int = 0) -> str:
    """Write a value; the standard writer would round numbers."""
    if depth > DEPTH_MAX:
        raise RecursionError
    pad, end = "  " * (depth + 1), "  " * depth
    if isinstance(value, _Number):
        return value.text
    if isinstance(value, dict) and value:
        inner = (
            f"{pad}{json.dumps(x, ensure_ascii=False)}: {_pretty(y, depth + 1)}"
            for x, y in value.items()
        )
        return "{\n" + ",\n".join(inner) + f"\n{end}}}"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(pad + _pretty(x, depth + 1) for x in value) + f"\n{end}]"
    return json.dumps(value, ensure_ascii=False)


def hex_text(body: bytes) -> str:
    """Return bytes as lines of offset, numbers, and characters."""
    lines = []
    for at in range(0, len(body), HEX_WIDTH):
        part = body[at : at + HEX_WIDTH]
        seen = "".join(chr(each) if 32 <= each < 127 else "." for each in part)
        lines.append(f"{at:06x}  {part.hex(' '):<{3 * HEX_WIDTH}} {seen}")
    return "\n".join(lines)


def _cut_text(bytes_max: int, *, is_cut: bool) -> str:
    return f"the first {bytes_max:,} bytes are shown; download it for all" if is_cut else ""
