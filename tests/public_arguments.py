"""Every public callable and each of its arguments, found in signatures, and what may be given.

An argument's annotation says what it accepts. One that this module cannot judge raises LookupError:
then a line is missing in `KINDS` or in `PLAIN`.
"""

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib import import_module
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar, Union

import numpy as np
import pyarrow

from scripts.api_document import SECTIONS
from tests.client.odd_values import SURROGATE, Level, Loud, Word, bytes_of, numbers_of, texts_of


class Argument(NamedTuple):
    """One argument of a public callable; owner: its class, None for a function."""

    owner: type | None
    call: Callable[..., Any]
    name: str
    annotation: Any
    kind: Any
    is_required: bool

    def __str__(self) -> str:
        """Name it, for pytest."""
        owner = self.owner
        place = f"{owner.__module__.rpartition('.')[2]}.{owner.__name__}." if owner else ""
        return f"{place}{self.call.__name__}-{self.name}"


def public_classes() -> Iterator[type]:
    """Yield what the document shows; the blocking twins have the same signatures and pass on.

    So do the views of typed values, and a codec refuses values by its own rules.
    """
    shown = [section for title, section in SECTIONS.items() if title != "Values"]
    for documented in (each for section in shown for each in section):
        place = documented.path.removesuffix(".py").replace("/", ".")
        found = getattr(import_module(f"wakelog.{place}"), documented.name)
        if isinstance(found, type):
            yield found


def arguments_of(owner: type | None, call: Callable[..., Any]) -> Iterator[Argument]:
    """Yield the arguments; `**settings` with a TypedDict as its keys."""
    inner = inspect.unwrap(call)
    hints = typing.get_type_hints(inner, localns={"pyarrow": pyarrow})
    for name, parameter in inspect.signature(inner).parameters.items():
        annotation = hints.get(name, inspect.Parameter.empty)
        if name in ("self", "connect", "now_ms"):
            continue
        if typing.get_origin(annotation) is typing.Unpack:
            [keys] = typing.get_args(annotation)
            for key, of_key in typing.get_type_hints(keys).items():
                yield Argument(owner, call, key, of_key, inspect.Parameter.KEYWORD_ONLY, False)
            continue
        is_required = parameter.default is inspect.Parameter.empty
        is_required &= parameter.kind is not inspect.Parameter.VAR_KEYWORD
        yield Argument(owner, call, name, annotation, parameter.kind, is_required)


def methods_of(owner: type) -> Iterator[Callable[..., Any]]:
    """Yield the public methods and the constructor that a class writes itself."""
    for base in owner.__mro__:
        if not base.__module__.startswith("wakelog.client") and base is not owner:
            continue
        for name, found in vars(base).items():
            is_public = name == "__init__" or not name.startswith("_")
            if is_public and inspect.isfunction(found) and getattr(owner, name) is found:
                yield found


# What an annotation accepts


def _is_number(given: Any) -> bool:
    return hasattr(given, "__index__") and not isinstance(given, bool | np.bool_)


def _is_seconds(given: Any) -> bool:
    is_number = isinstance(given, Real) and not isinstance(given, bool | np.timedelta64)
    return is_number and given == given


KINDS: Final[Mapping[Any, Callable[[Any], bool]]] = {
    str: lambda given: isinstance(given, str),
    int: _is_number,
    float: _is_seconds,
    bool: lambda given: isinstance(given, bool),
    bytes: lambda given: isinstance(given, bytes | bytearray | memoryview),
    timedelta: lambda given: isinstance(given, timedelta),
    datetime: lambda given: isinstance(given, datetime),
    type(None): lambda given: given is None,
    Any: lambda given: isinstance(given, str),
}
"""By the parts of annotations: what may be accepted. Own classes accept their instances."""


def parts_of(annotation: Any) -> Iterator[Any]:
    """Yield the parts of a union, without what they hold. Raises: LookupError for an unknown."""
    origin = typing.get_origin(annotation)
    if isinstance(annotation, TypeVar):
        yield from parts_of(annotation.__bound__)
    elif origin in (Union, types.UnionType):
        for part in typing.get_args(annotation):
            yield from parts_of(part)
    elif origin is Literal:
        yield from map(type, typing.get_args(annotation))
    elif origin is not None:
        yield origin
    else:
        yield annotation


def accepts(annotation: Any, given: Any) -> bool:
    """Return whether an annotation lets a value in, at the outermost."""
    return any(_part_accepts(part, given) for part in parts_of(annotation))


def _part_accepts(part: Any, given: Any) -> bool:
    if part in KINDS:
        return KINDS[part](given)
    if part is inspect.Parameter.empty or not isinstance(part, type):
        raise LookupError(f"what does {part!r} accept? Add it to KINDS")
    if issubclass(part, Path | PathLike):
        return isinstance(given, PathLike)
    if part in (Iterable, Sequence, tuple):
        return isinstance(given, Iterable) and not isinstance(given, str | bytes | bytearray)
    if part is Callable or part.__name__ == "Callable":
        return callable(given)
    own = part.__module__.startswith("wakelog.") or part in (Mapping, type)
    if not own and part.__module__ != "pyarrow.lib":
        raise LookupError(f"what does {part!r} accept? Add it to KINDS")
    return False if getattr(part, "_is_protocol", False) else isinstance(given, part)


class OddPath(type(Path())):  # type: ignore[misc]
    """A path that says something else of itself."""

    def __str__(self) -> str:
        return "LOUD"


class OddSpan(timedelta):
    """A span of time that says something else of itself."""

    def __str__(self) -> str:
        return "LOUD"


class OddMoment(datetime):
    """A time that says something else of itself."""

    def __str__(self) -> str:
        return "LOUD"


def twins_of(plain: Any) -> list[Any]:
    """Return values of other classes that mean the same."""
    if isinstance(plain, bool):
        return []
    if type(plain) is str:
        return texts_of(plain)
    if type(plain) is int:
        return numbers_of(plain)
    if type(plain) is bytes:
        return bytes_of(plain)
    if type(plain) is timedelta:
        return [OddSpan(seconds=plain.total_seconds())]
    if type(plain) is datetime:
        return [OddMoment.fromtimestamp(plain.timestamp(), UTC), plain.astimezone(UTC)]
    if type(plain) is float:
        return [np.float64(plain), np.float32(plain)]
    if isinstance(plain, Path):
        return [OddPath(plain), *texts_of(str(plain))]
    return []


ODD: Final[Sequence[Any]] = [
    Word.PAID, Loud("paid"), SURROGATE, Loud(SURROGATE), "", "a\0b", "a b", "x" * 70_000,
    Level.TWO, np.int64(2), -1, 0, 1 << 31, 1 << 63, 1 << 70, True, False, np.True_,
    2.5, np.float64(2), float("nan"), float("inf"), float("-inf"), -1.0, Decimal(2), 1j,
    b"paid", b"", bytearray(b"paid"), memoryview(b"paid"), np.bytes_(b"paid"),
    timedelta(), timedelta(-1), timedelta.max, OddSpan(1), np.timedelta64(3, "s"),
    datetime.min, datetime.max, datetime(2026, 1, 2), datetime(2026, 1, 2, tzinfo=UTC),
    np.datetime64("2026-01-02"), Path("a\0b"), Path("odd"), OddPath("odd"),
    ["paid"], [], ("paid",), (), {}, {"a": "b"}, {1: 2}, {"a": SURROGATE}, [SURROGATE], [None],
    np.array([1, 2]), object(), print, type, None,
]  # fmt: skip
"""What users give by mistake, of every kind."""
