"""Reput's rules, one test a row; the log's own table is in test_log_cursor.py."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.dispatchers.stores import NOW_MS, dispatch_config, queue_entries
from tests.fakes.logs import read_file, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.records import STORE_MS, LogBytes, properties
from wakelog.compiled.columns import ScanFunctions
from wakelog.dispatchers import core_dispatchers, log_cursor
from wakelog.dispatchers.dispatcher import CoreDispatcher, DispatchBatch, FlushPart
from wakelog.dispatchers.index import IndexDispatcher
from wakelog.dispatchers.reput import Reput
from wakelog.storage.config import BrokerRole, StoreConfig
from wakelog.storage.durability.deleted_topics import QueueRemoval
from wakelog.storage.errors import StoreFull
from wakelog.storage.index.index_service import IndexReader
from wakelog.storage.log.commit_log_reader import CommitLogReader

EVERYTHING = 1 << 40


@pytest.fixture(autouse=True)
def bulk_from_the_first_byte_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_cursor, "BULK_BYTES_MIN", 1)


class Recorder:
    """A dispatcher that remembers; `needed` is where it says it has to begin."""

    def __init__(self, needed: int = 0, name: str = "recorder") -> None:
        self.name = name
        self.needed = needed
        self.seen: list[int] = []
        self.failures = 0
        self.log: list[str] = []

    def dispatch(self, batch: DispatchBatch) -> None:
        self.log.append(f"dispatch {batch.begin} {batch.end}")
        if self.failures:
            self.failures -= 1
            raise OSError("no")
        self.seen += [request.physical_offset for request in batch.requests]

    def flush(self) -> None:
        raise AssertionError("Reput syncs for all")

    def prepare_flush(self) -> FlushPart:
        return FlushPart([], [], 77)

    def make_ahead(self) -> None:
        self.log.append("make ahead")

    def recover(self, max_physical_offset: int) -> int:
        self.log.append(f"recover {max_physical_offset}")
        return self.needed

    def truncate(self, physical_offset: int) -> int:
        self.log.append(f"truncate {physical_offset}")
        return self.needed

    def remove_before(self, physical_offset: int) -> int:
        return 1

    def remove_queues(self, removal: QueueRemoval) -> int:
        return 2

    def close(self) -> None:
        self.log.append("close")

    def statistics(self) -> dict[str, int]:
        return {"seen_count": len(self.seen)}


def log_of(count: int = 30, *, begin: int = 0) -> LogBytes:
    log = LogBytes(begin=begin)
    for i in range(count):
        log.add(properties(KEYS=f"k{i}", TAGS="t"), body=b"x" * 200, queue_offset=i)
    return log


def open_reput(
    fs: MemoryFileSystem,
    log: LogBytes,
    functions: ScanFunctions | None = None,
    dispatchers: Sequence[CoreDispatcher] | None = None,
    **values: Any,
) -> Reput:
    skip_segment = values.pop("skip_segment", False)
    config = dispatch_config(**values)
    log.write(fs, config)
    reader = CommitLogReader(fs, config)
    if dispatchers is None:
        dispatchers = core_dispatchers(fs, config, reader, skip_segment=skip_segment)
    return Reput(fs, reader, dispatchers, config, functions=functions, skip_segment=skip_segment)


def entries(fs: MemoryFileSystem, config: StoreConfig | None = None) -> list[int]:
    return [entry[0] for entry in queue_entries(fs, config or dispatch_config(), "T")]


def find(fs: MemoryFileSystem, word: str) -> list[int]:
    reader = IndexReader(fs, dispatch_config())
    found = reader.query("T", word, 64, 0, 1 << 62).physical_offsets
    reader.close()
    return found


def test_begins_at_the_lowest_position_any_dispatcher_needs(fs: MemoryFileSystem) -> None:
    log = log_of()
    first, second = Recorder(log.offsets[7]), Recorder(log.offsets[4], "second")
    reput = open_reput(fs, log, dispatchers=[first, second])
    assert reput.start(log.end, clean_exit=True) == log.offsets[4]
    reput.step(log.end, EVERYTHING, NOW_MS)
    assert first.seen == second.seen == log.offsets[4:]


def test_begins_no_later_than_recovery_or_the_word_say(fs: MemoryFileSystem) -> None:
    log = log_of()
    reput = open_reput(fs, log, dispatchers=[Recorder(log.offsets[7])])
    assert reput.start(log.end, clean_exit=True, dispatch_from=log.offsets[3]) == log.offsets[3]
    assert reput.start(log.end, clean_exit=True, dispatch_from=log.offsets[9]) == log.offsets[7]
    assert reput.start(log.end, clean_exit=False, dispatched=log.offsets[2]) == log.offsets[2]


def test_begins_no_later_than_the_log_ends(fs: MemoryFileSystem) -> None:
    log = log_of()
    reput = open_reput(fs, log, dispatchers=[Recorder(1 << 40)])
    assert reput.start(log.end, clean_exit=True) == log.end


def test_never_below_the_logs_minimum(
    fs: MemoryFileSystem, functions: ScanFunctions | None
) -> None:
    log = log_of(begin=3 * 4096)  # a copied log without queues: they say 0
    reput = open_reput(fs, log, functions)
    assert reput.start(log.end, clean_exit=True) == 3 * 4096
    assert reput.statistics().cursor.moved_up_count == 1
    reput.step(log.end, EVERYTHING, NOW_MS)
    assert entries(fs) == log.offsets


def test_an_exit_that_was_not_clean_lets_dispatchers_check_their_files(
    fs: MemoryFileSystem,
) -> None:
    log = log_of()
    recorder = Recorder()
    reput = open_reput(fs, log, dispatchers=[recorder])
    reput.start(log.end, clean_exit=True)
    assert recorder.log == [f"recover {log.end}"]
    reput.start(log.end, clean_exit=False)
    assert recorder.log[1:] == [f"recover {log.end}", f"truncate {log.end}"]


def test_never_passes_readable(fs: MemoryFileSystem, functions: ScanFunctions | None) -> None:
    log = log_of()
    reput = open_reput(fs, log, functions)
    reput.start(log.end, clean_exit=True)
    for i, readable in enumerate([*log.offsets, log.end]):
        decision = reput.step(readable, EVERYTHING, NOW_MS)
        assert decision.dispatched == readable
        assert entries(fs) == log.offsets[:i]
        assert not decision.more


def test_a_step_ends_at_its_budget(fs: MemoryFileSystem) -> None:
    log = log_of()
    reput = open_reput(fs, log)
    reput.start(log.end, clean_exit=True)
    first = reput.step(log.end, 1, NOW_MS)
    assert first.more
    assert 0 < first.dispatched < log.end
    last = reput.step(log.end, EVERYTHING, NOW_MS)
    assert not last.more
    assert last.dispatched == log.end


@pytest.mark.parametrize("confirm", [-1, 0, 7])
def test_duplication_enable_stops_at_the_confirm_offset(fs: MemoryFileSystem, confirm: int) -> None:
    log = log_of()
    reput = open_reput(fs, log, duplication_enable=True)
    reput.start(log.end, clean_exit=True)
    offset = log.offsets[confirm] if confirm >= 0 else -1
    decision = reput.step(log.end, EVERYTHING, NOW_MS, confirm_offset=offset)
    assert decision.dispatched == max(offset, 0)
    assert entries(fs) == log.offsets[: max(confirm, 0)]


def test_duplication_enable_is_off_by_default(fs: MemoryFileSystem) -> None:
    log = log_of(3)
    reput = open_reput(fs, log)
    reput.start(log.end, clean_exit=True)
    assert reput.step(log.end, EVERYTHING, NOW_MS).dispatched == log.end


def test_arrivals(fs: MemoryFileSystem, functions: ScanFunctions | None) -> None:
    log = log_of(3)
    reput = open_reput(fs, log, functions)
    reput.start(log.end, clean_exit=True)
    decision = reput.step(log.end, EVERYTHING, NOW_MS)
    assert decision.arrivals[-1].next_queue_offset == 3
    assert len(decision.arrivals) == (1 if functions else 3)
    assert decision.topic_puts == {}
    assert reput.statistics().arrivals_count == len(decision.arrivals)
    assert reput.step(log.end, EVERYTHING, NOW_MS).arrivals == []


def test_a_slave_counts_puts_and_has_no_arrivals(
    fs: MemoryFileSystem, functions: ScanFunctions | None
) -> None:
    log = log_of(3)
    reput = open_reput(fs, log, functions, broker_role=BrokerRole.SLAVE)
    reput.start(log.end, clean_exit=True)
    decision = reput.step(log.end, EVERYTHING, NOW_MS)
    assert decision.arrivals == []
    assert decision.topic_puts == {"T": (3, log.end)}
    assert entries(fs) == log.offsets


def test_a_bad_record_hides_only_itself(
    fs: MemoryFileSystem, functions: ScanFunctions | None
) -> None:
    log = log_of()
    log.damage(log.offsets[3] + 4, b"\0")
    reput = open_reput(fs, log, functions)
    reput.start(log.end, clean_exit=True)
    reput.step(log.end, EVERYTHING, NOW_MS)
    # Its place in the queue names the next record, so that every record keeps its own.
    assert entries(fs) == [*log.offsets[:3], log.offsets[4], *log.offsets[4:]]
    assert reput.statistics().cursor.bad_stretches_count == 1
    assert reput.statistics().dispatchers["consume_queue"]["gaps_count"] == 1


def test_skip_segment_is_4_9_3_way(fs: MemoryFileSystem, functions: ScanFunctions | None) -> None:
    log = log_of()
    log.damage(log.offsets[3] + 4, b"\0")
    reput = open_reput(fs, log, functions, skip_segment=True)
    reput.start(log.end, clean_exit=True)
    reput.step(log.end, EVERYTHING, NOW_MS)
    assert entries(fs) == [*log.offsets[:3], *(o for o in log.offsets if o >= 4096)]


def test_a_failure_repeats_the_batch_for_all(fs: MemoryFileSystem) -> None:
    log = log_of(3)
    first, second = Recorder(), Recorder(name="second")
    reput = open_reput(fs, log, dispatchers=[first, second])
    reput.start(log.end, clean_exit=True)
    second.failures = 1
    with pytest.raises(OSError, match="no"):
        reput.step(log.end, EVERYTHING, NOW_MS)
    assert reput.position == 0
    assert reput.statistics().failures_count == 1
    assert reput.is_broken
    assert reput.step(log.end, EVERYTHING, NOW_MS).dispatched == log.end
    assert not reput.is_broken
    assert first.log == [
        f"recover {log.end}",
        f"dispatch 0 {log.end}",
        f"recover {log.end}",
        "truncate 0",
        f"dispatch 0 {log.end}",
    ]
    assert second.seen == log.offsets


@pytest.mark.parametrize("nth", range(1, 12))
def test_a_full_disk_leaves_nothing_behind(
    fs: MemoryFileSystem, functions: ScanFunctions | None, nth: int
) -> None:
    log = log_of()
    reput = open_reput(fs, log, functions)
    reput.start(log.end, clean_exit=True)
    fs.fail("pwrite", nth=nth, number=28)
    for _ in range(2):
        try:
            reput.step(log.end, EVERYTHING, NOW_MS)
        except StoreFull:
            assert reput.statistics().failures_count == 1
    assert entries(fs) == log.offsets
    assert [find(fs, f"k{i}") for i in range(30)] == [[offset] for offset in log.offsets]


@pytest.mark.parametrize("kills", [1, 3, 7])
def test_killed_and_started_again_equals_a_rebuild(
    fs: MemoryFileSystem, functions: ScanFunctions | None, kills: int
) -> None:
    log = log_of()
    whole = open_reput(fs, log, functions)
    whole.start(log.end, clean_exit=True)
    whole.step(log.end, EVERYTHING, NOW_MS)
    killed_fs = MemoryFileSystem()
    dispatched = 0
    for i in range(kills + 1):
        # What the one before had in memory is gone.
        reput = open_reput(killed_fs, log, functions)
        reput.start(log.end, clean_exit=False, dispatched=dispatched)
        readable = log.offsets[i * 29 // kills] if i < kills else log.end
        dispatched = max(dispatched, reput.step(readable, EVERYTHING, NOW_MS).dispatched)
    reput.flush()
    whole.flush()
    assert files(killed_fs) == files(fs)


def files(fs: MemoryFileSystem) -> list[bytes]:
    """Return the content of every queue and index file, in the order of their names."""
    config = dispatch_config()
    directories = (config.paths.consume_queue("T", 0), config.paths.index_directory)
    return [read_file(fs, f"{d}/{name}") for d in directories for name in fs.list_directory(d)]


def test_flush_makes_a_position_durable_and_has_times_for_the_checkpoint(
    fs: MemoryFileSystem,
) -> None:
    log = log_of()
    reput = open_reput(fs, log)
    reput.start(log.end, clean_exit=True)
    reput.step(log.offsets[9], EVERYTHING, NOW_MS)
    fs.calls.clear()
    job = reput.flush()
    assert (job.position, job.store_timestamp_ms) == (log.offsets[9], STORE_MS)
    assert job.index_timestamp_ms == STORE_MS
    assert fs.calls["datasync"] == len(job.paths) == 2
    assert reput.flush().paths == ()


def test_a_flush_job_runs_beside_the_dispatch(fs: MemoryFileSystem) -> None:
    log = log_of()
    reput = open_reput(fs, log)
    reput.start(log.end, clean_exit=True)
    reput.step(log.offsets[9], EVERYTHING, NOW_MS)
    job = reput.prepare_flush()
    reput.step(log.end, EVERYTHING, NOW_MS)
    job.run()
    assert job.position == log.offsets[9]


def test_what_a_job_that_failed_to_be_made_took_is_in_the_next(
    fs: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its position would be above queue entries that no job syncs."""
    log = log_of()
    reput = open_reput(fs, log)
    reput.start(log.end, clean_exit=True)
    reput.step(log.end, EVERYTHING, NOW_MS)

    def refuse(_: IndexDispatcher) -> FlushPart:
        raise StoreFull("/store/index", "write", OSError(28, "No space left on device"))

    with monkeypatch.context() as patched:
        patched.setattr(IndexDispatcher, "prepare_flush", refuse)
        with pytest.raises(StoreFull):
            reput.prepare_flush()
    queue = dispatch_config().paths.consume_queue("T", 0)
    assert [path for path in reput.prepare_flush().paths if path.startswith(queue)]
    assert reput.prepare_flush().paths == ()


