"""What a crash may leave of a disk: images from a journal, under two persistence models.

    strict POSIX    every pending piece may be there or not, whatever came before it: sectors of a
                    write, a file's new length, each name. A length without its data shows
                    bytes of another life. A sync of a file says nothing about its name.
    ext4, ordered   names and lengths go through one journal: of those pending some front part is
                    there. A length that data made is there with the data. A sync of a file takes
                    along what the journal holds up to that file's last entry.

In both, data inside a file's length is torn at sectors in any order, a rename is one step, and
what was synced stays. `Platter` walks a journal and knows at each place what is durable and what
is pending; `candidates` draws subsets of the latter; `image` applies one.

Source: abstract persistence models as in Pillai et al., "All File Systems Are Not Created Equal"
(OSDI 2014); ordered mode as the ext4 documentation has it.
"""

import enum
from collections.abc import Iterator
from copy import copy
from functools import lru_cache
from hashlib import blake2b
from random import Random
from typing import Final, NamedTuple

from tests.simulation.disk import Image, parent
from tests.simulation.faults import SECTOR_BYTES
from tests.simulation.journal import (
    Linked,
    LostPages,
    MadeDirectory,
    Mark,
    Operation,
    RemovedDirectory,
    Renamed,
    Resized,
    Synced,
    SyncedDirectory,
    Unlinked,
    Wrote,
)

STALE = b"\xdb"
"""What a length without its data shows under the strict model."""

DIGEST_BYTES = 16
EXHAUSTIVE_UNITS_MAX = 5
RANDOM_SUBSETS = 8

# Where the fields of a record's head begin: a write may end at any of them.
RECORD_FIELDS = (4, 8, 12, 16, 20, 28, 36, 40, 48, 56, 64, 72, 76, 84, 88, 89)


class Model(enum.Enum):
    """Which file system the disk is under."""

    STRICT_POSIX = "strict"
    EXT4_ORDERED = "ext4"


class Unit(NamedTuple):
    """One piece that is there after a crash, or not.

    kind: "data", "size", "link", "unlink", "rename", "mkdir" or "rmdir".
    tied: for data that made its file longer, the number of the unit of that length.
    is_stale: for a length that a write made under a model that does not order data before it.
    """

    number: int
    kind: str
    inode: int = -1
    position: int = 0
    data: bytes = b""
    path: str = ""
    source: str = ""
    tied: int = -1
    is_stale: bool = False

    @property
    def is_metadata(self) -> bool:
        """Whether it goes through the file system's journal."""
        return self.kind != "data"

    @property
    def directory(self) -> str:
        """The directory whose sync settles it; empty for data and lengths."""
        return parent(self.path) if self.path else ""


WORD_BYTES: Final = 8


class Torn(NamedTuple):
    """The newest write, whose units begin with this one, came no further than a position."""

    first_unit: int
    end: int


