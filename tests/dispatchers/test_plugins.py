"""Dispatchers of others: found, run apart, tried again, given up; the example is one."""

import json
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from examples.dispatcher_plugin import TopicCounter
from tests.dispatchers.stores import NOW_MS, dispatch_config
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.records import LogBytes
from wakelog.dispatchers.consume_queue import ConsumeQueueDispatcher
from wakelog.dispatchers.dispatcher import DispatchBatch
from wakelog.dispatchers.filter_bitmap import FilterBitmap
from wakelog.dispatchers.index import IndexDispatcher
from wakelog.dispatchers.plugins import (
    ATTEMPTS_MAX,
    CORE_NAMES,
    ENTRY_POINT_GROUP,
    HELD_BYTES_MAX,
    RETRY_MS_MAX,
    RETRY_MS_MIN,
    STALLED_MS_MAX,
    PluginCursor,
    RetentionHold,
    find_plugins,
    own_plugins,
)
from wakelog.storage.config import StoreConfig
from wakelog.storage.log.commit_log_reader import CommitLogReader

CONFIG = dispatch_config()
EVERYTHING = 1 << 40


class Listener:
    """A plug-in that remembers what it got and fails on request."""

    name = "listener"

    def __init__(self, config: StoreConfig = CONFIG) -> None:
        self.seen: list[int] = []
        self.flushed_count = 0
        self.needed = 0
        self.failing: set[str] = set()
        self.durable: int | None = None

    def _act(self, action: str) -> None:
        if action in self.failing:
            raise RuntimeError(f"{action} failed")

    def dispatch(self, batch: DispatchBatch) -> None:
        self._act("dispatch")
        self.seen += [request.physical_offset for request in batch.requests]

    def flush(self) -> int | None:
        self._act("flush")
        self.flushed_count += 1
        return self.durable

    def recover(self, max_physical_offset: int) -> int:
        self._act("recover")
        return self.needed

    def truncate(self, physical_offset: int) -> int:
        return 0

    def statistics(self) -> dict[str, int]:
        self._act("statistics")
        return {"seen_count": len(self.seen)}


def log_of(count: int = 30) -> LogBytes:
    log = LogBytes()
    for i in range(count):
        log.add(body=b"x" * 200, topic="AB"[i % 2])
    return log


def open_cursor(
    fs: MemoryFileSystem, log: LogBytes, listener: Listener, *, log_end: int | None = None
) -> PluginCursor:
    log.write(fs, CONFIG)
    return PluginCursor(
        fs,
        CommitLogReader(fs, CONFIG),
        "listener",
        lambda _config: listener,
        CONFIG,
        log_end=log.end if log_end is None else log_end,
    )


def test_gets_every_record_once(fs: MemoryFileSystem) -> None:
    log, listener = log_of(), Listener()
    cursor = open_cursor(fs, log, listener)
    assert cursor.step(log.end, 1, NOW_MS)
    while cursor.step(log.end, 1, NOW_MS):
        pass
    assert listener.seen == log.offsets
    assert cursor.statistics().position == log.end


def test_keeps_its_position_over_a_restart(fs: MemoryFileSystem) -> None:
    log, listener = log_of(), Listener()
    cursor = open_cursor(fs, log, listener)
    cursor.step(log.offsets[9], EVERYTHING, NOW_MS)
    assert cursor.flush(NOW_MS)
    assert listener.flushed_count == 1
    cursor.step(log.offsets[12], EVERYTHING, NOW_MS)

    again = Listener()
    again.needed = 1 << 40  # a plug-in that keeps nothing trusts the kept position
    cursor = open_cursor(fs, log, again)
    cursor.step(log.end, EVERYTHING, NOW_MS)
    assert again.seen == log.offsets[9:]


def test_begins_where_the_plugin_needs_it(fs: MemoryFileSystem) -> None:
    log, listener = log_of(), Listener()
    cursor = open_cursor(fs, log, listener)
    cursor.step(log.end, EVERYTHING, NOW_MS)
    cursor.flush(NOW_MS)
    again = Listener()
    again.needed = log.offsets[3]
    open_cursor(fs, log, again).step(log.end, EVERYTHING, NOW_MS)
    assert again.seen == log.offsets[3:]


