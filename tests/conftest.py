"""What every test gets: the accounting by kind, places for files, and the leftover check."""

import gc
import os
import shutil
import signal
import tempfile
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.compat.standby_processes import end_standbys
from tests.leftovers import SESSION_VARIABLE, Leftovers, Watcher, make_session_directory
from tests.twins import build_library

pytest_plugins = ["tests.kinds", "pytester"]

settings.register_profile("daily", max_examples=30, deadline=None, derandomize=True, database=None)
settings.register_profile("long", max_examples=500, deadline=None, database=None)

_DIRECTORY = pytest.StashKey[Path]()
_LEFTOVERS = pytest.StashKey[Leftovers]()
_WATCHER = pytest.StashKey[Watcher]()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the house rules to `./dev check`, which runs them beside a run of everything."""
    is_everything = config.getoption("--split") or config.getoption("--share")
    return True if is_everything and collection_path.name == "test_tidy.py" else None


def pytest_configure(config: pytest.Config) -> None:
    """Give the session, and all it starts, a word and a temporary directory of their own."""
    build_library()
    settings.load_profile("long" if config.getoption("--long") else "daily")
    # Whoever ends the session from outside still gets every fixture's end.
    # And a program under test gets SIGINT, though a shell started this session in the background.
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    session = uuid.uuid4().hex
    directory = make_session_directory()
    os.environ[SESSION_VARIABLE] = session
    os.environ["TMPDIR"] = tempfile.tempdir = str(directory)
    config.stash[_DIRECTORY] = directory
    config.stash[_LEFTOVERS] = Leftovers(session, directory)
    config.stash[_WATCHER] = Watcher(session, directory)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave the million objects that tests are made of out of every collection after this."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a session that leaves something behind.

    Last of all, since this is where an interrupted session ends its fixtures.
    """
    end_standbys()
    leftovers, watcher = session.config.stash[_LEFTOVERS], session.config.stash[_WATCHER]
    watcher.stop()
    leftovers.note_files(watcher.noted())
    found = leftovers.wait_none()
    if found:
        session.config.pluginmanager.getplugin("wakelog-accountant").report_outside(found)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove what the tests wrote; `--basetemp DIR` is the way to keep it for a look."""
    config.stash[_WATCHER].close()
    shutil.rmtree(config.stash[_DIRECTORY], ignore_errors=True)


@pytest.fixture
def short_path() -> Iterator[Path]:
    """Yield a directory whose path is short: a UNIX socket's has about a hundred characters."""
    path = Path(tempfile.mkdtemp())
    yield path
    shutil.rmtree(path)
