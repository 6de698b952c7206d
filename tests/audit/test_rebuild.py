"""A rebuild reads the store and writes into its own folder; what it says of the log."""

import pytest

from tests.dispatchers.stores import dispatch_config, queue_entries
from tests.dispatchers.workers import InTurn
from tests.fakes.logs import read_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.records import LogBytes, properties
from wakelog.audit import rebuild
from wakelog.audit.rebuild import LogReport, Rebuild, run_rebuild
from wakelog.compiled.library import Choice
from wakelog.storage.paths import offset_name

SEGMENT_BYTES = 4096
CONFIG = dispatch_config(commit_log_file_bytes=SEGMENT_BYTES)


def rebuilt(
    log: LogBytes, tail: bytes = b"", *, worker: InTurn | None = None
) -> tuple[MemoryFileSystem, LogReport, Rebuild]:
    fs = MemoryFileSystem()
    log.data += tail
    log.write(fs, CONFIG)
    fs.make_directories("/new")
    made = Rebuild(fs, CONFIG, "/new", worker)
    report = run_rebuild(made)
    assert fs.descriptor_count == 0
    return fs, report, made


def log_of(count: int) -> LogBytes:
    log = LogBytes(SEGMENT_BYTES)
    for i in range(count):
        log.add(properties(KEYS=f"k{i}"), queue_offset=i, body=b"x" * 100)
    return log


def test_queues_and_index_lie_in_the_target_alone() -> None:
    log = log_of(30)
    fs, report, made = rebuilt(log)
    assert [place for place, _, _ in queue_entries(fs, made.config, "T")] == log.offsets
    assert fs.list_directory("/new/index")
    assert not fs.exists(CONFIG.paths.consume_queue_root)
    assert report.records_count == 30 and report.tail_bytes == 0
    assert (report.begin, report.end) == (0, log.end)
    assert made.done_bytes == made.total_bytes


def test_workers_make_the_same_queues_and_index(monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(30)
    fs, report, _ = rebuilt(log, worker=InTurn())
    monkeypatch.setattr(rebuild, "CHOICE", Choice(None))
    alone, expected, made = rebuilt(log)
    assert report == expected
    assert queue_entries(fs, made.config, "T") == queue_entries(alone, made.config, "T")
    [index], [other] = fs.list_directory("/new/index"), alone.list_directory("/new/index")
    assert read_file(fs, f"/new/index/{index}") == read_file(alone, f"/new/index/{other}")


def test_a_tail_is_what_is_written_behind_the_last_sound_record() -> None:
    log = log_of(3)
    end = log.end
    _, report, _ = rebuilt(log, b"torn")
    assert (report.end, report.tail_bytes, report.bad_stretches_count) == (end, 4, 0)


def test_a_tail_may_go_on_in_the_next_segments() -> None:
    log = log_of(80)
    first = next(i for i, place in enumerate(log.offsets) if place > SEGMENT_BYTES + 2000)
    assert log.end > 3 * SEGMENT_BYTES
    for place in log.offsets[first:]:
        log.damage(place + 4, b"\0")
    _, report, _ = rebuilt(log)
    assert (report.end, report.bad_stretches_count) == (log.offsets[first], 0)
    assert report.tail_bytes == log.end - report.end


def test_damage_in_front_of_the_end_is_no_tail() -> None:
    log = log_of(3)
    log.damage(log.offsets[1] + 4, b"\0")
    _, report, _ = rebuilt(log)
    [stretch] = report.bad_stretches
    assert (stretch.begin, stretch.end) == (log.offsets[1], log.offsets[2])
    assert (report.records_count, report.tail_bytes) == (2, 0)


def test_a_damaged_body_is_named() -> None:
    log = log_of(3)
    log.damage(log.offsets[2] + 100, b"y")
    _, report, _ = rebuilt(log)
    assert report.damaged_bodies_count == 1
    [body] = report.damaged_bodies
    assert (body.physical_offset, body.physical_offset_end) == (log.offsets[2], log.end)
    assert (body.topic, body.queue_id, body.queue_offset) == ("T", 0, 2)


@pytest.mark.parametrize("in_bulk", [False, True])
def test_missing_segments_are_passed_over_at_once_and_reported_apart(
    in_bulk: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not in_bulk:
        monkeypatch.setattr(rebuild, "CHOICE", Choice(None))
    log = log_of(200)
    log.damage(log.offsets[1] + 4, b"\0")
    fs = MemoryFileSystem()
    log.write(fs, CONFIG)
    directory = CONFIG.paths.commit_log_directories[0]
    for number in (2, 3, 5):
        fs.unlink(f"{directory}/{offset_name(number * SEGMENT_BYTES)}")
    fs.make_directories("/new")
    made = Rebuild(fs, CONFIG, "/new", InTurn() if in_bulk else None)
    refreshes_count = 0
    listing = fs.list_directory

    def count_listings(path: str) -> list[str]:
        nonlocal refreshes_count
        refreshes_count += path == directory
        return listing(path)

    fs.list_directory = count_listings  # type: ignore[method-assign]
    report = run_rebuild(made)
    missing = ((2 * SEGMENT_BYTES, 4 * SEGMENT_BYTES), (5 * SEGMENT_BYTES, 6 * SEGMENT_BYTES))
    assert report.missing == missing and refreshes_count <= 2
    assert [stretch.begin for stretch in report.bad_stretches] == [log.offsets[1]]
    assert report.bad_stretches_count == 1 and report.end == log.end
    left = [
        place
        for place in log.offsets
        if place != log.offsets[1] and not any(begin <= place < end for begin, end in missing)
    ]
    assert report.records_count == len(left)
    assert {place for place, _, _ in queue_entries(fs, made.config, "T")} >= set(left)
