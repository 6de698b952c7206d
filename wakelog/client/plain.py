"""What users give, made plain at the door: every public argument passes one of these functions.

A subclass of `str`, `int` or `bytes` equals its plain value, and yet formats, hashes or encodes in
a way of its own: an enum `Tag.PAID` becomes the text "Tag.PAID". So inside of the client there are
plain values only. What has a plain value becomes that; all else is refused by the argument's name.

    text            str, its subclasses and enums; no lone surrogates
    whole number    int, its subclasses and enums, numpy's; no bool
    bytes           bytes, bytearray, memoryview; a text in UTF-8
    path            a text or a Path
    time span       timedelta and its subclasses; moment: datetime, local without a zone

Invariants: each function returns an object whose type is exactly the built-in one. A value that is
plain already costs one comparison of types.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from difflib import get_close_matches
from math import isnan, nan
from numbers import Real
from operator import index
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from wakelog.client.errors import InvalidArgument
from wakelog.protocol.java import LONG_MAX, LONG_MIN
from wakelog.protocol.names import is_topic
from wakelog.typed_values import convert

MILLISECOND: Final = timedelta(milliseconds=1)
SECONDS_MAX: Final = 366 * 86_400.0
"""A year: longer than any wait, and what every timer can take."""
SHOWN_MAX: Final = 200
"""Characters of a refused value that an error shows."""


StructType = TypeVar("StructType", bound=msgspec.Struct)


def not_accepted(name: str, given: object, accepted: str) -> InvalidArgument:
    """Return the error for an argument that cannot be what was given."""
    shown = _shown(given)
    return InvalidArgument(f"{name} is {shown}, which is not accepted", f"Give {accepted}")


def unknown_names(
    kind: str, unknown: Iterable[str], known: Sequence[str], *, near: Sequence[str] = ()
) -> InvalidArgument:
    """Return the error about arguments that are not there, with the nearest that are.

    kind: what the arguments are called. near: what may be meant, in place of those known.
    """
    names = sorted(unknown)
    meant = [found for name in names for found in get_close_matches(name, near or known, 1)]
    hint = f"Perhaps {', '.join(meant)}. " if meant else ""
    cause = f"unknown {kind} {', '.join(names)}"
    return InvalidArgument(cause, f"{hint}Known: {', '.join(known)}")


def _shown(given: object) -> str:
    """Return a value as an error shows it, in ASCII: a lone surrogate cannot be printed."""
    text = ascii(given) if isinstance(given, str) else repr(given)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}... ({type(given).__name__})"


def plain_text(name: str, given: object, accepted: str = "a text") -> str:
    """Return a text as a plain `str`. Raises: InvalidArgument."""
    if type(given) is str:
        text = given
    elif isinstance(given, str):
        text = str.__str__(given)  # the characters, also of an enum
    else:
        raise not_accepted(name, given, accepted)
    if not text.isascii():
        check_encodes(name, text)
    return text


def plain_topic(given: object, name: str = "topic", accepted: str = "the name of a topic") -> str:
    """Return the name of a topic as a plain text. Raises: InvalidArgument."""
    topic = plain_text(name, given, accepted)
    if not is_topic(topic):
        remedy = "Use letters, digits, %, |, _ and -"
        raise InvalidArgument(f"{name} has {topic!r}, which is no name of a topic", remedy)
    return topic


def plain_secret(name: str, given: object) -> str:
    """Return a text that no error shows. Raises: InvalidArgument."""
    if not isinstance(given, str):
        raise InvalidArgument(f"{name} is of type {type(given).__name__}", "Give a text")
    return plain_text(name, given)


def check_encodes(name: str, text: str) -> bytes:
    """Return a text in UTF-8. Raises: InvalidArgument for a lone surrogate."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        cause = f"{name} has a character that UTF-8 has not, at {error.start}"
        raise InvalidArgument(cause, "Give a text without surrogates, or bytes") from None


def plain_texts(name: str, given: object, accepted: str = "several texts") -> list[str]:
    """Return several texts. Raises: InvalidArgument, also for one text in their place."""
    if isinstance(given, str | bytes | bytearray | memoryview) or not isinstance(given, Iterable):
        raise not_accepted(name, given, accepted)
    return [plain_text(name, each, accepted) for each in given]


def plain_bytes(name: str, given: object) -> bytes:
    """Return what bytes or a text hold as plain `bytes`. Raises: InvalidArgument."""
    if type(given) is bytes:
        return given
    if isinstance(given, str):
        return check_encodes(name, str.__str__(given))
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(memoryview(given))  # what it holds, whatever its class says
    raise InvalidArgument(f"{name} is of type {type(given).__name__}", "Give bytes or a str")


