"""Results one a line in a JSON file: what is measured again takes the place of the older."""

from pathlib import Path
from typing import Protocol, TypeVar

import msgspec


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
    return sorted(msgspec.json.decode(path.read_bytes(), type=list[kind]), key=_key)  # type: ignore[valid-type]


def keep(path: Path, result: KeptT) -> None:
    """Keep a result instead of the one of the same key."""
    kept = {one.key: one for one in read_kept(path, type(result))} | {result.key: result}
    lines = [msgspec.json.encode(kept[key]).decode() for key in sorted(kept)]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def _key(result: Kept) -> tuple[str | int, ...]:
    return result.key
