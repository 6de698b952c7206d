"""Queues made of pieces: by bucket, durable, with names counted that are no path's."""

from __future__ import annotations

from tests.audit.parallel.parts import merge_all, random_log, scan_all, target_config
from tests.dispatchers.stores import dispatch_config, queue_entries
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.records import LogBytes
from wakelog.audit.parallel.pieces import BUCKETS_COUNT, bucket_of
from wakelog.audit.parallel.queue_merge import merge_queues

CONFIG = dispatch_config()


def test_a_merge_makes_the_queues_of_its_buckets_alone() -> None:
    fs = MemoryFileSystem()
    log = LogBytes(4096)
    for i in range(60):
        log.add(topic="T", queue_id=i % 2, queue_offset=i // 2)
    fs.make_directories("/store")
    log.write(fs, CONFIG)
    summaries = scan_all(fs, CONFIG, log)
    assert len(summaries) > 1
    config = target_config(CONFIG, "/made")
    fs.make_directories("/made")
    buckets = {bucket_of(("T", 0))}
    paths = [f"/pieces/{summary.begin}.queues" for summary in summaries]
    assert bucket_of(("T", 1)) not in buckets
    assert merge_queues(fs, config, paths, buckets).queues_count == 1
    assert [entry[0] for entry in queue_entries(fs, config, "T")] == log.offsets[::2]
    assert queue_entries(fs, config, "T", 1) == []
    assert fs.calls["datasync"] > 0 and fs.descriptor_count == 0


def test_names_that_are_no_paths_are_counted() -> None:
    fs = MemoryFileSystem()
    log = random_log(3, segment_bytes=4096, count=200, damaged=False)
    fs.make_directories("/store")
    log.write(fs, CONFIG)
    fs.make_directories("/made")
    merged = merge_all(fs, target_config(CONFIG, "/made"), scan_all(fs, CONFIG, log))
    assert len(merged) == BUCKETS_COUNT
    assert sum(found.illegal_names_count for found in merged) == 6
