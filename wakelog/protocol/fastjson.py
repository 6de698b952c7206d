"""JSON in the dialect of fastjson 1.2.76, which RocketMQ's bodies and configuration files use.

Two things in it are not JSON. Map keys that are numbers are unquoted, `{0:5,1:7}`. Map keys that
are objects are written as objects, `{{"queueId":0,"topic":"T"}:{...}}`. Reading accepts them and
ordinary JSON. Writing produces them, leaves null values out, and writes the fields of a Struct in
alphabetical order, which is the order of Java's beans.

    grammar of what is read beyond JSON:
    key    = string | name | number | object      (an object used as key holds scalars only)
    name   = letters, digits, `_` and `$`, the first no digit
    string = as in JSON or between single quotes, and control characters may stand unescaped
    a comma may follow the last part of an object or an array; a byte order mark may come first

A key that is an object is read as a tuple of (name, value) pairs, which can be a key in Python too.
A number is read as an int or float. Malformed text is read as in Java: bytes that are not UTF-8
become replacement characters, and half of a surrogate pair becomes a question mark.

msgspec reads ordinary JSON, some 50 times as fast. Only what it refuses is read by the reader of
this file, in steps, and then no more than a number of entries: the members of all objects and
arrays.

Invariants: `loads` returns or raises ValueError, in time that grows with the text, with nesting of
the dialect up to DEPTH_MAX. The strings that it returns can be written as UTF-8.

Source: com.alibaba.fastjson.JSON as called by
org.apache.rocketmq.remoting.protocol.RemotingSerializable (4.9.3)
"""

import codecs
import re
from collections.abc import Iterable, Mapping
from functools import cache
from math import isinf
from typing import Any, Final

import msgspec

from wakelog.protocol.steps import Steps, finish

DEPTH_MAX: Final = 32
"""The deepest body of 4.9.3 has 6 levels; the limit keeps a hostile body off the stack."""

ENTRIES_MAX: Final = 4_096
"""Of a body in the dialect: 1,024 queues as keys, as many as the largest topic that 4.9.3 creates
itself has. The slow reader takes some 3 us for each."""

CHARACTERS_MAX: Final = 262_144
"""Of a body in the dialect, with names of 255 characters. An escape takes 0.1 us."""

RESPONSE_ENTRIES_MAX: Final = 1_000_000
"""Of a response, whose caller chose its peer: the offsets of over 100,000 queues, read in 3 s."""

PARTS_MAX: Final = 8_192
"""Of a text that is written: some 0.3 ms to join and to free them."""

FILE_ENTRIES_MAX: Final = 8_000_000
"""Of a file: the offsets of 1,000,000 queues and more. Who writes the files runs the broker."""

ENTRIES_PER_STEP: Final = 128
"""Some 0.4 ms."""

ESCAPES_PER_STEP: Final = 1_024
"""Some 0.4 ms, if they are not those of JSON."""

_BYTES_PER_STEP: Final = 65_536
"""Of a text that is not UTF-8; replacing a byte takes 8 ns."""

_DIGITS_MAX: Final = 40  # a long has 19 digits; more only costs time

_SPACE = re.compile(r"[ \t\n\r]*")
# A lone backslash at the end is no escape; no quote follows it, so nothing matches.
_STRINGS: Final = {
    quote: re.compile(rf"{quote}([^{quote}\\]*+(?:\\.?+[^{quote}\\]*+)*+){quote}", re.DOTALL)
    for quote in "\"'"
}
_COMPOSED: Final = frozenset("\"'{[")
_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*+")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_NUMBER = re.compile(r"-?[0-9]++(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")
_WORD = re.compile(r"true|false|null")

_PLAIN: Final = msgspec.json.Encoder(order="sorted")

_WORDS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}
_ESCAPES: Final = {
    '"': '"',
    "\\": "\\",
    "/": "/",
    "'": "'",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "0": "\0",
}


def loads(data: bytes | bytearray | memoryview | str, *, entries_max: int = ENTRIES_MAX) -> Any:
    """Read one value at once; bytes are UTF-8.

    entries_max: how many entries a text may have that is not ordinary JSON.

    Raises:
        ValueError: if it is not JSON in this dialect, nested too deep, or has too many entries.
    """
    return finish(loads_in_steps(data, entries_max=entries_max))


def loads_in_steps(
    data: bytes | bytearray | memoryview | str, *, entries_max: int = ENTRIES_MAX
) -> Steps[Any]:
    """Read one value; no step if it is ordinary JSON. Raises: ValueError as `loads`."""
    text = data if isinstance(data, str) else (yield from _text(data))
    text = text.removeprefix("\ufeff")
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        if len(text) > CHARACTERS_MAX and entries_max == ENTRIES_MAX:
            raise ValueError(f"malformed JSON of more than {CHARACTERS_MAX} characters") from None
        reader = _Reader(text, entries_max)
    value = yield from reader.value(0)
    reader.end()
    return value