def whole_number(name: str, given: object, least: int, most: int = LONG_MAX) -> int:
    """Return a whole number in a range as a plain `int`. Raises: InvalidArgument."""
    if type(given) is int and least <= given <= most:
        return given
    try:
        number = index(given)  # type: ignore[arg-type]
    except TypeError:
        number = least - 1
    if isinstance(given, bool) or number < least:
        raise not_accepted(name, given, f"a whole number of {least} or more")
    if number > most:
        raise not_accepted(name, given, f"a whole number up to {most}")
    return number


def check_kind(name: str, given: object, kind: type) -> None:
    """Check that something is of a class of wakelog. Raises: InvalidArgument."""
    if not isinstance(given, kind):
        raise not_accepted(name, given, f"a {kind.__name__}")


def plain_struct(name: str, given: StructType, kind: type[StructType]) -> StructType:
    """Return a struct of texts, numbers and flags with plain ones. Raises: InvalidArgument."""
    check_kind(name, given, kind)
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        value, place = getattr(given, field.name), f"{name}.{field.name}"
        if isinstance(field.default, bool):
            check_flags(**{place: value})
            found[field.encode_name] = value
        elif isinstance(field.default, int):
            found[field.encode_name] = whole_number(place, value, LONG_MIN)
        else:
            found[field.encode_name] = plain_text(place, value)
    try:
        return convert(found, kind)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"{name} cannot be sent: {error}", "Give a number in range") from None


def check_flags(**given: object) -> None:
    """Check options that are True or False: "no" would count as True. Raises: InvalidArgument."""
    for name, flag in given.items():
        if not isinstance(flag, bool):
            raise not_accepted(name, flag, "True or False")


def plain_path(name: str, given: object) -> Path:
    """Return a path with `~` expanded. Raises: InvalidArgument."""
    path = os.fspath(given) if isinstance(given, os.PathLike) else given
    if not isinstance(path, str) or "\0" in path or not path:
        raise not_accepted(name, given, "a Path, or a text")
    return Path(str.__str__(path)).expanduser()


def time_span(name: str, given: object) -> timedelta:
    """Return a span of time as a plain `timedelta`.

    Raises: InvalidArgument for what is none, such as a number of seconds.
    """
    if type(given) is timedelta:
        return given
    if not isinstance(given, timedelta):
        cause = f"{name} is {_shown(given)}, which is no timedelta"
        raise InvalidArgument(cause, f"Give {name}=timedelta(seconds=...)")
    return timedelta(given.days, given.seconds, given.microseconds)


def milliseconds(name: str, given: object) -> int:
    """Return the milliseconds of a time, up to the next whole one. Raises: InvalidArgument."""
    span = time_span(name, given)
    return span // MILLISECOND + bool(span % MILLISECOND)


def positive_milliseconds(name: str, given: object) -> int:
    """Return the milliseconds of a time above 0. Raises: InvalidArgument."""
    if (found := milliseconds(name, given)) <= 0:
        raise not_accepted(name, given, "a time above 0")
    return found


def delay_milliseconds(given: object) -> int:
    """Return the milliseconds of a delay. Raises: InvalidArgument, also for one below 0."""
    found = milliseconds("delay", given)
    if time_span("delay", given) < timedelta():
        raise not_accepted("delay", given, "a time of 0 or more")
    return found


def moment_milliseconds(name: str, given: object) -> int:
    """Return milliseconds since 1970 of a time, local without a zone. Raises: InvalidArgument."""
    if not isinstance(given, datetime):
        raise not_accepted(name, given, "a datetime")
    try:
        return round(given.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise not_accepted(name, given, "a time nearer to now") from None


def seconds_from_now(name: str, given: object, most: float = SECONDS_MAX) -> float:
    """Return the seconds of a time of 0 or more, which a timer can wait. Raises: InvalidArgument.

    most: infinity is not accepted in its place.
    """
    found = seconds(name, given)
    if not 0 <= found <= most:
        raise not_accepted(name, given, f"0 to {most:.0f} seconds, or such a timedelta")
    return found


def seconds(name: str, given: object) -> float:
    """Return the seconds of a time that may be given in either form. Raises: InvalidArgument."""
    if type(given) is float and given == given:
        return given
    if isinstance(given, timedelta):
        return time_span(name, given).total_seconds()
    found = nan
    if isinstance(given, Real) and not isinstance(given, bool):
        with suppress(TypeError, OverflowError):  # of numpy's timedelta64, and of 1 << 10_000
            found = float(given)
    if isnan(found):
        raise not_accepted(name, given, "seconds, or a timedelta")
    return found