def test_what_was_cut_from_the_log_comes_again(fs: MemoryFileSystem) -> None:
    log, listener = log_of(), Listener()
    cursor = open_cursor(fs, log, listener)
    cursor.step(log.end, EVERYTHING, NOW_MS)
    cursor.flush(NOW_MS)
    # The log was cut after record 20 and has grown again since.
    again = Listener()
    again.needed = 1 << 40
    cursor = open_cursor(fs, log, again, log_end=log.offsets[20])
    cursor.step(log.end, EVERYTHING, NOW_MS)
    assert again.seen == log.offsets[20:]


def test_has_a_lag_of_its_own(fs: MemoryFileSystem) -> None:
    log, listener = log_of(), Listener()
    cursor = open_cursor(fs, log, listener)
    listener.failing = {"dispatch"}
    assert not cursor.step(log.end, EVERYTHING, NOW_MS)
    statistics = cursor.statistics()
    assert statistics.lag_bytes == log.end
    assert statistics.failures_count == 1
    assert statistics.last_error == "RuntimeError: dispatch failed"
    assert statistics.dispatcher == {"seen_count": 0}


@pytest.mark.parametrize("action", ["recover", "dispatch", "flush"])
def test_is_tried_again_later(fs: MemoryFileSystem, action: str) -> None:
    log, listener = log_of(), Listener()
    cursor = open_cursor(fs, log, listener)
    listener.failing = {action}
    cursor.step(log.end, EVERYTHING, NOW_MS)
    cursor.flush(NOW_MS)
    assert cursor.retry_at_ms == NOW_MS + RETRY_MS_MIN
    listener.failing = set()
    cursor.step(log.end, EVERYTHING, NOW_MS + RETRY_MS_MIN - 1)
    if action != "flush":
        assert listener.seen == []
    cursor.step(log.end, EVERYTHING, NOW_MS + RETRY_MS_MIN)
    assert cursor.flush(NOW_MS + RETRY_MS_MIN)
    assert listener.seen == log.offsets
    assert cursor.retry_at_ms == 0
    assert cursor.statistics().attempts_count == 0


def test_a_clock_that_is_set_back_holds_up_no_retry(fs: MemoryFileSystem) -> None:
    log, listener = log_of(), Listener()
    cursor = open_cursor(fs, log, listener)
    listener.failing = {"dispatch"}
    cursor.step(log.end, EVERYTHING, NOW_MS)
    listener.failing = set()
    cursor.step(log.end, EVERYTHING, NOW_MS - RETRY_MS_MAX - 1)
    assert listener.seen == log.offsets


def test_waits_longer_each_time_and_is_given_up(fs: MemoryFileSystem) -> None:
    log, listener = log_of(), Listener()
    cursor = open_cursor(fs, log, listener)
    listener.failing = {"dispatch"}
    now_ms, delays = NOW_MS, []
    while not cursor.given_up:
        cursor.step(log.end, EVERYTHING, now_ms)
        delays.append(cursor.retry_at_ms - now_ms)
        cursor.step(log.end, EVERYTHING, now_ms)  # too early
        now_ms = cursor.retry_at_ms
    assert len(delays) == ATTEMPTS_MAX
    assert delays[:3] == [RETRY_MS_MIN, 2 * RETRY_MS_MIN, 4 * RETRY_MS_MIN]
    assert delays[-1] == RETRY_MS_MAX
    listener.failing = set()
    assert not cursor.step(log.end, EVERYTHING, now_ms + RETRY_MS_MAX)
    assert not cursor.flush(now_ms)
    assert listener.seen == []
    assert cursor.retention_floor is None


def test_retention_keeps_what_was_not_flushed(fs: MemoryFileSystem) -> None:
    log, listener = log_of(), Listener()
    cursor = open_cursor(fs, log, listener)
    assert cursor.retention_floor == 0
    cursor.step(log.offsets[9], EVERYTHING, NOW_MS)
    assert cursor.retention_floor == 0
    cursor.flush(NOW_MS)
    assert cursor.retention_floor == log.offsets[9]


