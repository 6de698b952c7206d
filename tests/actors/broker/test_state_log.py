"""The lines of 4.9.3's scheduled tasks: when there is something to say, and never else."""

import logging
from typing import Any, cast

import msgspec
import pytest

from wakelog.actors.broker.state_log import BEHIND_MS, WATER_MARK_MS, StateLog
from wakelog.network.lanes import LaneStatistics
from wakelog.telemetry.logs import Log

QUIET = LaneStatistics(0, 10, 0.0, 0, 0, 0, 0)


@pytest.fixture(autouse=True)
def every_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def write_due(
    log: StateLog, now_ms: int, appended: int = 0, dispatched: int = 0, **counts: int
) -> None:
    lanes = {"send": msgspec.structs.replace(QUIET, **counts), "pull": QUIET, "admin": QUIET}
    log.write_due(now_ms, lanes, appended=appended, dispatched=dispatched)


def values_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return what a line says, before it is made text."""
    return cast(dict[str, Any], record.msg)


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Return logger and event of each line, and forget them."""
    found = [(record.name, values_of(record)["event"]) for record in caplog.records]
    caplog.clear()
    return found


def test_a_lane_that_had_requests_shows_its_mark(caplog: pytest.LogCaptureFixture) -> None:
    log = StateLog(0)
    write_due(log, WATER_MARK_MS, taken_count=5, depth_count=2)
    mark = "[WATERMARK] Send Queue Size: 2 SlowTimeMills: 0"
    assert lines(caplog) == [(Log.WATER_MARK.value.logger_name, mark)]


def test_the_wait_of_the_first_is_shown_in_milliseconds(caplog: pytest.LogCaptureFixture) -> None:
    lane = msgspec.structs.replace(QUIET, depth_count=1, head_wait_seconds=0.25)
    StateLog(0).write_due(WATER_MARK_MS, {"pull": lane}, appended=0, dispatched=0)
    [(_, event)] = lines(caplog)
    assert event == "[WATERMARK] Pull Queue Size: 1 SlowTimeMills: 250"


def test_a_quiet_broker_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    log = StateLog(0)
    write_due(log, WATER_MARK_MS, taken_count=5)
    write_due(log, BEHIND_MS, 100, 100, taken_count=5)
    caplog.clear()
    for minute in range(2, 5):
        write_due(log, minute * BEHIND_MS, 100, 100, taken_count=5)
    assert lines(caplog) == []


def test_it_is_due_each_second() -> None:
    log = StateLog(500)
    assert not log.is_due(500 + WATER_MARK_MS - 1)
    assert log.is_due(500 + WATER_MARK_MS)
    write_due(log, 2_000)
    assert not log.is_due(2_000)


@pytest.mark.parametrize(("refused", "expired"), [(3, 2), (3, 0), (0, 2)])
def test_what_was_refused_is_protection(
    caplog: pytest.LogCaptureFixture, refused: int, expired: int
) -> None:
    log = StateLog(0)
    write_due(log, WATER_MARK_MS, refused_count=refused, expired_count=expired)
    name = Log.PROTECTION.value.logger_name
    [record] = [record for record in caplog.records if record.name == name]
    found = values_of(record)
    assert (found["lane"], found["because_full"], found["because_late"]) == (
        *("send", refused, expired),
    )
    caplog.clear()
    write_due(log, 2 * WATER_MARK_MS, refused_count=refused, expired_count=expired)
    assert lines(caplog) == []


@pytest.mark.parametrize(("dispatched", "behind_bytes"), [(70, 30), (100, 0)])
def test_a_log_that_grew_shows_how_far_dispatch_is(
    caplog: pytest.LogCaptureFixture, dispatched: int, behind_bytes: int
) -> None:
    write_due(StateLog(0), BEHIND_MS, 100, dispatched)
    event = f"dispatch behind commit log {behind_bytes} bytes"
    assert lines(caplog) == [(Log.BROKER.value.logger_name, event)]


def test_a_full_disk_is_logged_when_it_begins_and_ends(caplog: pytest.LogCaptureFixture) -> None:
    log = StateLog(0)
    for full in (False, True, True, False):
        log.disk(full=full)
    events = [event for _, event in lines(caplog)]
    assert len(events) == 2
    assert events[0].endswith("the disk is full")
    assert events[1].endswith("takes messages again")
