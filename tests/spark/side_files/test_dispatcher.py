"""Every message of the log is in one file, whenever files are due and whatever fails or is cut."""

import errno
from collections import Counter
from random import Random

import pyarrow as pa
import pytest

from tests.fakes.logs import write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.records import STORE_MS, LogBytes, properties
from tests.kinds import some_daily
from tests.simulation.disk import Image, SimulatedDisk, SimulatedFileSystem
from tests.simulation.images import Model, Platter, digest
from tests.spark.side_files.stores import (
    NOW_MS,
    TOPICS,
    log_of,
    places,
    side_config,
    side_files,
    side_table,
)
from wakelog.dispatchers.plugins import PluginCursor
from wakelog.spark.side_files import dispatcher as dispatcher_module
from wakelog.spark.side_files.dispatcher import ParquetDispatcher
from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.paths import offset_name

CONFIG = side_config()
SLOW = side_config(parquet_file_bytes=1 << 20)
STEP_BYTES = 700
IMAGES_COUNT = 30


class Clock:
    def __init__(self) -> None:
        self.now_ms = NOW_MS

    def __call__(self) -> int:
        return self.now_ms


class Run:
    """A broker's life as far as the dispatcher sees it."""

    def __init__(
        self, fs: FileSystem, log: LogBytes, config: StoreConfig = CONFIG, *, end: int | None = None
    ) -> None:
        self.clock = Clock()
        self.end = log.end if end is None else end
        self.ends = log.offsets
        self.made = ParquetDispatcher(fs, config, clock_ms=self.clock)
        self.cursor = PluginCursor(
            fs,
            CommitLogReader(fs, config),
            "parquet",
            lambda _config: self.made,
            config,
            log_end=self.end,
        )

    def follow(self, readable: int | None = None) -> None:
        """Hand over message by message, as they come, flushing in between."""
        readable = self.end if readable is None else readable
        for limit in (*(each for each in self.ends if each < readable), readable):
            while self.cursor.step(limit, STEP_BYTES, self.clock.now_ms):
                pass
            self.cursor.flush(self.clock.now_ms)

    def finish(self, readable: int | None = None) -> None:
        """Follow to the end, and wait until everything is in files."""
        self.follow(readable)
        self.clock.now_ms += CONFIG.parquet_file_age_ms
        self.cursor.flush(self.clock.now_ms)

    @property
    def failures_count(self) -> int:
        return self.cursor.statistics().failures_count


def once(offsets: list[int]) -> Counter[int]:
    return Counter(dict.fromkeys(offsets, 1))


def test_files_come_by_size_and_the_rest_by_age(fs: MemoryFileSystem) -> None:
    log = log_of(64)
    log.write(fs, CONFIG)
    run = Run(fs, log)
    run.follow()
    found = run.made.statistics()
    assert found["files"] > 2 and 0 < found["waiting_bytes"] < CONFIG.parquet_file_bytes
    assert run.cursor.retention_floor == found["position"]
    assert places(fs, CONFIG) == once([each for each in log.offsets if each < found["position"]])
    run.clock.now_ms += CONFIG.parquet_file_age_ms - 1
    run.cursor.flush(run.clock.now_ms)
    assert run.made.statistics()["waiting_bytes"] > 0
    run.clock.now_ms += 1
    run.cursor.flush(run.clock.now_ms)
    assert places(fs, CONFIG) == once(log.offsets)
    found = run.made.statistics()
    assert (found["rows"], found["waiting_bytes"]) == (len(log.offsets), 0)
    assert side_files(fs, CONFIG).keys() == set(TOPICS)


