"""Reads a snapshot of a broker: exactly its bytes, from exactly its files.

    the option's text -> snapshots -> stores with these segments only -> bounds of the read

The broker keeps the segments while the reader's lease is valid. If a segment is gone nevertheless,
the store's `wakelog.leases` says why.

Invariants: no row lies outside of the snapshot's range; a segment that is gone, has another length
or belongs to another store is an error.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

import msgspec

from wakelog.spark.bounds import EVERYTHING, Bounds, Selection
from wakelog.spark.errors import DataLost
from wakelog.spark.stores import Segment, StoreLog
from wakelog.storage.durability.store_identity import read_identity
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import FileSystem, size_of
from wakelog.storage.paths import StorePaths
from wakelog.storage.retention.leases import read_leases
from wakelog.storage.retention.snapshot import Snapshot, SnapshotRefused, read_snapshot
from wakelog.typed_values import decode_json

_PARTS: Final[Any] = dict[str, Any] | list[dict[str, Any]]


def read_snapshots(text: str) -> tuple[Snapshot, ...]:
    """Read the option: the JSON of one snapshot, or of a list of several brokers'.

    Raises: ValueError that says what it takes.
    """
    try:
        parts = decode_json(text, _PARTS)
        found = tuple(map(read_snapshot, parts if isinstance(parts, list) else [parts]))
    except (msgspec.DecodeError, SnapshotRefused) as error:
        raise ValueError(f"the JSON of what a broker's snapshot() returned ({error})") from error
    if len({snapshot.broker for snapshot in found}) != len(found) or not found:
        raise ValueError("one snapshot of each broker")
    return found


def snapshot_store(
    fs: FileSystem, snapshot: Snapshot, *, fail_on_data_loss: bool = True
) -> StoreLog:
    """Return the store of a snapshot, with the segments of the snapshot. Raises: DataLost."""
    try:
        found = read_identity(fs, StorePaths(snapshot.root).store_identity)
    except StoreError:
        found = None  # the lengths of its segments are checked anyway
    if found is not None and found.store_id != snapshot.store_id:
        raise DataLost(f"{snapshot.root} is another store now than when the snapshot was taken")
    segments = []
    for segment in snapshot.segments:
        try:
            length = size_of(fs, segment.path)
        except OSError:
            length = None
        if length == segment.end - segment.begin:
            segments.append(Segment(segment.path, segment.begin, segment.end))
        elif fail_on_data_loss:
            state = "is not there" if length is None else f"is {length} bytes long now"
            raise DataLost(f"{segment.path} {state}: {why_lost(fs, snapshot)}")
    return StoreLog(snapshot.broker, snapshot.root, tuple(segments))


def within_snapshots(selection: Selection, snapshots: Sequence[Snapshot]) -> Selection:
    """Return the part of a selection that lies in the snapshots."""
    brokers = dict(selection.brokers)
    for snapshot in snapshots:
        inside = Bounds(physical_begin=snapshot.begin, physical_end=snapshot.end)
        brokers[snapshot.broker] = brokers.get(snapshot.broker, EVERYTHING).within(inside)
    return selection._replace(brokers=brokers)


def why_lost(fs: FileSystem, snapshot: Snapshot) -> str:
    """Return the reason why a segment of a snapshot is gone."""
    try:
        leases = read_leases(fs, StorePaths(snapshot.root))
    except StoreError:
        leases = None
    if leases is None:
        return f"the leases of {snapshot.root} cannot be read from here"
    found = {lease.lease_id: lease for lease in leases}.get(snapshot.lease_id)
    if found is None:
        return "the snapshot's lease has ended: it was not renewed, or it was given back"
    if found.lost:
        return f"the snapshot's lease was ended by the broker: {found.lost}"
    return "the snapshot's lease is valid, so another program than the broker removed it"


T = TypeVar("T")


def explained(fs: FileSystem, snapshots: Sequence[Snapshot], batches: Iterator[T]) -> Iterator[T]:
    """Yield the batches of a task. Raises: DataLost, with the reason in the leases added."""
    try:
        yield from batches
    except DataLost as lost:
        if not snapshots:
            raise
        reasons = sorted({why_lost(fs, snapshot) for snapshot in snapshots})
        raise DataLost("; ".join([lost.what, *reasons])) from lost
