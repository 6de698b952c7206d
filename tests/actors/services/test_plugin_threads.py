"""Plug-ins run at their own pace: one that raises or hangs holds nobody, and is left behind."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.actors.plans import service_plan
from tests.actors.recorder import Recorder
from tests.actors.stores import fill, open_plan_store
from wakelog.actors.services import plugin_threads
from wakelog.actors.services.plugin_threads import PluginThread, PluginThreads
from wakelog.dispatchers import plugins
from wakelog.dispatchers.plugins import PluginCursor
from wakelog.storage.errors import StoreFailed
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.commit_log_reader import CommitLogReader

FS = FileSystem()
WAIT_SECONDS_MAX = 10.0


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_SECONDS_MAX
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def run(directory: Path, *plugins: Recorder, count: int) -> tuple[PluginThreads, int]:
    """Run plug-ins over a log with so many messages more; return its end, too."""
    plan = service_plan(directory)
    config = plan.settings.store
    with open_plan_store(plan) as store:
        fill(store, count)
        end = store.log.appended_offset
    cursors = [
        PluginCursor(FS, CommitLogReader(FS, config), one.name, one.made, config, log_end=end)
        for one in plugins
    ]
    threads = PluginThreads(str(directory), cursors, {"broken": "ImportError: no such thing"})
    threads.readable(end)
    return threads, end


def test_a_plugin_gets_the_log_and_is_flushed_at_the_end(tmp_path: Path) -> None:
    plugin = Recorder("recorder")
    threads, end = run(tmp_path, plugin, count=5)
    wait_until(lambda: len(plugin.offsets) == 5)
    # What is not flushed is still needed.
    assert threads.floor(end) == 0
    threads.stop()
    assert plugin.flushed_count == 1 and threads.floor(end) == end
    statistics = threads.statistics()
    assert statistics["running"]["recorder"]["position"] == end
    assert statistics["failures"] == {"broken": "ImportError: no such thing"}


def test_a_plugin_that_has_ended_leaves_no_segment_open(tmp_path: Path) -> None:
    def open_segments() -> set[str]:
        names = (os.readlink(one) for one in Path("/proc/self/fd").iterdir() if one.is_symlink())
        return {name for name in names if name.startswith(f"{tmp_path}/")}

    plugin = Recorder("recorder")
    threads, _ = run(tmp_path, plugin, count=3)
    wait_until(lambda: len(plugin.offsets) == 3)
    assert len(open_segments()) == 1
    threads.stop()
    assert open_segments() == set()


def test_what_a_plugin_has_is_flushed_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin_threads, "FLUSH_SECONDS", 0.01)
    plugin = Recorder("recorder")
    threads, end = run(tmp_path, plugin, count=3)
    wait_until(lambda: threads.floor(end) == end)  # retention may go on
    assert plugin.flushed_count == 1
    threads.stop()


def test_one_that_hangs_delays_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_threads, "JOIN_SECONDS_MAX", 0.05)
    gate = threading.Event()

    def hang() -> None:
        gate.wait()

    hanging, other = Recorder("hanging", hang), Recorder("other")
    threads, end = run(tmp_path, hanging, other, count=3)
    wait_until(lambda: len(other.offsets) == 3)
    began = time.monotonic()
    threads.stop()
    assert time.monotonic() - began < 5
    assert threads.floor(end) == 0
    gate.set()


def test_the_next_one_begins_behind_the_end_of_one_that_hung(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both would write the same files, and the place that is kept."""
    monkeypatch.setattr(plugin_threads, "JOIN_SECONDS_MAX", 0.05)
    gate, done = threading.Event(), list[str]()

    def hang() -> None:
        done.append("begun")
        gate.wait()
        done.append("ended")

    first = Recorder("same", hang)
    before, _ = run(tmp_path, first, count=3)
    wait_until(lambda: bool(done))
    before.stop()
    next_one, other = Recorder("same", lambda: done.append("next")), Recorder("other")
    after, _ = run(tmp_path, next_one, other, count=0)
    wait_until(lambda: len(other.offsets) == 3)
    assert done == ["begun"] and not next_one.offsets
    after.stop()  # leaves one behind that waits for another
    last = Recorder("same", lambda: done.append("last"))
    threads, end = run(tmp_path, last, count=2)
    gate.set()
    wait_until(lambda: len(last.offsets) == 5)
    assert done == ["begun", "ended", "last"] and first.flushed_count == 1
    threads.stop()
    assert threads.floor(end) == end


def test_retention_goes_on_without_one_that_hangs_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(plugins, "STALLED_MS_MAX", 0)
    gate = threading.Event()

    def hang() -> None:
        gate.wait()

    threads, end = run(tmp_path, Recorder("hanging", hang), count=3)
    for _ in range(2):
        assert threads.floor(end) == end
    assert threads.statistics()["running"]["hanging"]["left_behind"] is True
    assert [record.levelname for record in caplog.records] == ["WARNING"], "it is said once"
    gate.set()
    threads.stop()


def test_one_that_raises_is_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    failures = iter([ValueError("not yet")])

    def fail_once() -> None:
        error = next(failures, None)
        if error is not None:
            raise error

    plugin = Recorder("failing", fail_once)
    threads, _ = run(tmp_path, plugin, count=3)
    wait_until(lambda: len(plugin.offsets) == 3)
    assert threads.statistics()["running"]["failing"]["failures_count"] == 1
    threads.stop()
    [line] = [record.getMessage() for record in caplog.records]
    assert "plug-in failed" in line and "not yet" in line


def test_a_log_that_cannot_be_read_for_a_while_is_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin_threads, "AGAIN_SECONDS", 0.0)
    step, refused = PluginCursor.step, list[int]()

    def refuse_twice(cursor: PluginCursor, readable: int, bytes_max: int, now_ms: int) -> bool:
        if readable and len(refused) < 2:
            refused.append(readable)
            raise StoreFailed("/store", "read", OSError(5, "Input/output error"))
        return step(cursor, readable, bytes_max, now_ms)

    monkeypatch.setattr(PluginCursor, "step", refuse_twice)
    plugin = Recorder("recorder")
    threads, end = run(tmp_path, plugin, count=3)
    wait_until(lambda: len(plugin.offsets) == 3)
    assert refused == [end, end]
    threads.stop()


@pytest.mark.parametrize(
    ("flushed_ago", "retry_in", "seconds"),
    [
        (0.25, None, 0.75),
        (1.0, None, 1.0),  # a flush is done before it waits again
        (3.0, None, 1.0),
        (0.25, 0.5, 0.5),
        (0.25, 0.75, 0.75),
        (0.25, 30.0, 0.75),
        (0.25, -0.5, 0.0),
        (1.0, 0.5, 0.5),
        (1.0, 2.0, 1.0),
    ],
)
def test_it_waits_until_a_flush_or_another_try_is_due(
    monkeypatch: pytest.MonkeyPatch, flushed_ago: float, retry_in: float | None, seconds: float
) -> None:
    wall, steady = 4_096.0, 64.0
    clock = SimpleNamespace(monotonic=lambda: steady, time=lambda: wall)
    monkeypatch.setattr(plugin_threads, "time", clock)
    retry_at_ms = 0 if retry_in is None else int((wall + retry_in) * 1_000)
    thread: Any = SimpleNamespace(_cursor=SimpleNamespace(retry_at_ms=retry_at_ms))
    assert PluginThread._wait_seconds(thread, steady - flushed_ago) == seconds
