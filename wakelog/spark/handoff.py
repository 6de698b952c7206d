"""Takes a snapshot of a broker's log by reference; Spark then reads the bytes from the log's files.

    with held_snapshot(broker) as snapshot:          in a process that is connected to the broker's
        table = read_snapshot(spark, snapshot)       Ray; the snapshot is kept until the block ends

The reference of `broker.snapshot.remote()` may go elsewhere first: to another actor, or as JSON to
a program without Ray (`spark.read.format("rocketmq").option("snapshot", text)`). The process that
took the snapshot has to renew it.

In this package, only this module and `ray_data.py` use Ray.

Invariants: a broker answers with plain values, which are checked; nothing from a socket is
unpickled.
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
"""Two minutes: early enough to ask a broker that restarted in the meantime."""
assert RENEW_SECONDS * 1000 < GRACE_MS

ANSWER_SECONDS_MAX: Final = 60.0
"""A broker that restarts may recover its store first; later the caller has to try again."""

END_SECONDS_MAX: Final = 5.0
"""A finished reader waits no longer for a broker that died: the lease ends by itself."""

RENEWING: Final = "wakelog snapshot renewal"
"""The name of the thread."""

_LOGGER: Final = logging.getLogger(__name__)


class HandoffFailed(SourceError):
    """A broker gave no snapshot; the text says what to do."""


def take_snapshot(
    broker: Any, *, after: Mapping[str, Any] | None = None, holder: str = "spark"
) -> dict[str, Any]:
    """Ask the actor of a broker for a snapshot of its log. Raises: HandoffFailed.

    after: an earlier snapshot that this one continues; None for the whole log.
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
    """Yield a snapshot; renew it until the block ends, then give it back.

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
    """Return the text of the option `snapshot`, for mappings from brokers or references to them.

    Raises: HandoffFailed.
    """
    parts = [_snapshot(_answer(each)) for each in snapshots]
    return msgspec.json.encode(parts[0] if len(parts) == 1 else parts).decode()


def read_snapshot(spark: SparkSession, *snapshots: Any, **options: str) -> DataFrame:
    """Return the messages of snapshots, one for each broker. Raises: HandoffFailed.

    options: of the source, such as `topic`.
    """
    reader = spark.read.format("rocketmq").option("snapshot", snapshot_text(*snapshots))
    return reader.options(**options).load()


def _renew(broker: Any, lease_id: str, seconds: float, done: threading.Event) -> None:
    while not done.wait(seconds):
        answer = _try(broker.renew_snapshot, lease_id)
        if "failure" in answer:
            # Its segments may stay for long; a task that misses one reports why.
            _LOGGER.warning("a snapshot was not renewed: %s", answer["failure"]["cause"])


def _snapshot(answer: Mapping[str, Any]) -> dict[str, Any]:
    if "failure" in answer:
        failure = answer["failure"]
        raise HandoffFailed(f"{failure['cause']}. {failure['remedy']}")
    try:
        checked = check_snapshot(answer)
    except SnapshotRefused as error:
        raise HandoffFailed(f"the broker's answer is no snapshot: {error}") from error
    return checked.to_builtins()


def _answer(reference: Any, seconds_max: float = ANSWER_SECONDS_MAX) -> dict[str, Any]:
    """Return the value of a reference; a mapping stays as it is. Raises: HandoffFailed."""
    if isinstance(reference, Mapping):
        return dict(reference)
    import ray

    if not isinstance(reference, ray.ObjectRef):  # for another object Ray would start
        shown = f"{type(reference).__name__} is given"
        raise HandoffFailed(f"no snapshot and no reference to one, a {shown}: ask a broker for one")
    try:
        found = ray.get(reference, timeout=seconds_max)
    except (ray.exceptions.RayError, TypeError, ValueError) as error:
        raise HandoffFailed(f"the broker does not answer: {error}") from error
    return dict(found)


def _try(method: Any, lease_id: str, seconds_max: float = ANSWER_SECONDS_MAX) -> dict[str, Any]:
    """Call a broker about a lease; without its answer the lease ends by itself."""
    try:
        return _answer(method.remote(lease_id), seconds_max)
    except Exception as error:  # without Ray there are many kinds of errors
        return {"failure": {"cause": str(error), "remedy": ""}}
