"""Snapshots from a fake broker: renewals, failures, texts."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.fakes.records import LogBytes
from tests.spark.snapshot_parts import snapshot_of, write_store
from wakelog.spark.handoff import (
    RENEWING,
    HandoffFailed,
    held_snapshot,
    read_snapshot,
    snapshot_text,
    take_snapshot,
)

WAIT_SECONDS_MAX = 20
FAILURE = {"failure": {"cause": "no snapshot: too many leases hold", "remedy": "End some."}}


class Method:
    """A method of an actor; the answer stands for the reference to it."""

    def __init__(self, answer: dict[str, Any], calls_wanted: int = 1) -> None:
        self.answer = answer
        self.calls: list[tuple[Any, ...]] = []
        self.called_enough = threading.Event()
        self._calls_wanted = calls_wanted

    def remote(self, *arguments: Any) -> dict[str, Any]:
        self.calls.append(arguments)
        if len(self.calls) >= self._calls_wanted:
            self.called_enough.set()
        return self.answer


class Broker:
    """A broker's actor as a handle shows it."""

    def __init__(self, snapshot: dict[str, Any], renewed: dict[str, Any] | None = None) -> None:
        self.snapshot = Method(snapshot)
        self.renew_snapshot = Method(renewed or {"expires_ms": 1}, calls_wanted=3)
        self.end_snapshot = Method({"ended": True})


@pytest.fixture
def log() -> LogBytes:
    log = LogBytes()
    for number in range(9):
        log.add(body=b"%d" % number)
    return log


@pytest.fixture
def parts(log: LogBytes, tmp_path: Path) -> dict[str, Any]:
    """Return the snapshot of a log of nine messages."""
    return snapshot_of(write_store(tmp_path / "store", log), 0, log.end)


def test_a_snapshot_is_renewed_while_it_is_open_and_given_back_then(parts: dict[str, Any]) -> None:
    broker = Broker(parts)
    with held_snapshot(broker, after=parts, holder="me", renew_seconds=0.001) as snapshot:
        assert snapshot == parts
        assert broker.snapshot.calls == [(parts, "me")]
        assert broker.renew_snapshot.called_enough.wait(WAIT_SECONDS_MAX)
        assert broker.renew_snapshot.calls[0] == ("a",)
        assert not broker.end_snapshot.calls
    assert broker.end_snapshot.calls == [("a",)]
    assert RENEWING not in [thread.name for thread in threading.enumerate()]


def test_a_snapshot_is_given_back_whatever_happened(parts: dict[str, Any]) -> None:
    broker = Broker(parts)
    with pytest.raises(KeyError), held_snapshot(broker):
        raise KeyError
    assert broker.end_snapshot.calls == [("a",)]


def test_a_lost_lease_is_logged_and_the_read_continues(
    parts: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    lost = {"failure": {"cause": "a disk of the store was 91 % full", "remedy": ""}}
    broker = Broker(parts, renewed=lost)
    with held_snapshot(broker, renew_seconds=0.001):
        assert broker.renew_snapshot.called_enough.wait(WAIT_SECONDS_MAX)
    assert "was not renewed: a disk of the store was 91 % full" in caplog.text


def test_a_read_continues_after_ray_is_gone(
    parts: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    class Gone(Method):
        def remote(self, *arguments: Any) -> dict[str, Any]:
            super().remote(*arguments)
            raise RuntimeError("Ray has not been started yet")

    broker = Broker(parts)
    broker.renew_snapshot = Gone({}, calls_wanted=3)
    broker.end_snapshot = Gone({})
    with held_snapshot(broker, renew_seconds=0.001):
        assert broker.renew_snapshot.called_enough.wait(WAIT_SECONDS_MAX)
    assert "was not renewed: Ray has not been started yet" in caplog.text


@pytest.mark.parametrize(
    ("answer", "message"),
    [(FAILURE, r"too many leases hold\. End some\."), ({"version": 1}, "is no snapshot: .*broker")],
)
def test_an_answer_that_is_no_snapshot_is_an_error(answer: dict[str, Any], message: str) -> None:
    with pytest.raises(HandoffFailed, match=message):
        take_snapshot(Broker(answer))


def test_the_option_is_one_snapshot_or_a_list(parts: dict[str, Any]) -> None:
    other = {**parts, "broker": "broker-b"}
    assert json.loads(snapshot_text(parts)) == parts
    assert json.loads(snapshot_text(parts, other)) == [parts, other]


@pytest.mark.spark
@pytest.mark.slow
def test_spark_reads_exactly_the_snapshot(
    spark: SparkSession, log: LogBytes, parts: dict[str, Any]
) -> None:
    begin, end = log.offsets[2], log.offsets[7]
    table = read_snapshot(spark, {**parts, "begin": begin, "end": end}, minPartitions="3")
    assert [row.body for row in table.collect()] == [b"%d" % number for number in range(2, 7)]
    gone = Path(parts["segments"][0]["path"])
    gone.unlink()
    with pytest.raises(Exception, match="the snapshot's lease has ended"):
        table.collect()
