"""The twins of what runs for each message: both are tested, if the compiled one is there."""

from collections.abc import Iterator
from contextlib import suppress

import pytest

from wakelog.client import consumer_message, plain_messages
from wakelog.compiled import library
from wakelog.compiled.build import BuildFailed, build
from wakelog.compiled.library import choose
from wakelog.protocol import compiled_run, frame, plain_run, record, run_responses
from wakelog.storage.read import reader


def build_library() -> None:
    """Build the library of the sources as they are, and use it though plain Python was chosen."""
    with suppress(BuildFailed):
        build()
    choice = choose()
    if choice.is_compiled and not library.CHOICE.is_compiled:
        vars(library)["CHOICE"] = choice
        compiled_run._library = run_responses._library = reader._library = choice.library
        plain_messages._library = consumer_message._library = choice.library
        record._library = choice.library
        frame.read_run = compiled_run.read_run


def twins() -> Iterator[str]:
    """Yield the names of the twins that are there."""
    yield "plain"
    if library.CHOICE.is_compiled:
        yield "compiled"


def use_twin(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have one twin read frames, write responses and copy records."""
    is_compiled = name == "compiled"
    read_run = compiled_run.read_run if is_compiled else plain_run.read_run
    monkeypatch.setattr(frame, "read_run", read_run)
    for module in (run_responses, reader, plain_messages, consumer_message, record):
        monkeypatch.setattr(module, "_library", library.CHOICE.library if is_compiled else None)