def test_a_plugin_may_flush_less_than_it_consumed(fs: MemoryFileSystem) -> None:
    log, listener = log_of(), Listener()
    listener.durable = log.offsets[4]
    cursor = open_cursor(fs, log, listener)
    cursor.step(log.end, EVERYTHING, NOW_MS)
    assert cursor.flush(NOW_MS)
    assert cursor.retention_floor == log.offsets[4]
    again = Listener()
    again.needed = 1 << 40
    open_cursor(fs, log, again).step(log.end, EVERYTHING, NOW_MS)
    assert again.seen == log.offsets[4:]


def test_flushing_waits_for_the_next_attempt_too(fs: MemoryFileSystem) -> None:
    log, listener = log_of(), Listener()
    cursor = open_cursor(fs, log, listener)
    listener.failing = {"flush"}
    cursor.step(log.end, EVERYTHING, NOW_MS)
    for _ in range(ATTEMPTS_MAX):
        assert not cursor.flush(NOW_MS)
    assert cursor.statistics().failures_count == 1
    listener.failing = set()
    assert cursor.flush(NOW_MS + RETRY_MS_MIN)


def test_our_own_is_there_where_it_is_asked_for() -> None:
    assert own_plugins(CONFIG) == []
    [plugin] = own_plugins(dispatch_config(parquet_dispatcher=True))
    assert plugin.name == "parquet"
    assert plugin.make is not None
    assert plugin.make(CONFIG).name == "parquet"
    [taken] = find_plugins([EntryPoint("parquet", "strangers:Other", ENTRY_POINT_GROUP)])
    assert "taken" in taken.failure


def test_the_lag_grows_while_a_step_hangs_without_a_call_of_the_plugin(
    fs: MemoryFileSystem,
) -> None:
    log, listener = log_of(), Listener()
    cursor = open_cursor(fs, log, listener)
    seen: list[tuple[int, int]] = []

    def check(_batch: DispatchBatch) -> None:
        # As from another thread, while this one is in here.
        listener.failing = {"statistics"}
        statistics = cursor.statistics(readable=log.end)
        seen.append((statistics.position, statistics.lag_bytes))
        assert statistics.last_error == ""
        listener.failing = set()

    listener.dispatch = check  # type: ignore[method-assign, assignment]
    cursor.step(log.offsets[1], EVERYTHING, NOW_MS)
    assert seen == [(0, log.end)]


def test_counters_that_raise_do_no_harm(fs: MemoryFileSystem) -> None:
    log, listener = log_of(), Listener()
    cursor = open_cursor(fs, log, listener)
    listener.failing = {"statistics"}
    cursor.step(log.end, EVERYTHING, NOW_MS)
    assert listener.seen == log.offsets
    assert cursor.statistics().dispatcher == {}
    assert "statistics failed" in cursor.statistics().last_error


def point(name: str, value: str = "tests.dispatchers.test_plugins:Listener") -> EntryPoint:
    return EntryPoint(name, value, ENTRY_POINT_GROUP)


def test_finds_what_packages_offer_and_imports_nothing() -> None:
    plugins = find_plugins([point("second"), point("first"), point("gone", "no.such.module:it")])
    assert [plugin.name for plugin in plugins] == ["first", "gone", "second"]
    assert all(plugin.make is not None and not plugin.failure for plugin in plugins)
    assert find_plugins() == []


@pytest.mark.parametrize(("name", "failure"), [("../x", "a-z"), ("index", "taken")])
def test_a_name_that_cannot_be_says_why(name: str, failure: str) -> None:
    sound, unusable = sorted(
        find_plugins([point("sound"), point(name)]), key=lambda plugin: plugin.make is None
    )
    assert sound.make is not None
    assert unusable.make is None
    assert failure in unusable.failure


@pytest.mark.parametrize(
    ("value", "failure"),
    [
        ("no.such.module:thing", "ModuleNotFoundError"),
        ("json:nothing", "AttributeError"),
        ("tests.dispatchers.test_plugins:broken_factory", "RuntimeError: no"),
    ],
)
def test_one_that_cannot_be_made_says_why_and_is_tried_again(
    fs: MemoryFileSystem, value: str, failure: str
) -> None:
    log = log_of()
    log.write(fs, CONFIG)
    [plugin] = find_plugins([point("broken", value)])
    assert plugin.make is not None
    reader = CommitLogReader(fs, CONFIG)
    cursor = PluginCursor(fs, reader, "broken", plugin.make, CONFIG, log_end=log.end)
    assert not cursor.step(log.end, EVERYTHING, NOW_MS)
    statistics = cursor.statistics()
    assert failure in statistics.last_error and statistics.lag_bytes == log.end
    assert cursor.retry_at_ms == NOW_MS + RETRY_MS_MIN
    assert cursor.retention_floor == 0