def test_a_job_has_the_directories_of_every_dispatcher(fs: MemoryFileSystem) -> None:
    reput = open_reput(fs, log_of())
    reput.start(1 << 40, clean_exit=True)
    reput.step(1 << 40, 1 << 40, 1)
    paths = dispatch_config().paths
    wanted = {paths.consume_queue("T", 0), paths.index_directory}
    assert wanted <= set(reput.prepare_flush().directories)


def test_bulk_keys_are_written_when_a_batch_was_the_last(
    fs: MemoryFileSystem, compiled: ScanFunctions
) -> None:
    log = log_of()
    end = log.end
    log.roll()
    reput = open_reput(fs, log, compiled)
    reput.start(log.end, clean_exit=True)
    # The last records are followed by a blank: their batch does not know that it is the last.
    reput.step(log.end, EVERYTHING, NOW_MS)
    assert find(fs, "k29") == [log.offsets[29]]
    assert log.end > end


def test_statistics_of_every_part(fs: MemoryFileSystem) -> None:
    log = log_of(3)
    reput = open_reput(fs, log)
    reput.start(log.end, clean_exit=True)
    reput.step(log.end, EVERYTHING, NOW_MS)
    statistics = reput.statistics()
    assert statistics.cursor.records_count == 3
    assert statistics.dispatchers["consume_queue"]["queues_count"] == 1
    assert statistics.dispatchers["index"]["keys_count"] == 3


