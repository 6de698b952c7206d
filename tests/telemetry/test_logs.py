"""Lines: where they go, what stands in them, and what never does."""

import json
import logging
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wakelog.telemetry import logs
from wakelog.telemetry.logs import (
    MEBIBYTE,
    LineBudget,
    Log,
    LogFile,
    LogFormat,
    News,
    QueuedLogFile,
    configure_logs,
    logger,
    unconfigure_logs,
)


@pytest.fixture(autouse=True)
def give_loggers_back() -> Iterator[None]:
    yield
    unconfigure_logs()


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


# LoggerName and logback_broker.xml of 4.9.3.
APPENDERS = {
    Log.BROKER: ("RocketmqBroker", "broker.log"),
    Log.STORE: ("RocketmqStore", "store.log"),
    Log.STORE_ERROR: ("RocketmqStoreError", "storeerror.log"),
    Log.WATER_MARK: ("RocketmqWaterMark", "watermark.log"),
    Log.PROTECTION: ("RocketmqProtection", "protection.log"),
    Log.REMOTING: ("RocketmqRemoting", "remoting.log"),
    Log.REBALANCE_LOCK: ("RocketmqRebalanceLock", "lock.log"),
    Log.FILTER: ("RocketmqFilter", "filter.log"),
    Log.TRANSACTION: ("RocketmqTransaction", "transaction.log"),
    Log.NAME_SERVER: ("RocketmqNamesrv", "namesrv.log"),
    Log.AUDIT: ("WakelogAudit", "audit.log"),
}


def test_every_appender_writes_its_own_file(tmp_path: Path) -> None:
    assert set(APPENDERS) == set(Log)
    configure_logs(tmp_path, actor="broker", epoch=3)
    for log, (name, _) in APPENDERS.items():
        assert log.value.logger_name == name
        logger(log).info("an event", log=log.name)
    unconfigure_logs()
    for log, (name, file_name) in APPENDERS.items():
        (line,) = lines(tmp_path / file_name)
        assert f"logger={name}" in line
        assert f"log={log.name}" in line


def test_a_text_line_has_time_actor_and_event(tmp_path: Path) -> None:
    configure_logs(tmp_path, actor="broker", epoch=3, broker="broker-a")
    logger(Log.STORE).warning("segment made", path="/store/a b", size_bytes=7)
    (line,) = lines(tmp_path / "store.log")
    timestamp, rest = line.split(" ", 1)
    assert timestamp.startswith("timestamp=2")
    assert rest == (
        "level=warning actor=broker broker=broker-a epoch=3 logger=RocketmqStore "
        'event="segment made" path="/store/a b" size_bytes=7'
    )


def test_a_line_may_be_of_another_actor_and_has_the_value_of_a_flag(tmp_path: Path) -> None:
    configure_logs(tmp_path, actor="broker", epoch=3, broker="broker-a")
    logger(Log.AUDIT).info("PUT", actor="namesrv", broker="", is_force=True, offline=False)
    for handler in logging.getLogger(Log.AUDIT.value.logger_name).handlers:
        handler.close()
    (line,) = lines(tmp_path / "audit.log")
    assert line.endswith("event=PUT is_force=true offline=false")
    assert " actor=namesrv broker= epoch=3 " in line


def test_a_json_line_is_one_object(tmp_path: Path) -> None:
    configure_logs(tmp_path, actor="broker", epoch=3, log_format=LogFormat.JSON)
    logger(Log.STORE).error("bad\nrecord", offset=2**40, kind=ValueError)
    (line,) = lines(tmp_path / "store.log")
    found = json.loads(line)
    origin = {"timestamp", "level", "actor", "broker", "epoch", "logger", "event"}
    assert found.keys() == {*origin, "offset", "kind"}
    assert (found["event"], found["offset"], found["epoch"]) == ("bad\nrecord", 2**40, 3)
    assert found["kind"] == "<class 'ValueError'>"


def test_other_actors_have_files_of_their_own(tmp_path: Path) -> None:
    configure_logs(tmp_path, actor="reput", epoch=1)
    logger(Log.STORE).info("here")
    assert [path.name for path in tmp_path.iterdir()] == ["store-reput.log"]