def broken_factory(config: StoreConfig) -> Listener:
    raise RuntimeError("no")


def test_one_that_was_made_is_not_made_again(fs: MemoryFileSystem) -> None:
    log, listener, made = log_of(), Listener(), []
    log.write(fs, CONFIG)
    listener.failing = {"recover"}

    def make(_config: StoreConfig) -> Listener:
        made.append(1)
        return listener

    reader = CommitLogReader(fs, CONFIG)
    cursor = PluginCursor(fs, reader, "listener", make, CONFIG, log_end=log.end)
    cursor.step(log.end, EVERYTHING, NOW_MS)
    listener.failing = set()
    cursor.step(log.end, EVERYTHING, NOW_MS + RETRY_MS_MIN)
    assert listener.seen == log.offsets and made == [1]


def test_the_same_name_twice_is_used_once() -> None:
    plugins = find_plugins([point("one"), point("one")])
    assert [plugin.make is None for plugin in plugins] == [False, True]


def test_the_example_counts_each_message_once(fs: MemoryFileSystem, tmp_path: Path) -> None:
    log = log_of()
    log.write(fs, CONFIG)
    config = StoreConfig(store_path_root=str(tmp_path))

    def run(readable: int, *, log_end: int, end: Callable[[PluginCursor], object]) -> None:
        cursor = PluginCursor(
            fs,
            CommitLogReader(fs, CONFIG),
            "topic_counter",
            lambda _config: TopicCounter(config),
            CONFIG,
            log_end=log_end,
        )
        cursor.step(readable, EVERYTHING, NOW_MS)
        end(cursor)

    def counts() -> dict[str, int]:
        found: dict[str, int] = json.loads((tmp_path / "topic_counts.json").read_text())["counts"]
        return found

    run(log.offsets[20], log_end=log.end, end=lambda cursor: cursor.flush(NOW_MS))
    assert counts() == {"A": 10, "B": 10}
    run(log.end, log_end=log.end, end=lambda cursor: None)  # killed before it flushed
    run(log.end, log_end=log.end, end=lambda cursor: cursor.flush(NOW_MS))
    assert counts() == {"A": 15, "B": 15}
    # The log was cut: the plug-in counts again.
    run(log.offsets[10], log_end=log.offsets[10], end=lambda cursor: cursor.flush(NOW_MS))
    assert counts() == {"A": 5, "B": 5}


def test_one_that_hangs_holds_retention_back_for_a_time() -> None:
    hold = RetentionHold()
    assert hold.must_keep(10, 100, 0)
    assert hold.must_keep(10, 200, STALLED_MS_MAX - 1)
    assert not hold.must_keep(10, 300, STALLED_MS_MAX)
    assert hold.left_behind


def test_one_that_has_everything_does_not_hang() -> None:
    hold = RetentionHold()
    assert hold.must_keep(100, 100, 0)
    assert hold.must_keep(100, 100, 10 * STALLED_MS_MAX)
    # The time begins when there is something to consume.
    assert hold.must_keep(100, 200, 11 * STALLED_MS_MAX - 1)
    assert not hold.must_keep(100, 200, 11 * STALLED_MS_MAX)


def test_one_that_is_far_behind_holds_nothing_back() -> None:
    hold = RetentionHold()
    assert hold.must_keep(0, HELD_BYTES_MAX, 0)
    assert not hold.must_keep(0, HELD_BYTES_MAX + 1, 1)


def test_one_that_goes_on_holds_again() -> None:
    hold = RetentionHold()
    hold.must_keep(10, 100, 0)
    assert not hold.must_keep(10, 100, STALLED_MS_MAX)
    assert hold.must_keep(11, 100, STALLED_MS_MAX + 1)
    assert not hold.left_behind


def test_no_plugin_takes_the_name_of_a_built_in_dispatcher() -> None:
    built_in = (ConsumeQueueDispatcher, FilterBitmap, IndexDispatcher)
    assert {kind.name for kind in built_in} <= CORE_NAMES
