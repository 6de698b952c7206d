"""Logs: one logger per appender of 4.9.3, text or JSON, rotated, written through stdlib handlers.

Each process of a group calls ``configure_logs`` once with the name of its actor and its epoch; both
stand in every line. The Broker's files have 4.9.3's names (``broker.log``, ``store.log``), which
operators know. Every other actor writes files of its own, such as ``store-reput.log``: two
processes cannot rotate one file.

Sizes and numbers of files are those of 4.9.3's ``logback_broker.xml`` and ``logback_namesrv.xml``.

Invariants:
    - one event is one line: control characters in values are escaped, so a topic name or a remark
      from the network cannot forge a line.
    - bytes are never written, only their number: no message body reaches a log.

Source: distribution/conf/logback_broker.xml, org.apache.rocketmq.common.constant.LoggerName
(4.9.3).
"""

import contextlib
import logging
import logging.handlers
import queue
import sys
import threading
from collections.abc import MutableMapping
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any, cast

import msgspec
import structlog

MEBIBYTE = 1024 * 1024

QUEUED_LINES_MAX = 10_000
"""Lines that wait for the thread of an audit log: an administrator who makes so many topics."""

CLOSE_SECONDS_MAX = 2.0
"""How long the end of a process waits for the last lines of an audit log."""

Event = MutableMapping[str, Any]
"""A line on its way through structlog's processors."""


class Appender(msgspec.Struct, frozen=True):
    """One log file: its logger's name, the file's stem, and when it rotates.

    is_audit: it is written at every level, and by a thread of its own.
    """

    logger_name: str
    file_stem: str
    file_bytes_max: int
    files_max: int
    is_audit: bool = False


class Log(Enum):
    """The loggers, by what they are for. All but the last are 4.9.3's."""

    BROKER = Appender("RocketmqBroker", "broker", 128 * MEBIBYTE, 20)
    STORE = Appender("RocketmqStore", "store", 128 * MEBIBYTE, 10)
    STORE_ERROR = Appender("RocketmqStoreError", "storeerror", 100 * MEBIBYTE, 10)
    WATER_MARK = Appender("RocketmqWaterMark", "watermark", 100 * MEBIBYTE, 10)
    PROTECTION = Appender("RocketmqProtection", "protection", 100 * MEBIBYTE, 10)
    REMOTING = Appender("RocketmqRemoting", "remoting", 100 * MEBIBYTE, 10)
    REBALANCE_LOCK = Appender("RocketmqRebalanceLock", "lock", 100 * MEBIBYTE, 5)
    FILTER = Appender("RocketmqFilter", "filter", 100 * MEBIBYTE, 10)
    TRANSACTION = Appender("RocketmqTransaction", "transaction", 100 * MEBIBYTE, 10)
    NAME_SERVER = Appender("RocketmqNamesrv", "namesrv", 100 * MEBIBYTE, 5)
    AUDIT = Appender("WakelogAudit", "audit", 10 * MEBIBYTE, 20, is_audit=True)


class LogLevel(StrEnum):
    """The least important lines that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How a line looks."""

    TEXT = "text"
    JSON = "json"


FILES_OF_BROKER = "broker"
"""The actor whose files carry 4.9.3's bare names."""

DIRECTORY_MODE = 0o750
"""Lines name topics, groups and addresses, which are not for every user of the machine."""

VALUE_CHARACTERS_MAX = 4096
"""A longer value is cut: a remark or a host name from the network must not fill a disk."""


def logger(log: Log) -> structlog.stdlib.BoundLogger:
    """Return the logger of one appender; before configuration stdlib's defaults write it."""
    wrapped = structlog.wrap_logger(
        logging.getLogger(log.value.logger_name),
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.processors.format_exc_info,
            _hide_bytes,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        context_class=dict,
    )
    return cast(structlog.stdlib.BoundLogger, wrapped)


def configure_logs(
    directory: Path,
    *,
    actor: str,
    epoch: int,
    broker: str = "",
    log_format: LogFormat = LogFormat.TEXT,
    level: int = logging.INFO,
) -> None:
    """Give every logger its rotated file in ``directory``; a second call replaces the first.

    broker: for which this process works, "" for several or none.
    Files appear with their first line, so that an actor leaves none it has nothing to say in.
    """
    directory.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
    formatter = _formatter(log_format, actor, broker, epoch)
    for log in Log:
        appender = log.value
        target = logging.getLogger(appender.logger_name)
        close_handlers(target)
        kind = QueuedLogFile if appender.is_audit else LogFile
        handler = kind(
            directory / file_name(appender, actor),
            maxBytes=appender.file_bytes_max,
            backupCount=appender.files_max,
            encoding="utf-8",
            delay=True,
        )
        handler.setFormatter(formatter)
        target.addHandler(handler)
        target.setLevel(logging.INFO if appender.is_audit else level)
        target.propagate = False


def unconfigure_logs() -> None:
    """Close every file and give the loggers back to stdlib's defaults."""
    for log in Log:
        target = logging.getLogger(log.value.logger_name)
        close_handlers(target)
        target.propagate = True
        target.setLevel(logging.NOTSET)


def close_handlers(target: logging.Logger) -> None:
    """Take every handler off a logger and close it."""
    for handler in list(target.handlers):
        target.removeHandler(handler)
        handler.close()


