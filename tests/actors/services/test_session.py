"""What crosses between the Broker and a service arrives as it was."""

import json
import pickle
from pathlib import Path

import msgspec

from tests.actors.services.fakes import attach_request
from wakelog.actors.services.session import AttachRequest, Refused, open_logs
from wakelog.actors.transport.service_plan import LogSettings
from wakelog.telemetry.logs import Log, LogFormat, LogLevel, logger, unconfigure_logs


def test_a_request_to_attach_travels_as_builtins() -> None:
    request = attach_request(appended=9, delay_positions={1: 5, 18: 0}, dispatch_from=3)
    crossed = pickle.loads(pickle.dumps(msgspec.to_builtins(request)))
    assert msgspec.convert(crossed, AttachRequest) == request


def test_a_refusal_crosses_processes_with_its_words() -> None:
    refused = pickle.loads(pickle.dumps(Refused("no such folder", "Make it.")))
    assert (str(refused), refused.reason, refused.remedy) == ("no such folder",) * 2 + ("Make it.",)


def test_logs_have_the_level_and_the_format_that_are_set(tmp_path: Path) -> None:
    settings = LogSettings(
        log_directory=str(tmp_path), log_level=LogLevel.WARNING, log_format=LogFormat.JSON
    )
    open_logs(settings, "namesrv", 3)
    logger(Log.NAME_SERVER).info("left out")
    logger(Log.NAME_SERVER).warning("written")
    unconfigure_logs()
    [path] = tmp_path.iterdir()  # pytest keeps its own stacks
    [line] = map(json.loads, path.read_text().splitlines())
    assert (line["event"], line["actor"], line["epoch"]) == ("written", "namesrv", 3)
