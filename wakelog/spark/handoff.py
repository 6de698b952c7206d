"""From a broker's actor to a Spark table, by reference: the log's bytes are read from its files.

    with held_snapshot(broker) as snapshot:          in a process that is connected to the broker's
        table = read_snapshot(spark, snapshot)       Ray; the snapshot is kept while it is open

`broker.snapshot.remote()` gives a reference that may also go elsewhere first: to another actor, or
as JSON to a program that knows no Ray (`spark.read.format("rocketmq").option("snapshot", text)`).
Whoever took it then renews it.

This module, with `ray_data.py`, is what of this package knows Ray.

Invariants: what a broker answers is plain parts, and is checked as such; nothing is unpickled that
came from a socket of ours.

Source: none upstream.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec

from wakelog.spark.errors import SourceError
from wakelog.storage.retention.leases import GRACE_MS, LEASE_MS
from wakelog.storage.retention.snapshot import SnapshotRefused
from wakelog.storage.retention.snapshot import read_snapshot as check_snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RENEW_SECONDS: Final = LEASE_MS / 1000 / 5
"""Two minutes: a broker that is started anew in the meantime is asked again in time."""
assert RENEW_SECONDS * 1000 < GRACE_MS

ANSWER_SECONDS_MAX: Final = 60.0
"""A broker that starts anew may recover its store first; then asking again is for the caller."""

END_SECONDS_MAX: Final = 5.0
"""How long a reader that is done waits for a broker that has died: the lease ends by itself."""

RENEWING: Final = "wakelog snapshot renewal"
"""The thread's name."""

_LOGGER: Final = logging.getLogger(__name__)


class HandoffFailed(SourceError):
    """A broker gave no snapshot, with what to do about it."""


def take_snapshot(
    broker: Any, *, after: Mapping[str, Any] | None = None, holder: str = "spark"
) -> dict[str, Any]:
    """Ask the actor of a broker for a snapshot of its log. Raises: HandoffFailed.

    after: an earlier one, of which this is the continuation; None for all there is.
    """
    return _snapshot(_answer(broker.snapshot.remote(after, holder)))


@contextmanager
def held_snapshot(
    broker: Any,
    *,
    after: Mapping[str, Any] | None = None,
    holder: str = "spark",
    renew_seconds: float = RENEW_SECONDS,
) -> Iterator[dict[str, Any]]:
    """Yield a snapshot that is renewed until the block ends, and given back then.

    Raises: HandoffFailed.
    """
    snapshot = take_snapshot(broker, after=after, holder=holder)
    done = threading.Event()
    renewing = threading.Thread(
        target=_renew,
        args=(broker, snapshot["leaseId"], renew_seconds, done),
        name=RENEWING,
        daemon=True,
    )
    renewing.start()
    try:
        yield snapshot
    finally:
        done.set()
        renewing.join(END_SECONDS_MAX)
        _try(broker.end_snapshot, snapshot["leaseId"], END_SECONDS_MAX)


def snapshot_text(*snapshots: Any) -> str:
    """Return the option `snapshot` for what brokers handed over: mappings, or references to them.

    Raises: HandoffFailed.
    """
    parts = [_snapshot(_answer(each)) for each in snapshots]
    return msgspec.json.encode(parts[0] if len(parts) == 1 else parts).decode()


def read_snapshot(spark: SparkSession, *snapshots: Any, **options: str) -> DataFrame:
    """Return the messages of snapshots, one of each broker. Raises: HandoffFailed.

    options: of the source, such as `topic`.
    """
    reader = spark.read.format("rocketmq").option("snapshot", snapshot_text(*snapshots))
    return reader.options(**options).load()


def _renew(broker: Any, lease_id: str, seconds: float, done: threading.Event) -> None:
    while not done.wait(seconds):
        answer = _try(broker.renew_snapshot, lease_id)
        if "failure" in answer:
            # Its segments may be there for long; a task that finds one gone says why.
            _LOGGER.warning("a snapshot was not renewed: %s", answer["failure"]["cause"])


def _snapshot(answer: Mapping[str, Any]) -> dict[str, Any]:
    if "failure" in answer:
        failure = answer["failure"]
        raise HandoffFailed(f"{failure['cause']}. {failure['remedy']}")
    try:
        checked = check_snapshot(answer)
    except SnapshotRefused as error:
        raise HandoffFailed(f"what was handed over is no snapshot: {error}") from error
    return checked.to_builtins()


def _answer(reference: Any, seconds_max: float = ANSWER_SECONDS_MAX) -> dict[str, Any]:
    """Return what a reference stands for, parts as they are. Raises: HandoffFailed."""
    if isinstance(reference, Mapping):
        return dict(reference)
    import ray

    try:
        found = ray.get(reference, timeout=seconds_max)
    except (ray.exceptions.RayError, TypeError, ValueError) as error:
        raise HandoffFailed(f"the broker does not answer: {error}") from error
    return dict(found)


def _try(method: Any, lease_id: str, seconds_max: float = ANSWER_SECONDS_MAX) -> dict[str, Any]:
    """Call a broker about a lease; without an answer the lease ends by itself."""
    try:
        return _answer(method.remote(lease_id), seconds_max)
    except Exception as error:  # Ray may be gone, and what it raises then is of many kinds
        return {"failure": {"cause": str(error), "remedy": ""}}