@pytest.mark.parametrize("log_format", LogFormat)
def test_no_body_reaches_a_log(log_format: LogFormat, tmp_path: Path) -> None:
    configure_logs(tmp_path, actor="broker", epoch=1, log_format=log_format)
    for body in (b"secret", bytearray(b"secret"), memoryview(b"secret")):
        logger(Log.BROKER).info("message", body=body)
    text = (tmp_path / "broker.log").read_text()
    assert "secret" not in text
    assert text.count("<6 bytes>") == 3


def test_a_value_cannot_forge_a_line(tmp_path: Path) -> None:
    configure_logs(tmp_path, actor="broker", epoch=1)
    forged = "T\r\nlevel=error event=forged\x1b[31m"
    logger(Log.BROKER).info("topic", topic=forged)
    (line,) = lines(tmp_path / "broker.log")
    assert "\x1b" not in line
    assert "\\n" in line


def test_other_users_read_no_log(tmp_path: Path) -> None:
    configure_logs(tmp_path / "logs", actor="broker", epoch=1)
    assert not (tmp_path / "logs").stat().st_mode & 0o007


def test_a_long_value_is_cut(tmp_path: Path) -> None:
    configure_logs(tmp_path, actor="broker", epoch=1)
    logger(Log.BROKER).info("remark", remark="x" * 100_000)
    (line,) = lines(tmp_path / "broker.log")
    assert len(line) < logs.VALUE_CHARACTERS_MAX + 200


def test_an_exception_stays_on_one_line(tmp_path: Path) -> None:
    configure_logs(tmp_path, actor="broker", epoch=1)
    try:
        raise ValueError("why")
    except ValueError as error:
        logger(Log.BROKER).error("failed", exc_info=error)
    (line,) = lines(tmp_path / "broker.log")
    assert "ValueError: why" in line


def test_files_are_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure_logs(tmp_path, actor="broker", epoch=1)
    (handler,) = logging.getLogger("RocketmqBroker").handlers
    assert isinstance(handler, logging.handlers.RotatingFileHandler)
    assert (handler.maxBytes, handler.backupCount) == (128 * 1024 * 1024, 20)
    handler.maxBytes, handler.backupCount = 300, 2
    for number in range(20):
        logger(Log.BROKER).info("fill", number=number)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["broker.log", "broker.log.1", "broker.log.2"]


def test_a_second_configuration_replaces_the_first(tmp_path: Path) -> None:
    configure_logs(tmp_path / "one", actor="broker", epoch=1)
    configure_logs(tmp_path / "two", actor="broker", epoch=2)
    logger(Log.BROKER).info("here")
    assert not list((tmp_path / "one").iterdir())
    assert "epoch=2" in lines(tmp_path / "two" / "broker.log")[0]


def test_levels_below_the_chosen_one_are_left_out(tmp_path: Path) -> None:
    configure_logs(tmp_path, actor="broker", epoch=1, level=logging.WARNING)
    logger(Log.BROKER).info("quiet")
    logger(Log.BROKER).warning("loud")
    assert len(lines(tmp_path / "broker.log")) == 1


def test_lines_of_stdlib_loggers_have_the_same_form(tmp_path: Path) -> None:
    configure_logs(tmp_path, actor="broker", epoch=4)
    logging.getLogger("RocketmqBroker").warning("from %s", "elsewhere")
    (line,) = lines(tmp_path / "broker.log")
    assert "actor=broker broker= epoch=4" in line
    assert 'event="from elsewhere"' in line


def test_a_budget_bounds_what_a_peer_can_cause() -> None:
    budget = LineBudget(lines_per_second_max=2)
    assert [budget.allows(now) for now in (0.0, 0.5, 0.9, 1.0, 1.5, 1.6)] == [
        True,
        True,
        False,
        True,
        True,
        False,
    ]
    assert budget.suppressed_count == 2


