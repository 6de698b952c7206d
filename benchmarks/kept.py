"""Results in JSON files, one row a line, so that a new measurement is a short difference to read.

A result that is measured again replaces the older one of the same key.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from wakelog.typed_values import decode_json

RESULTS = Path(__file__).parent / "results"


class Kept(Protocol):
    """A result."""

    @property
    def key(self) -> tuple[str | int, ...]:
        """What it is the only one of."""


KeptT = TypeVar("KeptT", bound=Kept)


def read_kept(path: Path, kind: type[KeptT]) -> list[KeptT]:
    """Return what is kept, in order; nothing without a file."""
    if not path.exists():
        return []
    return sorted(decode_json(path.read_bytes(), list[kind]), key=_key)  # type: ignore[valid-type]


def keep(path: Path, result: KeptT) -> None:
    """Keep a result instead of the one of the same key."""
    kept = {one.key: one for one in read_kept(path, type(result))} | {result.key: result}
    lines = [msgspec.json.encode(kept[key]).decode() for key in sorted(kept)]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def row_lines(document: Mapping[str, Any]) -> str:
    """Return a document as JSON, one line for each row, side or figure.

    The entries of the document stand on lines of their own, and so do those of an entry that holds
    further objects or lists. Everything deeper stays on the line.
    """
    return _open("{", "}", [f"{json.dumps(key)}: {_entry(document[key])}" for key in document])


def _entry(value: Any) -> str:
    if isinstance(value, dict) and any(isinstance(one, dict | list) for one in value.values()):
        return _open("{", "}", [f"{json.dumps(key)}: {_compact(value[key])}" for key in value])
    if isinstance(value, list) and any(isinstance(one, dict | list) for one in value):
        return _open("[", "]", [_compact(one) for one in value])
    return _compact(value)


def _open(begin: str, end: str, lines: Sequence[str]) -> str:
    return begin + "\n" + ",\n".join(lines) + "\n" + end


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _key(result: Kept) -> tuple[str | int, ...]:
    return result.key