def test_files_come_by_rows(fs: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of()
    log.write(fs, SLOW)
    monkeypatch.setattr(dispatcher_module, "ROWS_MAX", 20)
    run = Run(fs, log, SLOW)
    run.follow()
    assert run.made.statistics()["rows"] >= 40


def test_a_restart_continues_after_the_last_complete_file(fs: MemoryFileSystem) -> None:
    log = log_of()
    log.write(fs, CONFIG)
    first = Run(fs, log)
    first.follow(log.offsets[40])
    before = side_files(fs, CONFIG)
    second = Run(fs, log)
    second.finish()
    assert all(set(names) <= set(side_files(fs, CONFIG)[topic]) for topic, names in before.items())
    assert second.made.statistics()["removed_files"] == 0
    assert places(fs, CONFIG) == once(log.offsets)


def test_a_truncation_removes_the_files_after_it(fs: MemoryFileSystem) -> None:
    log = log_of()
    log.write(fs, CONFIG)
    Run(fs, log).finish()
    cut = log.offsets[33]
    run = Run(fs, log, end=cut)
    run.finish()
    assert places(fs, CONFIG) == once(log.offsets[:33])
    # What was appended in its place is another message.
    run.finish(log.end)
    assert places(fs, CONFIG) == once(log.offsets)


def test_a_log_that_another_broker_continued_is_read_again(fs: MemoryFileSystem) -> None:
    log = log_of()
    log.write(fs, CONFIG)
    Run(fs, log).follow(log.offsets[50])
    other = LogBytes()
    for i in range(30):
        other.add(topic="other", body=b"o" * 333, queue_offset=i)
    other.write(fs, CONFIG)
    Run(fs, other).finish()
    # No record stands where the files ended: from that segment on they are made anew.
    begin = log.offsets[50] // log.segment_bytes * log.segment_bytes
    found = places(fs, CONFIG)
    assert {each: found[each] for each in found if each >= begin} == once(
        [each for each in other.offsets if each >= begin]
    )


def grown_again(log: LogBytes, first: int) -> LogBytes:
    """Return a log that was cut at a message and continued with others of equal length."""
    other = LogBytes()
    for i in range(len(log.offsets)):
        other.add(
            properties(TAGS=f"t{i % 3}", KEYS=f"k{i}"),
            topic=TOPICS[i % 2],
            queue_offset=i // 2,
            body=b"%d" % i * 40,
            store_timestamp_ms=STORE_MS + (i >= first),
        )
    assert other.offsets == log.offsets and other.data != log.data
    return other


@pytest.mark.parametrize("first", [0, 1, 30, 59])
def test_a_log_that_happens_to_have_a_record_where_files_end(
    first: int, fs: MemoryFileSystem
) -> None:
    log = log_of()
    log.write(fs, CONFIG)
    Run(fs, log).finish()
    other = grown_again(log, first)
    other.write(fs, CONFIG)
    run = Run(fs, other)
    run.finish()
    assert places(fs, CONFIG) == once(other.offsets)
    assert times(fs) == [STORE_MS + (i >= first) for i in range(60)]


def times(fs: MemoryFileSystem) -> list[int]:
    """Return when each message in files was stored, in the order of the log."""
    found: dict[int, int] = {}
    for topic, names in side_files(fs, CONFIG).items():
        for name in names:
            table = side_table(fs, CONFIG, f"{topic}/{name}")
            stored = table.column("storeTimestamp").cast(pa.int64()).to_pylist()
            found.update(zip(table.column("commitLogOffset").to_pylist(), stored, strict=True))
    return [found[at] // 1000 for at in sorted(found)]


@pytest.mark.parametrize("users_count", [0, 19, 20, 21])
def test_messages_in_the_place_of_the_systems_are_seen(
    users_count: int, fs: MemoryFileSystem
) -> None:
    system, users = log_of(users_count), log_of(users_count)
    for _ in range(40):
        system.add(topic="SCHEDULE_TOPIC_XXXX")
        users.add(topic="schedule_topic_xxxx")
    system.write(fs, CONFIG)
    Run(fs, system).finish()
    users.write(fs, CONFIG)
    Run(fs, users).finish()
    assert places(fs, CONFIG) == once(users.offsets)


def test_files_of_a_removed_log_go(fs: MemoryFileSystem) -> None:
    log = log_of()
    log.write(fs, CONFIG)
    Run(fs, log).finish()
    other = LogBytes()
    for i in range(90):
        other.add(topic="other", queue_offset=i)
    for name in fs.list_directory(CONFIG.paths.commit_log_directories[0]):
        fs.unlink(f"{CONFIG.paths.commit_log_directories[0]}/{name}")
    other.write(fs, CONFIG)
    Run(fs, other).finish()
    assert side_files(fs, CONFIG).keys() == {"other"}
    assert places(fs, CONFIG) == once(other.offsets)


def test_unreadable_files_are_made_again(fs: MemoryFileSystem) -> None:
    log = log_of()
    log.write(fs, CONFIG)
    Run(fs, log).finish()
    before = places(fs, CONFIG)
    *_, last = side_files(fs, CONFIG)["orders"]
    write_file(fs, f"{CONFIG.paths.side_files_directory}/orders/{last}", b"PAR1 no more")
    run = Run(fs, log)
    run.finish()
    assert places(fs, CONFIG) == before
    assert run.failures_count == 0


def test_files_go_with_their_log(fs: MemoryFileSystem) -> None:
    log = log_of(90)
    log.write(fs, CONFIG)
    run = Run(fs, log)
    run.follow(log.offsets[60])
    gone = 2 * log.segment_bytes
    for at in range(0, gone, log.segment_bytes):
        fs.unlink(f"{CONFIG.paths.commit_log_directories[0]}/{offset_name(at)}")
    run.finish()
    kept = places(fs, CONFIG)
    assert min(kept) < gone + log.segment_bytes
    assert sorted(x for x in kept if x >= gone) == [x for x in log.offsets if x >= gone]
    ends = [int(name[21:41]) for names in side_files(fs, CONFIG).values() for name in names]
    assert min(ends) > gone
    assert run.made.statistics()["removed_files"] > 0


@pytest.mark.parametrize("operation", ["pwrite", "sync", "rename", "sync_directory", "unlink"])
def test_a_failed_write_is_repeated(fs: MemoryFileSystem, operation: str) -> None:
    log = log_of()
    log.write(fs, CONFIG)
    run = Run(fs, log)
    for nth in (1, 2, 5):
        fs.fail(operation, nth=nth, number=errno.ENOSPC)
    for _ in range(6):
        run.finish()
        run.clock.now_ms = max(run.clock.now_ms, run.cursor.retry_at_ms)
    assert operation == "unlink" or run.failures_count > 0
    assert places(fs, CONFIG) == once(log.offsets)
    names = {name for each in side_files(fs, CONFIG).values() for name in each}
    assert not any(name.startswith(".") for name in names)


def crashed(disk: SimulatedDisk, model: Model, rng: Random) -> list[Image]:
    """Return the disks that a crash at any operation may leave."""
    platter = Platter(disk.origin, model)
    found = {}
    for operation in disk.journal:
        platter.take(operation)
        images = [platter.image(each) for each in platter.candidates(rng)]
        found.update({digest(image): image for image in images})
    return list(found.values())


def prepared(log: LogBytes) -> Image:
    """Return a disk with the log, all of it durable."""
    disk = SimulatedDisk(Image({}, frozenset({"/", "/store"})), records=False)
    log.write(disk.process(), CONFIG)
    return disk.image()


@pytest.mark.simulation
@pytest.mark.slow
@pytest.mark.parametrize("model", some_daily(2, Model))
def test_a_crash_anywhere_loses_and_doubles_nothing(model: Model) -> None:
    log = log_of(70)
    cut = log.offsets[37]
    disk = SimulatedDisk(prepared(log))
    Run(disk.process(), log, end=log.offsets[60]).finish()
    # A second life, in which the log had been cut, and grew again.
    second = Run(disk.process(), log, end=cut)
    second.finish()
    second.finish(log.offsets[50])
    rng = Random(7)
    for image in rng.sample(crashed(disk, model, rng), IMAGES_COUNT):
        assert_whole(SimulatedDisk(image, records=False).process(), log, cut)


def assert_whole(fs: SimulatedFileSystem, log: LogBytes, end: int) -> None:
    """Start again after a crash: then every message is in one file."""
    run = Run(fs, log, end=end)
    run.finish()
    assert run.failures_count == 0
    assert places(fs, CONFIG) == once([each for each in log.offsets if each < end])
    run.finish(log.end)
    assert places(fs, CONFIG) == once(log.offsets)
