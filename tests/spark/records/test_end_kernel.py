"""The compiled search for a log's end finds what the plain one does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.records import LogBytes
from tests.spark.logs import FS, write_segments
from wakelog.spark.records.end_kernel import last_sound_end
from wakelog.spark.records.record_walk import RecordWalk
from wakelog.spark.stores import OpenSegment, open_store


@pytest.mark.parametrize(("damaged", "expected"), [((), 40), ((39,), 39), ((3, 38, 39), 38)])
def test_the_last_record_with_a_sound_body(
    damaged: tuple[int, ...], expected: int, walk: RecordWalk, tmp_path: Path
) -> None:
    log = LogBytes(segment_bytes=1 << 16)
    for _ in range(40):
        log.add(body=b"x" * 200)
    ends = [*log.offsets, log.end]
    for number in damaged:
        log.damage(log.offsets[number] + 150, b"y")
    store = open_store(FS, str(write_segments(tmp_path, log)))
    file = OpenSegment(FS, store.segments[0])
    assert last_sound_end(walk, file, 0, file.end) == ends[expected]
    assert last_sound_end(walk, file, log.end, file.end) is None
    file.close()