class Platter:
    """What is durable and what is pending after the operations taken in so far."""

    def __init__(self, origin: Image, model: Model) -> None:
        """Start from an image, all of it durable."""
        self._model = model
        self._names = {path: i for i, path in enumerate(sorted(origin.files))}
        self._contents = {self._names[path]: data for path, data in origin.files.items()}
        self._directories = set(origin.directories)
        self.pending: list[Unit] = []
        self._next = 0
        self._newest: tuple[int, int, int] | None = None  # first unit, position, length

    def fork(self) -> "Platter":
        """Return another one in the same state."""
        made = copy(self)
        made._names = dict(self._names)
        made._contents = dict(self._contents)
        made._directories = set(self._directories)
        made.pending = list(self.pending)
        return made

    def cached_inodes(self) -> dict[str, int]:
        """Return the inode of each name as the page cache has them, pending or durable."""
        names, directories = dict(self._names), set(self._directories)
        for unit in self.pending:
            if unit.path:
                _apply_name(unit, names, directories)
        return names

    def take(self, operation: Operation) -> None:
        """Take in the next operation of the journal."""
        match operation:
            case Wrote():
                self._wrote(operation)
            case Synced(inode):
                self._synced(inode)
            case SyncedDirectory(path):
                self._synced_directory(path)
            case LostPages(inode, durable):
                self.pending = [unit for unit in self.pending if unit.inode != inode or unit.path]
                self._contents[inode] = durable
            case Resized(inode, length):
                self._add(kind="size", inode=inode, position=length)
            case Mark():
                pass
            case _:
                self._named(operation)

    def candidates(self, rng: Random) -> Iterator[frozenset[int]]:
        """Draw numbers of pending units to apply; not all legal, `image` makes them so."""
        numbers = [unit.number for unit in self.pending]
        count = len(numbers)
        yield frozenset()
        yield frozenset(numbers)
        if count <= EXHAUSTIVE_UNITS_MAX:
            for bits in range(1, (1 << count) - 1):
                yield frozenset(numbers[i] for i in range(count) if bits >> i & 1)
            return
        for cut in rng.sample(range(1, count), min(count - 1, 4)):
            yield frozenset(numbers[:cut])
            yield frozenset(numbers[cut:])
            yield frozenset(numbers[:cut] + numbers[cut + 1 :])
            yield frozenset((numbers[cut],))
        yield frozenset(numbers[:-1])
        yield frozenset(numbers[1:])
        yield frozenset(numbers[-1:])
        for _ in range(RANDOM_SUBSETS):
            chance = rng.choice((0.2, 0.5, 0.8))
            yield frozenset(number for number in numbers if rng.random() < chance)

    def torn(self, rng: Random) -> Torn | None:
        """Draw a place at which the newest operation ends, None if it was no write.

        What lies within a word is written by one instruction, and so reaches the disk whole.
        """
        if self._newest is None:
            return None
        first_unit, position, length = self._newest
        if position % WORD_BYTES + length <= WORD_BYTES:
            return None
        places = [field for field in RECORD_FIELDS if field < length] or list(range(1, length))
        return Torn(first_unit, position + rng.choice(places)) if places else None

    def image(self, chosen: frozenset[int], torn: Torn | None = None) -> Image:
        """Return the disk with the chosen units applied, as far as the model lets them be."""
        names = dict(self._names)
        directories = set(self._directories)
        contents: dict[int, bytearray] = {}
        for unit in self._legal(chosen):
            if unit.path:
                _apply_name(unit, names, directories)
            else:
                content = contents.get(unit.inode)
                if content is None:
                    content = bytearray(self._contents.get(unit.inode, b""))
                    contents[unit.inode] = content
                _apply_content(unit, content, torn)
        reached = frozenset(path for path in directories if _is_reached(path, directories))
        files = {}
        for path, inode in sorted(names.items()):
            if parent(path) in reached:
                changed = contents.get(inode)
                whole = self._contents.get(inode, b"") if changed is None else bytes(changed)
                files[path] = whole
        return Image(files, reached)

    @property
    def whole(self) -> frozenset[int]:
        """The numbers of everything pending: what a crash of a process alone leaves."""
        return frozenset(unit.number for unit in self.pending)

    def _add(self, **fields: object) -> int:
        self._next += 1
        self.pending.append(Unit(self._next, **fields))  # type: ignore[arg-type]
        self._newest = None
        return self._next

    def _named(self, operation: Operation) -> None:
        match operation:
            case Linked(path, inode):
                self._add(kind="link", inode=inode, path=path)
            case Unlinked(path):
                self._add(kind="unlink", path=path)
            case Renamed(source, target, inode):
                self._renamed(source, target, inode)
            case MadeDirectory(path):
                self._add(kind="mkdir", path=path)
            case RemovedDirectory(path):
                self._add(kind="rmdir", path=path)
            case _:
                raise AssertionError(operation)

    def _renamed(self, source: str, target: str, inode: int) -> None:
        if parent(source) == parent(target) or self._model is not Model.STRICT_POSIX:
            self._add(kind="rename", inode=inode, path=target, source=source)
            return
        # Two directories, two names, and no order between them.
        self._add(kind="link", inode=inode, path=target)
        self._add(kind="unlink", path=source)

    def _wrote(self, operation: Wrote) -> None:
        inode, position, data, size_before = operation
        end = position + len(data)
        tied = -1
        if position > size_before:
            # A hole, which reads as zeros; what was never written is no length of this write.
            self._add(kind="size", inode=inode, position=position)
        if end > size_before:
            stale = self._model is Model.STRICT_POSIX
            tied = self._add(kind="size", inode=inode, position=end, is_stale=stale)
        first = self._next + 1
        at = position
        while at < end:
            stop = min(at - at % SECTOR_BYTES + SECTOR_BYTES, end)
            piece = data[at - position : stop - position]
            extends = tied if stop > size_before else -1
            self._add(kind="data", inode=inode, position=at, data=piece, tied=extends)
            at = stop
        self._newest = (first, position, len(data))

    def _legal(self, chosen: frozenset[int]) -> list[Unit]:
        """Return the chosen units in order, made legal under the model."""
        if self._model is Model.STRICT_POSIX:
            return [unit for unit in self.pending if unit.number in chosen]
        # As much of the journal as there are metadata units chosen: a front part.
        numbers = [unit.number for unit in self.pending if unit.is_metadata]
        front = set(numbers[: sum(number in chosen for number in numbers)])
        metadata = set(numbers)
        return [
            unit
            for unit in self.pending
            if (
                unit.number in front
                if unit.is_metadata
                else (unit.tied in front if unit.tied in metadata else unit.number in chosen)
            )
        ]

    def _synced(self, inode: int) -> None:
        if self._model is Model.STRICT_POSIX:
            self._settle([unit for unit in self.pending if unit.inode == inode and not unit.path])
            return
        last = max(
            (u.number for u in self.pending if u.is_metadata and u.inode == inode), default=0
        )
        metadata = {u.number for u in self.pending if u.is_metadata and u.number <= last}
        self._settle(
            [
                unit
                for unit in self.pending
                if unit.number in metadata
                or unit.tied in metadata
                or (unit.inode == inode and not unit.path)
            ]
        )

    def _synced_directory(self, path: str) -> None:
        if self._model is Model.STRICT_POSIX:
            self._settle([unit for unit in self.pending if unit.directory == path])
            return
        last = max((u.number for u in self.pending if u.directory == path), default=0)
        metadata = {u.number for u in self.pending if u.is_metadata and u.number <= last}
        self._settle(
            [unit for unit in self.pending if unit.number in metadata or unit.tied in metadata]
        )

    def _settle(self, units: list[Unit]) -> None:
        """Make units durable: what is pending for good is applied after them."""
        if not units:
            return
        contents: dict[int, bytearray] = {}
        for unit in units:
            if unit.path:
                _apply_name(unit, self._names, self._directories)
                continue
            content = contents.get(unit.inode)
            if content is None:
                content = bytearray(self._contents.get(unit.inode, b""))
                contents[unit.inode] = content
            _apply_content(unit, content, None)
        for inode, content in contents.items():
            self._contents[inode] = bytes(content)
        settled = {unit.number for unit in units}
        self.pending = [unit for unit in self.pending if unit.number not in settled]