def _text(data: bytes | bytearray | memoryview) -> Steps[str]:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        view, parts = memoryview(data), []
        for begin in range(0, len(view), _BYTES_PER_STEP):
            if begin:
                yield
            parts.append(decoder.decode(view[begin : begin + _BYTES_PER_STEP]))
        return "".join(parts) + decoder.decode(b"", final=True)


def to_long(value: Any) -> int:
    """Return a number that was read, or the text of one, as Java's long. Raises: ValueError."""
    number = int(value)
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"a number of {number.bit_length()} bits is no number of 64 bits")
    return number


def dumps(value: object, *, pretty: bool = False) -> bytes:
    """Write a value: None, bool, int, float, str, Struct, mapping, list, tuple or set.

    Args:
        pretty: use the layout of 4.9.3's configuration files, with tabs.
    """
    parts = _Parts()
    _write(value, parts, indent=0 if pretty else None)
    return parts.text()


class _Parts(list[str]):
    """The last parts of a text; those before them are joined, some thousand at a time.

    A list of a million strings takes 40 ms to free, and no other thread has the interpreter then.
    """

    def __init__(self) -> None:
        super().__init__()
        self._joined: list[bytes] = []

    def join_some(self) -> None:
        """Join what there is."""
        self._joined.append("".join(self).encode("utf-8"))
        self.clear()

    def text(self) -> bytes:
        """Return the whole text."""
        self.join_some()
        return b"".join(self._joined)


class _Reader:
    """A cursor over one text."""

    def __init__(self, text: str, entries_max: int) -> None:
        self.text = text
        self.position = 0
        self._entries_max = entries_max
        self._entries_count = 0

    def end(self) -> None:
        if self._peek():
            raise self._error("text after the value")

    def value(self, depth: int) -> Steps[Any]:
        first = self._peek()
        if first in _COMPOSED:
            return (yield from self._composed(first, depth))
        return self._word_or_number()

    def _composed(self, first: str, depth: int) -> Steps[Any]:
        """Read what may have many entries or escapes."""
        if first == "{":
            return (yield from self._object(depth + 1))
        if first == "[":
            return (yield from self._array(depth + 1))
        content = self._string(first)
        return (yield from self._unescape(content)) if "\\" in content else content

    def _word_or_number(self) -> Any:
        word = _WORD.match(self.text, self.position)
        if word is not None:
            self.position = word.end()
            return _WORDS[word.group()]
        return self._number()

    def _object(self, depth: int) -> Steps[dict[Any, Any]]:
        result: dict[Any, Any] = {}
        if self._opened_empty("}", depth):
            return result
        while True:
            key = yield from self._key(depth)
            if self._peek() != ":":
                raise self._error("no colon after a key")
            self.position += 1
            first = self._peek()
            result[key] = (
                (yield from self._composed(first, depth))
                if first in _COMPOSED
                else self._word_or_number()
            )
            if self._ends_step():
                yield
            if self._closed_by("}"):
                return result

    def _array(self, depth: int) -> Steps[list[Any]]:
        result: list[Any] = []
        if self._opened_empty("]", depth):
            return result
        while True:
            first = self._peek()
            result.append(
                (yield from self._composed(first, depth))
                if first in _COMPOSED
                else self._word_or_number()
            )
            if self._ends_step():
                yield
            if self._closed_by("]"):
                return result

    def _key(self, depth: int) -> Steps[object]:
        first = self._peek()
        if first not in _COMPOSED or first == "[":
            return self._name() or self._number()
        if first != "{":
            return (yield from self._composed(first, depth))
        pairs = yield from self._object(depth + 1)
        if any(isinstance(part, dict | list | tuple) for pair in pairs.items() for part in pair):
            raise self._error("an object used as a key holds more than scalars")
        return tuple(pairs.items())

    def _opened_empty(self, closing: str, depth: int) -> bool:
        if depth > DEPTH_MAX:
            raise self._error(f"more than {DEPTH_MAX} levels")
        self.position += 1
        if self._peek() != closing:
            return False
        self.position += 1
        return True

    def _closed_by(self, closing: str) -> bool:
        mark = self._peek()
        if mark == ",":
            self.position += 1
            mark = self._peek()
            if mark != closing:
                return False
        elif mark != closing:
            raise self._error("no comma or closing bracket")
        self.position += 1
        return True

    def _ends_step(self) -> bool:
        """Count an entry, and return whether it is the last of a step."""
        self._entries_count += 1
        if self._entries_count > self._entries_max:
            raise self._error(f"more than {self._entries_max} entries")
        return not self._entries_count % ENTRIES_PER_STEP

    def _name(self) -> str | None:
        match = _NAME.match(self.text, self.position)
        if match is None:
            return None
        self.position = match.end()
        return match.group()

    def _string(self, quote: str) -> str:
        match = _STRINGS[quote].match(self.text, self.position)
        if match is None:
            raise self._error("a string without its end")
        self.position = match.end()
        return match.group(1)

    def _unescape(self, content: str) -> Steps[str]:
        try:
            return str(msgspec.json.decode(f'"{content}"'))
        except ValueError:
            pass  # it has escapes of the dialect, a quote, a control character, or half a pair
        parts: list[str] = []
        end = 0
        try:
            for number, match in enumerate(_ESCAPE.finditer(content), 1):
                parts += content[end : match.start()], _unescape_one(match)
                end = match.end()
                if not number % ESCAPES_PER_STEP:
                    yield
            units = "".join(parts) + content[end:]
            # A character above U+FFFF is escaped as two units. For a unit without its other half,
            # Java writes a question mark.
            paired = units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
            return paired.encode("utf-8", "replace").decode("utf-8")
        except KeyError:
            raise self._error("an unknown escape") from None

    def _number(self) -> int | float:
        match = _NUMBER.match(self.text, self.position)
        if match is None or match.end() - match.start() > _DIGITS_MAX:
            raise self._error("no value")
        self.position = match.end()
        digits = match.group()
        number = int(digits) if digits.removeprefix("-").isdigit() else float(digits)
        if isinf(number):
            raise self._error("a number that is too large")
        return number

    def _peek(self) -> str:
        match = _SPACE.match(self.text, self.position)
        assert match is not None
        self.position = match.end()
        return self.text[self.position : self.position + 1]

    def _error(self, reason: str) -> ValueError:
        return ValueError(f"malformed JSON at character {self.position}: {reason}")


