"""Three times in eight bytes each, byte for byte as the real broker writes them."""

import errno
import struct
from pathlib import Path

import pytest

from tests.fakes.logs import read_file, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.golden_stores import open_golden
from wakelog.storage.durability.checkpoint import (
    Checkpoint,
    CheckpointTimes,
    decode_checkpoint,
)
from wakelog.storage.errors import StoreFailed, StoreFull

PATH = "/store/checkpoint"


def test_a_new_file_is_all_zeros_and_durable(fs: MemoryFileSystem) -> None:
    checkpoint = Checkpoint(fs, PATH)
    assert read_file(fs, PATH) == bytes(4096)
    assert checkpoint.read() == CheckpointTimes()
    assert fs.calls["sync"] == 1 and fs.calls["sync_directory"] == 1


def test_each_writer_touches_its_own_field(fs: MemoryFileSystem) -> None:
    flush, reput = Checkpoint(fs, PATH), Checkpoint(fs.other_process(), PATH)
    flush.set_physic(3)
    reput.set_logics(2)
    reput.set_index(1)
    flush.set_physic(4)
    flush.sync()
    assert flush.read() == reput.read() == CheckpointTimes(4, 2, 1)
    assert read_file(fs, PATH) == struct.pack(">qqq4072x", 4, 2, 1)
    flush.close()
    assert Checkpoint(fs, PATH).read() == CheckpointTimes(4, 2, 1)


@pytest.mark.parametrize(
    ("times", "lowest", "lowest_with_index"),
    [
        (CheckpointTimes(10_000, 9_000, 8_000), 6_000, 6_000),
        (CheckpointTimes(10_000, 9_000, 5_000), 6_000, 5_000),
        (CheckpointTimes(2_999, 9_000, 8_000), 0, 0),
        (CheckpointTimes(0, 9_000, 0), 0, 0),
    ],
)
def test_the_lower_time_counts_with_a_margin(
    times: CheckpointTimes, lowest: int, lowest_with_index: int
) -> None:
    """Section 3 of the specification: min(first two) - 3000 ms, floor 0."""
    assert (times.min_ms, times.min_index_ms) == (lowest, lowest_with_index)


def test_a_short_file_reads_as_zeros_and_grows(fs: MemoryFileSystem) -> None:
    write_file(fs, PATH, struct.pack(">qqq", 7, 8, 9)[:12])
    assert Checkpoint(fs, PATH).read() == CheckpointTimes(7, 0, 0)
    assert len(read_file(fs, PATH)) == 4096


def test_the_real_brokers_file_is_read_and_written_the_same(
    fs: MemoryFileSystem, tmp_path: Path
) -> None:
    store, _ = open_golden("basic", tmp_path)
    data = (store / "checkpoint").read_bytes()
    times = decode_checkpoint(data)
    assert times.physic_ms > 1_700_000_000_000 and times.logics_ms > 1_700_000_000_000
    checkpoint = Checkpoint(fs, PATH)
    checkpoint.set_physic(times.physic_ms)
    checkpoint.set_logics(times.logics_ms)
    checkpoint.set_index(times.index_ms)
    assert read_file(fs, PATH) == data


@pytest.mark.parametrize(
    ("operation", "number", "kind"),
    [("allocate", errno.ENOSPC, StoreFull), ("open", errno.EMFILE, StoreFailed)],
)
def test_opening_can_fail(
    fs: MemoryFileSystem, operation: str, number: int, kind: type[StoreFailed]
) -> None:
    fs.fail(operation, number=number)
    with pytest.raises(kind):
        Checkpoint(fs, PATH)


def test_a_failed_sync_is_an_error(fs: MemoryFileSystem) -> None:
    checkpoint = Checkpoint(fs, PATH)
    for operation, call in (
        ("datasync", checkpoint.sync),
        ("pwrite", lambda: checkpoint.set_physic(1)),
        ("pread", checkpoint.read),
    ):
        fs.fail(operation)
        with pytest.raises(StoreFailed):
            call()
