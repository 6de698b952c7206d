"""Changed blocks: adjacent ones are one, and a range has those that begin in it."""

from pathlib import Path

import pytest

from tests.fakes.logs import small_config
from tests.fakes.records import LogBytes
from wakelog.audit import changed_blocks
from wakelog.audit.changed_blocks import changed_in_range
from wakelog.storage.durability.sum_keeper import ChangedBlock, SumWriter
from wakelog.storage.file_system import FileSystem

SEGMENT_BYTES = 4096
BLOCK_BYTES = SEGMENT_BYTES // 32


def test_neighbouring_blocks_that_changed_are_one_and_others_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = [*(ChangedBlock(at, at + 10) for at in (0, 10, 30)), 5, ChangedBlock(40, 50)]
    monkeypatch.setattr(changed_blocks, "compare_sums", lambda *_: compared)
    found = list(changed_blocks.changed_blocks(FileSystem(), small_config()))
    assert found == [ChangedBlock(0, 20), ChangedBlock(30, 40), ChangedBlock(40, 50)]
    del compared[1:]
    assert len(list(changed_blocks.changed_blocks(FileSystem(), small_config()))) == 1


def test_a_range_has_the_blocks_that_begin_in_it(tmp_path: Path) -> None:
    log = LogBytes(SEGMENT_BYTES)
    while log.end < SEGMENT_BYTES + 3000:
        log.add(body=b"x" * 100)
    (tmp_path / "commitlog").mkdir()
    path = tmp_path / "commitlog" / f"{SEGMENT_BYTES:020d}"
    data = bytearray(log.data[SEGMENT_BYTES : 2 * SEGMENT_BYTES].ljust(SEGMENT_BYTES, b"\0"))
    path.write_bytes(data)
    config = small_config(store_path_root=str(tmp_path), commit_log_file_bytes=SEGMENT_BYTES)
    fs = FileSystem()
    assert SumWriter(fs, config).step(2 * SEGMENT_BYTES, 1 << 20) == SEGMENT_BYTES
    for block in (3, 4, 9):
        data[block * BLOCK_BYTES + 5] ^= 1
    path.write_bytes(data)

    def changed(begin: int, end: int) -> list[ChangedBlock]:
        low, high = (SEGMENT_BYTES + block * BLOCK_BYTES for block in (begin, end))
        found = changed_in_range(fs, str(path), SEGMENT_BYTES, low, high)
        blocks = (each._replace(begin=each.begin - SEGMENT_BYTES) for each in found)
        return [
            ChangedBlock(each.begin // BLOCK_BYTES, (each.end - SEGMENT_BYTES) // BLOCK_BYTES)
            for each in blocks
        ]

    assert changed(0, 32) == [ChangedBlock(3, 5), ChangedBlock(9, 10)]
    assert changed(4, 9) == [ChangedBlock(4, 5)]
    path.rename(tmp_path / path.name)  # outside of a store there are no sums
    alone = changed_in_range(fs, str(tmp_path / path.name), SEGMENT_BYTES, 0, 1 << 30)
    assert list(alone) == []