def digest(image: Image) -> bytes:
    """Return what tells one image from another."""
    pieces = ["\0".join(sorted(image.directories)).encode()]
    for path, data in image.files.items():
        pieces += (path.encode(), _content_digest(data))
    return blake2b(b"\0".join(pieces), digest_size=DIGEST_BYTES).digest()


@lru_cache(maxsize=1 << 12)  # most files of an image are those of the one before
def _content_digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


def _apply_name(unit: Unit, names: dict[str, int], directories: set[str]) -> None:
    if unit.kind == "link":
        names[unit.path] = unit.inode
    elif unit.kind == "unlink":
        names.pop(unit.path, None)
    elif unit.kind == "rename":
        names.pop(unit.source, None)
        names[unit.path] = unit.inode
    elif unit.kind == "mkdir":
        directories.add(unit.path)
    else:
        directories.discard(unit.path)


def _apply_content(unit: Unit, content: bytearray, torn: Torn | None) -> None:
    if unit.kind == "size":
        grown = unit.position - len(content)
        if grown < 0 and not unit.is_stale:
            del content[unit.position :]
        elif grown > 0:
            content.extend((STALE if unit.is_stale else b"\0") * grown)
        return
    end = min(unit.position + len(unit.data), len(content))
    if torn is not None and unit.number >= torn.first_unit:
        end = min(end, torn.end)
    if end > unit.position:
        content[unit.position : end] = unit.data[: end - unit.position]


def _is_reached(path: str, directories: set[str]) -> bool:
    while path != "/":
        path = parent(path)
        if path not in directories:
            return False
    return True
