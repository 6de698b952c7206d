"""Values that users give in the place of plain ones: equal to them, or nearly."""

from enum import Enum, IntEnum, StrEnum
from typing import Any, Final

import numpy as np


class Tag(str, Enum):  # noqa: UP042 - its format is not its text
    PAID = "paid"
    ORDERS = "orders"


class Word(StrEnum):
    PAID = "paid"
    ORDERS = "orders"


class Loud(str):
    """A text that says something else of itself."""

    def __str__(self) -> str:
        return "LOUD"

    def __format__(self, spec: str) -> str:
        return "LOUD"

    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        return False


class Level(IntEnum):
    TWO = 2


class Number(int):
    """A number that says something else of itself."""

    def __str__(self) -> str:
        return "LOUD"

    def __format__(self, spec: str) -> str:
        return "LOUD"


class Octets(bytes):
    """Bytes that say something else of themselves."""

    def __len__(self) -> int:
        return 0

    def __bytes__(self) -> bytes:
        return b"LOUD"


SURROGATE: Final = "a\ud800"


def texts_of(text: str) -> list[Any]:
    """Return what counts as a text, and is no plain one."""
    found: list[Any] = [Loud(text), np.str_(text), Enum("One", {"x": text}, type=str).x]  # type: ignore[attr-defined]
    return [*found, StrEnum("Two", {"x": text}).x]  # type: ignore[attr-defined]


def numbers_of(number: int) -> list[Any]:
    """Return what counts as a whole number, and is no plain one."""
    found: list[Any] = [Number(number), np.int64(number), np.int32(number)]
    return [*found, IntEnum("Three", {"x": number}).x]  # type: ignore[attr-defined]


def bytes_of(body: bytes) -> list[Any]:
    """Return what counts as bytes, and is no plain one."""
    return [Octets(body), bytearray(body), memoryview(body), np.bytes_(body)]


REFUSED_AS_TEXT: Final[list[Any]] = [
    b"paid", bytearray(b"paid"), 7, True, float("nan"), np.int64(7), Level.TWO, SURROGATE,
    Loud(SURROGATE), ["paid"], {}, object(), Enum("Bare", {"x": "paid"}).x,  # type: ignore[attr-defined]
]  # fmt: skip
"""None is left out: it may stand for no text."""

REFUSED_AS_NUMBER: Final[list[Any]] = [
    True, np.True_, float("nan"), 2.0, np.float64(2), "2", b"2", Word.PAID, [2], object(), 1 << 70,
]  # fmt: skip
