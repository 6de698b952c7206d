"""What crosses between the Broker and a service arrives as it was."""

import json
import pickle
import sys
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from tests.actors.services.fakes import attach_request
from wakelog.actors.services import session
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


@pytest.mark.parametrize(
    ("has_place", "is_actor", "is_kept"),
    [(False, False, True), (True, False, False), (True, True, True), (False, True, True)],
)
def test_a_crash_leaves_its_stack_with_the_logs_unless_the_program_has_a_place_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_place: bool, is_actor: bool, is_kept: bool
) -> None:
    kept: list[Path] = []
    monkeypatch.setattr("faulthandler.is_enabled", lambda: has_place)
    monkeypatch.setattr(session, "_is_actor", lambda: is_actor)
    monkeypatch.setattr(session, "keep_crash_traces", kept.append)
    open_logs(LogSettings(log_directory=str(tmp_path)), "flush", 3)
    unconfigure_logs()
    assert kept == ([tmp_path] if is_kept else [])


@pytest.mark.parametrize(
    ("is_begun", "actor_id", "is_actor"),
    [(None, "", False), (False, "ab", False), (True, None, False), (True, "ab", True)],
)
def test_ray_says_whether_this_process_is_an_actors(
    monkeypatch: pytest.MonkeyPatch, is_begun: bool | None, actor_id: str | None, is_actor: bool
) -> None:
    context = SimpleNamespace(get_actor_id=lambda: actor_id)
    ray = SimpleNamespace(is_initialized=lambda: is_begun, get_runtime_context=lambda: context)
    monkeypatch.setitem(sys.modules, "ray", None if is_begun is None else ray)
    assert session._is_actor() is is_actor
