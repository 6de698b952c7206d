"""The index falls behind a flood of keys, catches up in pieces, and loses no key at a kill."""

from itertools import pairwise

import pytest

from tests.dispatchers.stores import NOW_MS, dispatch_config, queue_entries
from tests.fakes.logs import read_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.records import LogBytes, properties
from wakelog.compiled.columns import ScanFunctions
from wakelog.dispatchers import core_dispatchers, lagging_dispatcher, log_cursor
from wakelog.dispatchers.lagging_dispatcher import LaggingDispatcher
from wakelog.dispatchers.log_cursor import LogCursor
from wakelog.dispatchers.reput import FlushJob, Reput
from wakelog.storage.durability.dispatched import DispatchedFile
from wakelog.storage.errors import StoreFull
from wakelog.storage.index.index_service import IndexReader
from wakelog.storage.index.index_writer import index_words
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.log.dispatch_request import DispatchRequest

EVERYTHING = 1 << 40
FLOOD_KEYS = 80
RECORDS = 12
SHAPE = {"index_slot_count": 2_000, "index_entry_count": 4_000}


@pytest.fixture(autouse=True, params=[200, 30], ids=["some records", "part of a record"])
def keys_max(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many keys a piece has."""
    keys_max = int(request.param)
    monkeypatch.setattr(lagging_dispatcher, "KEYS_MAX", keys_max)
    monkeypatch.setattr(log_cursor, "BULK_BYTES_MIN", 1)
    return keys_max


def flood() -> LogBytes:
    log = LogBytes()
    for number in range(RECORDS):
        words = " ".join(f"k{number}.{word}" for word in range(FLOOD_KEYS))
        log.add(properties(KEYS=words), body=b"x", queue_offset=number)
    return log


def open_reput(
    fs: MemoryFileSystem, log: LogBytes, functions: ScanFunctions | None, *, lags: bool = True
) -> Reput:
    config = dispatch_config(**SHAPE)
    log.write(fs, config)
    reader = CommitLogReader(fs, config)
    dispatchers = core_dispatchers(fs, config, reader)
    cursor = LogCursor(CommitLogReader(fs, config), config.delays_ms, functions=functions)
    return Reput(
        fs,
        reader,
        dispatchers,
        config,
        functions=functions,
        lagging=LaggingDispatcher(dispatchers[-1], cursor) if lags else None,
    )


def finish(reput: Reput, log: LogBytes) -> int:
    """Step until nothing is left, and return how many steps that took."""
    count = 1
    while reput.step(log.end, EVERYTHING, NOW_MS).more:
        count += 1
    return count


def note(fs: MemoryFileSystem, job: FlushJob) -> None:
    """Keep what a job made durable, as the shell does."""
    file = DispatchedFile(fs, dispatch_config(**SHAPE).paths.dispatched)
    file.note(job.position, job.index_end)
    file.close()


def queue_offsets(fs: MemoryFileSystem) -> list[int]:
    return [entry[0] for entry in queue_entries(fs, dispatch_config(**SHAPE), "T")]


def index_files(fs: MemoryFileSystem) -> list[bytes]:
    directory = dispatch_config(**SHAPE).paths.index_directory
    return [read_file(fs, f"{directory}/{name}") for name in fs.list_directory(directory)]


def whole_index(log: LogBytes, functions: ScanFunctions | None) -> list[bytes]:
    """Return the index of a Reput that makes it in step."""
    fs = MemoryFileSystem()
    reput = open_reput(fs, log, functions, lags=False)
    reput.start(log.end, clean_exit=True)
    reput.step(log.end, EVERYTHING, NOW_MS)
    reput.flush()
    return index_files(fs)


def found(fs: MemoryFileSystem, word: str) -> list[int]:
    reader = IndexReader(fs, dispatch_config(**SHAPE))
    offsets = reader.query("T", word, 64, 0, 1 << 62).physical_offsets
    reader.close()
    return offsets


def test_queues_have_every_message_while_the_index_is_behind(
    fs: MemoryFileSystem, functions: ScanFunctions | None
) -> None:
    log = flood()
    reput = open_reput(fs, log, functions)
    reput.start(log.end, clean_exit=True)
    decision = reput.step(log.end, EVERYTHING, NOW_MS)
    assert decision.dispatched == log.end
    assert decision.more
    assert reput.is_behind
    assert queue_offsets(fs) == log.offsets
    assert found(fs, f"k{RECORDS - 1}.0") == []
    assert finish(reput, log) > RECORDS // 4
    assert not reput.is_behind
    assert found(fs, f"k{RECORDS - 1}.0") == [log.offsets[-1]]
    reput.flush()
    assert index_files(fs) == whole_index(log, functions)


def test_no_step_puts_more_keys_than_a_piece_has(
    fs: MemoryFileSystem, functions: ScanFunctions | None, keys_max: int
) -> None:
    def keys_count() -> int:
        return reput.statistics().dispatchers["index"]["keys_count"]

    log = flood()
    reput = open_reput(fs, log, functions)
    reput.start(log.end, clean_exit=True)
    counts = [0]
    while reput.step(log.end, EVERYTHING, NOW_MS).more:
        counts.append(keys_count())
    assert keys_count() == RECORDS * FLOOD_KEYS
    assert max(after - before for before, after in pairwise(counts)) <= keys_max
    assert len(counts) >= RECORDS * FLOOD_KEYS // keys_max


def test_a_record_in_parts_keeps_the_order_of_its_keys(keys_max: int) -> None:
    words = [f"k{number}" for number in range(3 * keys_max + 1)]
    request = DispatchRequest("T", 0, 7, 900, 100, 0, NOW_MS, 0, 0, " ".join(words), "u", {})
    parts = lagging_dispatcher.parts_of(request)
    assert [word for part in parts for word in index_words(part)] == index_words(request)
    assert [len(index_words(part)) for part in parts] == [keys_max + 1, keys_max, keys_max, 1]


def test_few_keys_keep_the_index_in_step(
    fs: MemoryFileSystem, functions: ScanFunctions | None
) -> None:
    log = LogBytes()
    for number in range(400):
        log.add(properties(KEYS=f"k{number}"), body=b"x", queue_offset=number)
    reput = open_reput(fs, log, functions)
    reput.start(log.end, clean_exit=True)
    assert not reput.step(log.end, EVERYTHING, NOW_MS).more
    assert found(fs, "k399") == [log.offsets[-1]]


def test_in_step_again_after_it_has_caught_up(
    fs: MemoryFileSystem, functions: ScanFunctions | None
) -> None:
    log = flood()
    reput = open_reput(fs, log, functions)
    reput.start(log.end, clean_exit=True)
    finish(reput, log)
    offset = log.add(properties(KEYS="after"), body=b"x", queue_offset=RECORDS)
    log.write(fs, dispatch_config(**SHAPE))
    assert not reput.step(log.end, EVERYTHING, NOW_MS).more
    assert found(fs, "after") == [offset]


def test_a_flush_covers_what_the_index_has_too(
    fs: MemoryFileSystem, functions: ScanFunctions | None
) -> None:
    log = flood()
    reput = open_reput(fs, log, functions)
    reput.start(log.end, clean_exit=True)
    reput.step(log.end, EVERYTHING, NOW_MS)
    assert reput.flush().position < log.end
    finish(reput, log)
    assert reput.flush().position == log.end


@pytest.mark.parametrize("clean_exit", [True, False])
@pytest.mark.parametrize("steps", range(1, RECORDS // 2))
def test_killed_behind_the_queues_and_started_again(
    fs: MemoryFileSystem, functions: ScanFunctions | None, steps: int, clean_exit: bool
) -> None:
    log = flood()
    reput = open_reput(fs, log, functions)
    reput.start(log.end, clean_exit=True)
    for _ in range(steps):
        reput.step(log.end, EVERYTHING, NOW_MS)
    note(fs, reput.flush())
    again = open_reput(fs, log, functions)
    again.start(log.end, clean_exit=clean_exit, dispatched=None if clean_exit else log.end)
    finish(again, log)
    again.flush()
    assert queue_offsets(fs) == log.offsets
    assert index_files(fs) == whole_index(log, functions)


@pytest.mark.parametrize("nth", range(1, 30, 4))
def test_a_full_disk_while_it_is_behind(
    fs: MemoryFileSystem, functions: ScanFunctions | None, nth: int
) -> None:
    log = flood()
    reput = open_reput(fs, log, functions)
    reput.start(log.end, clean_exit=True)
    fs.fail("pwrite", nth=nth, number=28)
    try:
        finish(reput, log)
    except StoreFull:
        finish(reput, log)
    reput.flush()
    assert queue_offsets(fs) == log.offsets
    assert index_files(fs) == whole_index(log, functions)


def test_a_log_trimmed_below_a_lagging_dispatcher_moves_it_up(fs: MemoryFileSystem) -> None:
    log = flood()
    reput = open_reput(fs, log, None)
    reput.start(log.end, clean_exit=True)
    reput.step(log.end, EVERYTHING, NOW_MS)
    config = dispatch_config(**SHAPE)
    directory = config.paths.commit_log_directories[0]
    first = fs.list_directory(directory)[0]
    fs.unlink(f"{directory}/{first}")
    finish(reput, log)
    assert not reput.is_behind
    assert found(fs, f"k{RECORDS - 1}.0") == [log.offsets[-1]]
