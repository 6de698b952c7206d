"""A segment by itself: what its summary says, damage, and a file that goes away."""

from __future__ import annotations

import pytest

from tests.audit.parallel.parts import scan_all
from tests.dispatchers.stores import dispatch_config
from tests.fakes.logs import read_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.records import LogBytes, properties
from wakelog.audit.parallel.segment_scan import scan_segment
from wakelog.storage.errors import DamagedStore
from wakelog.storage.kernels.kernels import Kernels

SEGMENT_BYTES = 128 << 10
CONFIG = dispatch_config(commit_log_file_bytes=SEGMENT_BYTES)


def log_of(count: int) -> LogBytes:
    log = LogBytes(SEGMENT_BYTES)
    for i in range(count):
        keys = properties(KEYS=f"a{i} b{i}") if i % 2 == 0 else b""
        log.add(keys, queue_offset=i, body=b"x" * 400)
    return log


def test_a_summary_says_what_each_segment_has(fs: MemoryFileSystem, kernels: Kernels) -> None:
    log = log_of(501)
    log.write(fs, CONFIG)
    first, second = scan_all(fs, CONFIG, log, kernels)
    assert first.records_count + second.records_count == 501
    assert first.keys_count + second.keys_count == 2 * 251
    assert (second.last_record, second.last_key_record) == (log.offsets[-1], log.offsets[-1])
    assert first.last_record == log.offsets[first.records_count - 1]
    assert fs.descriptor_count == 0


def test_a_scan_that_is_repeated_writes_the_same(fs: MemoryFileSystem) -> None:
    log = log_of(50)
    log.write(fs, CONFIG)
    before = scan_all(fs, CONFIG, log)
    written = read_file(fs, "/pieces/0.queues"), read_file(fs, "/pieces/0.keys")
    assert scan_all(fs, CONFIG, log) == before
    assert (read_file(fs, "/pieces/0.queues"), read_file(fs, "/pieces/0.keys")) == written


def test_damage_is_counted_and_passed_over(fs: MemoryFileSystem) -> None:
    log = log_of(50)
    log.damage(log.offsets[7] + 4, b"\0")
    log.write(fs, CONFIG)
    [found] = scan_all(fs, CONFIG, log)
    assert found.records_count == 49
    assert found.bad_stretches[0][:2] == (log.offsets[7], log.offsets[8])


def test_a_segment_that_is_not_there_is_an_error(fs: MemoryFileSystem) -> None:
    log = log_of(5)
    log.write(fs, CONFIG)
    fs.make_directories("/pieces")
    with pytest.raises(DamagedStore, match="it was removed while it was read"):
        scan_segment(fs, CONFIG, SEGMENT_BYTES, queues_path="/pieces/q", keys_path="/pieces/k")
    assert fs.descriptor_count == 0
