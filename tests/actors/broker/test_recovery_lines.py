"""What a recovery says, to the logs and to whoever started the broker."""

import logging

import pytest

from wakelog.actors.broker.recovery_lines import (
    LINES_MAX,
    recovery_notices,
    store_health,
    write_recovery,
)
from wakelog.broker.health_values import StoreHealth
from wakelog.storage.durability.sum_keeper import SumStatistics
from wakelog.storage.recovery.log_end import DamagedStretch
from wakelog.storage.recovery.quarantine import QuarantinedPiece
from wakelog.storage.recovery.steps import RecoveryReport
from wakelog.telemetry.logs import Log

SOUND = RecoveryReport(
    clean_exit=True,
    checked_from=0,
    log_begin=0,
    log_end=1_000,
    end_reason="zeros",
    dispatch_from=0,
    queue_offsets={},
    records_checked_count=3,
    last_store_timestamp_ms=1,
    damaged=(),
    quarantined=(),
    commit_log_files_removed=(),
    consume_queues_cut=(),
    index_files_removed=(),
)
PIECE = QuarantinedPiece(1_000, 77, "/store/wakelog.quarantine/00000000000000001000.5")
STRETCH = DamagedStretch(200, 300, "body CRC")


def test_a_sound_store_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    write_recovery(SOUND)
    assert recovery_notices(SOUND) == []
    assert [record.name for record in caplog.records] == [Log.STORE.value.logger_name]


@pytest.mark.parametrize(
    ("report", "begin", "end"),
    [
        (
            SOUND._replace(quarantined=(PIECE,), end_reason="a record that is cut off"),
            "77 bytes at 1000 of the log were no whole message",
            PIECE.path,
        ),
        (
            SOUND._replace(unrestored=(PIECE,)),
            "77 bytes for 1000 of the log, which a transient pool held",
            PIECE.path,
        ),
        (
            SOUND._replace(damaged=(STRETCH,)),
            "bytes 200 to 300 of the log are damaged and passed over: ",
            "body CRC",
        ),
        (
            SOUND._replace(read_only="segments are missing"),
            "no messages are taken: ",
            "segments are missing",
        ),
    ],
)
def test_what_is_lost_is_one_line_and_in_the_log_of_errors(
    report: RecoveryReport, begin: str, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    [line] = recovery_notices(report)
    assert line.startswith(begin) and line.endswith(end)
    write_recovery(report)
    assert Log.STORE_ERROR.value.logger_name in {record.name for record in caplog.records}
    assert end in caplog.text


def test_a_store_of_a_rocketmq_broker_is_named(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    report = SOUND._replace(after_another_broker=True, log_begin=400)
    [line] = recovery_notices(report)
    assert line.startswith("a RocketMQ broker had the store last; wakelog goes on with its 600 b")
    write_recovery(report)
    assert "after_another_broker" in caplog.text


def test_why_no_messages_are_taken_comes_first() -> None:
    report = SOUND._replace(read_only="segments are missing", damaged=(STRETCH,))
    first, second = recovery_notices(report)
    assert first == "no messages are taken: segments are missing"
    assert second.startswith("bytes 200 to 300")


def test_a_person_is_not_shown_a_thousand_lines() -> None:
    lines = recovery_notices(SOUND._replace(damaged=(STRETCH,) * 1_000))
    assert len(lines) == LINES_MAX + 1
    assert lines[-1].startswith(f"{1_000 - LINES_MAX} more places")


@pytest.mark.parametrize(
    "report",
    [
        SOUND._replace(watermark_doubt="another broker had the store"),
        SOUND._replace(positions_doubt="what was durable is damaged at 200"),
    ],
)
def test_what_is_not_believed_is_in_the_log(
    caplog: pytest.LogCaptureFixture, report: RecoveryReport
) -> None:
    write_recovery(report)
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert recovery_notices(report) == []


def test_operators_get_what_was_cut_passed_over_and_compared() -> None:
    assert store_health(SOUND, None) == StoreHealth(clean_exit=1, checked_records=3)
    crashed = SOUND._replace(clean_exit=False, quarantined=(PIECE, PIECE), damaged=(STRETCH,))
    sums = SumStatistics(50, 40, 2, 1, 6)
    assert store_health(crashed, sums) == StoreHealth(0, 3, 154, 100, 50, 40, 2, 1, 6)
