"""Loading segments: a short last one is completed, a gap in front of written ones is bridged."""

import pytest

from tests.fakes.logs import draft, open_log, read_file, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import NOW_MS, store_config
from wakelog.storage.errors import DamagedStore, StoreFailed
from wakelog.storage.recovery import segments
from wakelog.storage.recovery.segments import (
    load_segments,
    next_sound_in,
    reread_from_disk,
    sync_segments,
)

BYTES = 4096
CONFIG = store_config(commit_log_file_bytes=BYTES)


def path(number: int) -> str:
    return f"/store/commitlog/{number * BYTES:020d}"


def test_no_directory_is_an_empty_log(fs: MemoryFileSystem) -> None:
    assert not load_segments(fs, CONFIG).files


@pytest.mark.parametrize("length", [0, 1, BYTES - 1])
def test_a_short_last_segment_gets_its_length(fs: MemoryFileSystem, length: int) -> None:
    write_file(fs, path(0), b"a" * BYTES)
    write_file(fs, path(1), b"b" * length)
    files = load_segments(fs, CONFIG)
    assert [file.start_offset for file in files.files] == [0, BYTES]
    assert read_file(fs, path(1)) == b"b" * length + bytes(BYTES - length)


def test_a_gap_before_messages_is_refused_unless_bridged(fs: MemoryFileSystem) -> None:
    write_file(fs, path(0), b"a" * BYTES)
    write_file(fs, path(2), bytes(BYTES - 1) + b"c")
    write_file(fs, path(3), bytes(BYTES))
    with pytest.raises(DamagedStore, match="segment at 4096 before it is missing") as caught:
        load_segments(fs, CONFIG, bridge=False)
    assert caught.value.path == path(2)
    assert fs.exists(path(3)), "a store that is refused is left as it was"


def test_a_missing_segment_has_a_stand_in_that_reads_as_zeros(fs: MemoryFileSystem) -> None:
    write_file(fs, path(0), b"a" * BYTES)
    write_file(fs, path(3), b"d" * BYTES)
    write_file(fs, path(5), b"f" * 10)
    files = load_segments(fs, CONFIG)
    assert [file.is_missing for file in files.files] == [False, True, True, False, True, False]
    assert files.missing_stretches() == [(BYTES, 3 * BYTES), (4 * BYTES, 5 * BYTES)]
    missing = files.find(BYTES)
    assert missing is not None
    assert missing.read(BYTES - 3, 10) == missing.read_nowait(BYTES - 3, 10) == bytes(3)
    buffer = bytearray(b"x" * 10)
    assert (missing.read_into(buffer, BYTES - 3), buffer) == (3, bytearray(3) + b"x" * 7)
    assert next_sound_in(missing, 0, BYTES) is None
    missing.read_ahead(0, 10)
    reread_from_disk(fs, files, 0)
    sync_segments(files, 0)
    assert missing.modified_ms() == 0
    with pytest.raises(StoreFailed, match="missing"):
        _ = missing.fd
    assert sorted(fs.list_directory("/store/commitlog")) == [f"{i * BYTES:020d}" for i in (0, 3, 5)]


def test_unused_segments_after_a_gap_are_removed(fs: MemoryFileSystem) -> None:
    write_file(fs, path(0), b"a" * BYTES)
    for number in (2, 3):
        write_file(fs, path(number), bytes(BYTES))
    files = load_segments(fs, CONFIG)
    assert [file.start_offset for file in files.files] == [0]
    assert fs.list_directory("/store/commitlog") == [f"{0:020d}"]


@pytest.mark.parametrize("piece_bytes", range(102, 118))
def test_a_record_is_found_wherever_a_piece_ends(
    fs: MemoryFileSystem, piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "_PIECE_BYTES", piece_bytes)
    log = open_log(fs, CONFIG)
    log.append(draft(b"damaged"), NOW_MS)
    place = log.append(draft(b"sound"), NOW_MS + 1).physical_offset
    log.write_pending()
    file = log.files.files[0]
    file.write(0, b"\x55" * 8)
    assert next_sound_in(file, 0, BYTES) == (place, NOW_MS + 1)


def test_the_names_of_segments_are_durable_once_they_are_reread(fs: MemoryFileSystem) -> None:
    write_file(fs, path(0), b"a" * BYTES)
    files = load_segments(fs, CONFIG)
    reread_from_disk(fs, files, BYTES)
    assert (fs.calls["sync_directory"], fs.calls["datasync"]) == (1, 0)
    fs.fail("sync_directory")
    with pytest.raises(StoreFailed):
        reread_from_disk(fs, files, BYTES)


def test_syncing_begins_with_the_segment_of_the_offset(fs: MemoryFileSystem) -> None:
    for number in range(3):
        write_file(fs, path(number), b"a" * BYTES)
    files = load_segments(fs, CONFIG)
    fs.fail("datasync", nth=2)
    sync_segments(files, 2 * BYTES)
    with pytest.raises(StoreFailed):
        sync_segments(files, 2 * BYTES)
    fs.fail("datasync", nth=3)
    sync_segments(files, BYTES)
    with pytest.raises(StoreFailed):
        sync_segments(files, BYTES)
    # A segment that has a byte of it counts.
    fs.calls.clear()
    sync_segments(files, 2 * BYTES - 1)
    assert fs.calls["datasync"] == 2
    reread_from_disk(fs, files, 2 * BYTES - 1)
    assert fs.calls["datasync"] == 4