def _unescape_one(match: re.Match[str]) -> str:
    escape = match.group(1)
    return chr(int(escape[1:], 16)) if len(escape) == 5 else _ESCAPES[escape]


def _write(value: object, parts: _Parts, indent: int | None) -> None:
    if isinstance(value, str):
        parts.append(_string_text(value))
    elif indent is None and isinstance(value, msgspec.Struct) and _is_plain(type(value)):
        parts.append(_PLAIN.encode(value).decode())
    elif value is None or isinstance(value, bool):
        parts.append(_word_text(value))
    elif isinstance(value, int):
        parts.append(str(int(value)))
    elif isinstance(value, float):
        parts.append(repr(value) if abs(value) < float("inf") else "null")
    elif isinstance(value, Mapping):
        _write_object(value.items(), parts, indent)
    elif isinstance(value, msgspec.Struct):
        _write_object(_bean_fields(value), parts, indent)
    elif isinstance(value, list | tuple | set | frozenset):
        _write_array(value, parts, indent)
    else:
        raise TypeError(f"{type(value).__name__} has no JSON form")


def _write_object(
    fields: Iterable[tuple[object, object]], parts: _Parts, indent: int | None
) -> None:
    inner = None if indent is None else indent + 1
    separator = "{"
    empty = True
    for key, value in fields:
        if value is None:
            continue
        if len(parts) > PARTS_MAX:
            parts.join_some()
        parts.append(separator)
        separator = ","
        empty = False
        if isinstance(key, str):
            # 4.9.3's pretty form breaks the line only before a key that is a string.
            parts.append(_line_break(inner))
            parts.append(_string_text(key))
        else:
            _write_key(key, parts)
        parts.append(":")
        _write(value, parts, inner)
    parts.append("{}" if empty else _line_break(indent) + "}")


def _write_array(values: Iterable[object], parts: _Parts, indent: int | None) -> None:
    parts.append("[")
    for index, value in enumerate(values):
        if len(parts) > PARTS_MAX:
            parts.join_some()
        if index:
            parts.append(",")
        _write(value, parts, indent)
    parts.append("]")


def _write_key(key: object, parts: _Parts) -> None:
    if isinstance(key, tuple):
        _write_object(key, parts, None)
    else:
        _write(key, parts, None)


def _bean_fields(bean: msgspec.Struct) -> list[tuple[object, object]]:
    return [(name, getattr(bean, attribute)) for name, attribute in _bean_names(type(bean))]


@cache
def _is_plain(bean_type: type[msgspec.Struct]) -> bool:
    """Return whether JSON of a bean's fields is fastjson's, so that msgspec can write it."""
    plain = (msgspec.inspect.StrType, msgspec.inspect.IntType, msgspec.inspect.BoolType)
    info = msgspec.inspect.type_info(bean_type)
    assert isinstance(info, msgspec.inspect.StructType)
    return not info.array_like and all(isinstance(field.type, plain) for field in info.fields)


@cache
def _bean_names(bean_type: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    pairs = zip(bean_type.__struct_encode_fields__, bean_type.__struct_fields__, strict=True)
    return tuple(sorted(pairs))


def _string_text(text: str) -> str:
    return msgspec.json.encode(text).decode("utf-8")


def _word_text(value: bool | None) -> str:
    if value is None:
        return "null"
    return "true" if value else "false"


def _line_break(indent: int | None) -> str:
    return "" if indent is None else "\n" + "\t" * indent