def test_a_log_that_cannot_be_written_is_said_once_without_a_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "logs"
    configure_logs(folder, actor="broker", epoch=3)
    folder.rmdir()
    folder.touch()  # as a folder without permission is for root
    for _ in range(3):
        logger(Log.BROKER).info("an event")
    assert capsys.readouterr().err == (
        f"wakelog: the log {folder}/broker.log cannot be written: Not a directory. "
        "Free some space, or change its permissions; it goes on by itself.\n"
    )
    folder.unlink()
    folder.mkdir()
    logger(Log.BROKER).info("an event")
    assert len(lines(folder / "broker.log")) == 1
    assert capsys.readouterr().err == ""


def test_a_full_disk_under_a_log_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logs(tmp_path, actor="broker", epoch=3)
    (tmp_path / "broker.log").symlink_to("/dev/full")
    for _ in range(3):
        logger(Log.BROKER).info("an event")
    assert capsys.readouterr().err.count("No space left on device") == 1


def test_a_cause_is_news_until_it_repeats_and_again_after_it_has_gone() -> None:
    news = News()
    assert [news.is_news(cause) for cause in ("full", "full", "denied")] == [True, False, True]
    news.clear()
    assert news.is_news("denied")


def test_the_page_has_a_row_for_each_file_with_its_rotation() -> None:
    page = Path(__file__).parents[2].joinpath("docs/logs.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)\.log` \| (\d+) MiB \| (\d+) \| (.+) \|$", page, re.MULTILINE)
    assert {(name, int(size) * MEBIBYTE, int(count)) for name, size, count, _ in rows} == {
        (log.value.file_stem, log.value.file_bytes_max, log.value.files_max) for log in Log
    }


def test_the_page_says_of_which_files_nothing_is_written() -> None:
    root = Path(__file__).parents[2]
    source = "".join(path.read_text(encoding="utf-8") for path in root.glob("wakelog/**/*.py"))
    page = root.joinpath("docs/logs.md").read_text(encoding="utf-8")
    for log in Log:
        is_unused = f"Log.{log.name}" not in source
        [row] = [x for x in page.splitlines() if x.startswith(f"| `{log.value.file_stem}.log` ")]
        assert ("nothing yet" in row) == is_unused, row


class HungFile:
    """A file whose writes wait until a test lets them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.goes_on = threading.Event()
        self.written: list[Any] = []
        monkeypatch.setattr(LogFile, "emit", self._emit)

    def _emit(self, record: logging.LogRecord) -> None:
        assert self.goes_on.wait(10)
        self.written.append(record)


def test_an_audit_log_is_written_by_a_thread_and_counts_what_it_loses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "QUEUED_LINES_MAX", 2)
    file = HungFile(monkeypatch)
    configure_logs(tmp_path, actor="broker", epoch=1, level=logging.ERROR)
    for number in range(9):  # one is being written, two wait
        logger(Log.AUDIT).info("UPDATE_AND_CREATE_TOPIC", number=number)
    assert file.written == []
    file.goes_on.set()
    [handler] = logging.getLogger("WakelogAudit").handlers
    assert isinstance(handler, QueuedLogFile)
    while handler._queue.qsize():
        time.sleep(0.001)
    logger(Log.AUDIT).info("DELETE_TOPIC_IN_BROKER")
    unconfigure_logs()
    lost = sum(record.msg.get("lost_count", 0) for record in file.written)
    assert len(file.written) - 1 + lost == 9 and lost >= 6


def test_the_end_of_a_process_waits_not_long_for_an_audit_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "CLOSE_SECONDS_MAX", 0.01)
    file = HungFile(monkeypatch)
    configure_logs(tmp_path, actor="broker", epoch=1)
    logger(Log.AUDIT).info("CLEAN_UNUSED_TOPIC")
    unconfigure_logs()
    assert file.written == []
    file.goes_on.set()


def test_lines_that_were_lost_are_said(tmp_path: Path) -> None:
    configure_logs(tmp_path, actor="broker", epoch=1, log_format=LogFormat.JSON)
    [handler] = logging.getLogger("WakelogAudit").handlers
    assert isinstance(handler, QueuedLogFile)
    handler._lost_count = 3
    for event in ("first", "second"):
        logger(Log.AUDIT).info(event)
    unconfigure_logs()
    first, second = map(json.loads, lines(tmp_path / "audit.log"))
    assert first["lost_count"] == 3 and "lost_count" not in second