def test_without_an_index(fs: MemoryFileSystem) -> None:
    log = log_of(3)
    reput = open_reput(fs, log, message_index_enable=False)
    reput.start(log.end, clean_exit=True)
    reput.step(log.end, EVERYTHING, NOW_MS)
    assert not fs.exists("/store/index")
    assert entries(fs) == log.offsets


def test_trim_and_removals_reach_every_dispatcher(fs: MemoryFileSystem) -> None:
    recorders = [Recorder(), Recorder(name="second")]
    reput = open_reput(fs, log_of(1), dispatchers=recorders)
    assert reput.trim(0) == 2
    assert reput.remove_queues(QueueRemoval(("T",), (), 0)) == 4


def test_trim_keeps_what_the_log_still_has(
    fs: MemoryFileSystem, functions: ScanFunctions | None
) -> None:
    log = log_of(120)
    reput = open_reput(fs, log, functions)
    reput.start(log.end, clean_exit=True)
    reput.step(log.end, EVERYTHING, NOW_MS)
    # Queue files of 50 entries, index files of 49 keys.
    assert reput.trim(log.offsets[49]) == 1
    assert reput.trim(log.offsets[50]) == 1
    assert reput.trim(log.end) == 2
    assert entries(fs) == log.offsets[100:]
    assert find(fs, "k119") == [log.offsets[119]]
    log.add(properties(KEYS="more"), queue_offset=120)
    log.write(fs, dispatch_config())
    reput.step(log.end, EVERYTHING, NOW_MS)
    assert entries(fs) == log.offsets[100:]
    assert find(fs, "more") == log.offsets[-1:]