def file_name(appender: Appender, actor: str) -> str:
    """Return the name of the file in which ``actor`` writes this appender's lines."""
    if actor == FILES_OF_BROKER:
        return f"{appender.file_stem}.log"
    return f"{appender.file_stem}-{actor}.log"


def _formatter(log_format: LogFormat, actor: str, broker: str, epoch: int) -> logging.Formatter:
    """Return the formatter of every handler of this process."""

    def add_origin(_logger: Any, _method: str, event: Event) -> Event:
        event["epoch"] = epoch
        event.setdefault("actor", actor)  # one process may have a name server as well
        event.setdefault("broker", broker)  # the Supervisor's lines are about one of several
        return event

    rendering: list[structlog.typing.Processor]
    if log_format is LogFormat.JSON:
        # What JSON has no form for becomes its text.
        rendering = [
            lambda _logger, _method, event: msgspec.json.encode(event, enc_hook=str).decode()
        ]
    else:
        order = ["timestamp", "level", "actor", "broker", "epoch", "logger", "event"]
        rendering = [
            _escape,
            structlog.processors.LogfmtRenderer(key_order=order, bool_as_flag=False),
        ]
    return structlog.stdlib.ProcessorFormatter(
        processors=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            add_origin,
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            *rendering,
        ],
        foreign_pre_chain=[structlog.stdlib.ExtraAdder(), structlog.processors.format_exc_info],
    )


def _hide_bytes(_logger: Any, _method: str, event: Event) -> Event:
    """Replace every bytes value by its length and cut long texts."""
    for key, value in event.items():
        if isinstance(value, bytes | bytearray | memoryview):
            event[key] = f"<{len(value)} bytes>"
        elif isinstance(value, str) and len(value) > VALUE_CHARACTERS_MAX and key != "exception":
            event[key] = value[:VALUE_CHARACTERS_MAX] + "..."
    return event


def _escape(_logger: Any, _method: str, event: Event) -> Event:
    """Escape control characters that would break or colour a line of text."""
    for key, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[key] = value.encode("unicode_escape").decode("ascii")
    return event


class LineBudget:
    """A bound on lines that a peer can cause: a flood of bad frames must not become one of lines.

    Not for lines that an operator has to see; those are rare by nature.
    """

    def __init__(self, lines_per_second_max: int = 20) -> None:
        """Allow so many lines in each second of the caller's clock."""
        self._lines_max = lines_per_second_max
        self._second = -1
        self._lines = 0
        self.suppressed_count = 0

    def allows(self, now_seconds: float) -> bool:
        """Count one line; False if this second has had its share."""
        second = int(now_seconds)
        if second != self._second:
            self._second, self._lines = second, 0
        self._lines += 1
        if self._lines > self._lines_max:
            self.suppressed_count += 1
            return False
        return True


class News:
    """A cause that repeats: it is a line once, and again after it has gone."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = ""

    def is_news(self, cause: str) -> bool:
        """Note a cause; return whether it is another one than the last."""
        last, self._last = self._last, cause
        return cause != last

    def clear(self) -> None:
        """Note that there is no cause any more."""
        self._last = ""


class LogFile(logging.handlers.RotatingFileHandler):
    """A file of lines. That it cannot be written is said once, on standard error.

    The stdlib's handler prints a stack trace for each line. Lines that cannot be written are lost;
    the broker goes on.
    """

    _refusal = ""
    _refused = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        self._refused = False
        super().emit(record)
        if not self._refused:
            self._refusal = ""

    def close(self) -> None:
        """Close the file; what it holds unwritten on a full disk is lost."""
        with contextlib.suppress(OSError):
            super().close()

    def handleError(self, record: logging.LogRecord) -> None:
        """Say why a line was not written, unless that was said."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        self._refused = True
        refusal = error.strerror or str(error)
        if refusal != self._refusal and sys.stderr is not None:
            self._refusal = refusal
            sys.stderr.write(
                f"wakelog: the log {self.baseFilename} cannot be written: {refusal}. "
                "Free some space, or change its permissions; it goes on by itself.\n"
            )


class QueuedLogFile(LogFile):
    """A file that a thread writes, so that a disk that hangs holds up no request.

    More than `QUEUED_LINES_MAX` lines that wait are lost; how many is said in the next line.
    """

    _thread: threading.Thread | None = None
    _lost_count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Have a line written."""
        if self._thread is None:
            self._queue: queue.Queue[logging.LogRecord | None] = queue.Queue(QUEUED_LINES_MAX)
            self._thread = threading.Thread(target=self._write, name="audit-log", daemon=True)
            self._thread.start()
        if self._lost_count and isinstance(record.msg, dict):
            record.msg["lost_count"] = self._lost_count
        try:
            self._queue.put_nowait(record)
        except queue.Full:
            self._lost_count += 1
        else:
            self._lost_count = 0

    def close(self) -> None:
        """Write what waits, unless the disk takes longer than `CLOSE_SECONDS_MAX`."""
        thread, self._thread = self._thread, None
        if thread is not None:
            with contextlib.suppress(queue.Full):
                self._queue.put(None, timeout=CLOSE_SECONDS_MAX)
            thread.join(CLOSE_SECONDS_MAX)
        super().close()

    def _write(self) -> None:
        while (record := self._queue.get()) is not None:
            super().emit(record)
