"""A snapshot: which bytes of which files are the log of one store, from one offset to another.

A broker gives it to a reader that reads files itself, such as Spark. It is a value of plain parts:
a mapping between actors, JSON in an option. It has nothing of the log's content.

    {"version": 1, "broker": "broker-a", "storeId": "...", "root": "/data/store",
     "begin": 0, "end": 4096, "leaseId": "...", "expiresMs": 1767225600000,
     "segments": [{"path": "/data/store/commitlog/00000000000000000000",
                   "begin": 0, "end": 1073741824}]}

Invariants:
- Every byte of [begin, end) was durable when it was taken. A record begins at `begin` and at `end`,
  so a reader gets the same rows at any time.
- Each segment covers its part of [begin, end) by its whole file. Segments are in order and cover
  the snapshot's range.

Source: none upstream.
"""

import itertools
from collections.abc import Mapping
from posixpath import basename, isabs
from typing import Any, Final

import msgspec

from wakelog.storage.paths import parse_offset_name
from wakelog.typed_values import convert

VERSION: Final = 1


class SnapshotRefused(ValueError):
    """A value that is no snapshot: wrong parts, or parts that contradict each other."""


class SnapshotSegment(msgspec.Struct, frozen=True):
    """One file of the log: its path, and the physical offsets that it covers."""

    path: str
    begin: int
    end: int


class Snapshot(msgspec.Struct, frozen=True, rename="camel"):
    """One range of one store's log, and the files that hold it."""

    version: int
    broker: str
    store_id: str
    root: str
    begin: int
    end: int
    lease_id: str
    expires_ms: int
    segments: tuple[SnapshotSegment, ...]

    def to_builtins(self) -> dict[str, Any]:
        """Return plain parts, for another actor or for JSON."""
        parts = dict(msgspec.to_builtins(self))
        return parts | {"segments": list(parts["segments"])}


def read_snapshot(value: Mapping[str, Any]) -> Snapshot:
    """Build a snapshot from plain parts. Raises: SnapshotRefused."""
    try:
        found = convert(value, Snapshot)
    except msgspec.ValidationError as error:
        raise SnapshotRefused(str(error)) from error
    if found.version != VERSION:
        raise SnapshotRefused(f"version {found.version}, where {VERSION} is known")
    if not found.broker or not 0 <= found.begin <= found.end:
        raise SnapshotRefused(f"no range of a log: {found.begin} to {found.end}")
    for segment in found.segments:
        # The text may come from anywhere, so it may name only files of a log.
        if not isabs(segment.path) or parse_offset_name(basename(segment.path)) != segment.begin:
            raise SnapshotRefused(f"{segment.path} is no segment that begins at {segment.begin}")
    if not _covers(found):
        raise SnapshotRefused(f"its segments do not cover {found.begin} to {found.end}")
    return found


def _covers(snapshot: Snapshot) -> bool:
    segments = snapshot.segments
    if not segments:
        return snapshot.begin == snapshot.end
    in_order = all(one.end == following.begin for one, following in itertools.pairwise(segments))
    reaches = segments[0].begin <= snapshot.begin and snapshot.end <= segments[-1].end
    return in_order and reaches