def queue_files(fs: MemoryFileSystem) -> dict[str, bytes]:
    directories = ("/store/consumequeue/T/0", "/store/consumequeue_ext/T/0")
    paths = [f"{folder}/{name}" for folder in directories for name in fs.list_directory(folder)]
    return {path: read_file(fs, path) for path in paths}


@pytest.mark.parametrize("torn", ["entry", "unit"])
def test_entries_torn_by_a_kill_above_the_watermark_are_made_again(
    fs: MemoryFileSystem, functions: ScanFunctions | None, torn: str
) -> None:
    log = log_of()
    units: dict[str, Any] = {
        "enable_consume_queue_extension": True,
        "consume_queue_extension_file_bytes": 1024,
    }
    reput = open_reput(fs, log, functions, **units)
    reput.start(log.end, clean_exit=True)
    reput.step(log.end, EVERYTHING, NOW_MS)
    whole = queue_files(fs)
    name = "consumequeue" if torn == "entry" else "consumequeue_ext"
    path = f"/store/{name}/T/0/{0:020d}"
    # The last bytes: of an entry the address, of a unit the time and what follows.
    begin = 20 * 29 + (12 if torn == "entry" else 10)
    data = whole[path]
    write_file(fs, path, data[:begin] + bytes(8) + data[begin + 8 :])
    assert queue_files(fs) != whole
    again = open_reput(fs, log, functions, **units)
    word = log.offsets[25]
    assert again.start(log.end, clean_exit=False, dispatched=word) <= word
    again.step(log.end, EVERYTHING, NOW_MS)
    assert queue_files(fs) == whole
