"""The Console actor: it serves from its construction on, and says why it does not."""

import asyncio
import os
import threading
from collections.abc import Sequence

import pytest

from wakelog.actors.ray import console_actor as module
from wakelog.actors.ray.console_actor import TARGET, ConsoleActor
from wakelog.actors.services.table import load

SEEN: list[Sequence[str]] = []
FAILED = threading.Event()
OVER = threading.Event()


def serve(words: Sequence[str]) -> str:
    """Fail twice, then serve until the test is over."""
    SEEN.append(words)
    if len(SEEN) == 1:
        raise AttributeError("a defect")
    if len(SEEN) == 2:
        return "port 8080 is taken"
    FAILED.set()
    OVER.wait()
    return ""


def test_it_serves_again_after_a_failure_and_says_it_until_it_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(os, "nice", lambda by: by)
    actor = ConsoleActor(f"{__name__}:serve", ["console"])
    try:
        assert FAILED.wait(10)
        state = asyncio.run(actor.state())
        assert state == {"process_id": os.getpid(), "failure": "port 8080 is taken"}
        monkeypatch.setattr(module, "SETTLED_SECONDS", -1.0)
        assert asyncio.run(actor.state())["failure"] == ""
        assert SEEN == [("console",)] * 3
    finally:
        monkeypatch.setattr(module, "AGAIN_SECONDS", 3600.0)
        OVER.set()


def test_its_target_is_the_class() -> None:
    assert load(TARGET) is ConsoleActor
