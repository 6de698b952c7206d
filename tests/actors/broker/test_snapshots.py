"""Snapshots at the Broker: what is durable is handed over, and what goes wrong is said in parts."""

import asyncio
from typing import Any

import pytest

from tests.storage.retention.test_snapshot import parts
from wakelog.actors.broker import snapshots
from wakelog.actors.broker.snapshots import Snapshots
from wakelog.actors.services.client import ServiceLost


class Log:
    """A log that is durable up to `flushed`, and all of it when that is waited for."""

    def __init__(self, flushed: int, appended: int) -> None:
        self.flushed = flushed
        self.appended = self.readable = appended
        self.is_stuck = False

    async def wait_durable(self) -> None:
        if self.is_stuck:
            await asyncio.Event().wait()
        self.flushed = self.appended


class Retention:
    """Answers as it is told, and keeps what it was asked."""

    def __init__(self, answer: dict[str, Any] | Exception) -> None:
        self.answer = answer
        self.asked: list[tuple[Any, ...]] = []

    async def call_lease(self, method: str, *arguments: Any) -> dict[str, Any]:
        self.asked.append((method, *arguments))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def snapshots_of(log: Any, retention: Any, store_id: str = "s") -> Snapshots:
    return Snapshots(retention, log, store_id=store_id)


def taken(
    log: Log, retention: Retention, after: dict[str, Any] | None = None, store_id: str = "s"
) -> dict[str, Any]:
    return asyncio.run(snapshots_of(log, retention, store_id).take(after, "test"))


def test_what_is_there_is_made_durable_first() -> None:
    log, retention = Log(100, 250), Retention({"snapshot": parts()})
    assert taken(log, retention) == parts()
    assert retention.asked == [("lease", "test", None, 250)]


def test_a_disk_that_does_not_answer_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshots, "FLUSH_SECONDS_MAX", 0.01)
    log, retention = Log(100, 250), Retention({"snapshot": parts()})
    log.is_stuck = True
    taken(log, retention)
    assert retention.asked[0][3] == 100


def test_a_snapshot_goes_on_where_another_ended() -> None:
    retention = Retention({"snapshot": parts()})
    taken(Log(3000, 3000), retention, after=parts())
    assert retention.asked[0] == ("lease", "test", 2500, 3000)


FAILURES: dict[str, tuple[dict[str, Any], str]] = {
    "no snapshot": ({"after": {"begin": 0}}, "is no snapshot"),
    "another store": ({"after": parts(), "store_id": "t"}, "s is another store"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_what_a_snapshot_cannot_follow(name: str) -> None:
    arguments, cause = FAILURES[name]
    retention = Retention({"snapshot": parts()})
    found = taken(Log(0, 0), retention, **arguments)
    assert cause in found["failure"]["cause"] and not retention.asked


@pytest.mark.parametrize(
    ("answer", "cause"),
    [({"refused": "too many"}, "too many"), (ServiceLost("it has died"), "it has died")],
)
def test_whatever_retention_refuses_is_a_failure(
    answer: dict[str, Any] | Exception, cause: str
) -> None:
    log, retention = Log(0, 0), Retention(answer)
    made = snapshots_of(log, retention)
    for found in (
        taken(log, retention),
        asyncio.run(made.renew("a")),
        asyncio.run(made.end("a")),
    ):
        assert cause in found["failure"]["cause"] and found["failure"]["remedy"]


def test_a_lease_is_renewed_and_ended_by_its_id() -> None:
    log, retention = Log(0, 0), Retention({"expires_ms": 5})
    made = snapshots_of(log, retention)
    assert asyncio.run(made.renew("a")) == {"expires_ms": 5}
    assert asyncio.run(made.end("a")) == {"expires_ms": 5}
    assert retention.asked == [("renew_lease", "a"), ("end_lease", "a")]
