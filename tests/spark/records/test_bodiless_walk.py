"""What is kept of records without their bodies; its steps are looked at with those of any walk."""

from pathlib import Path

import pytest

from tests.fakes.records import LogBytes, properties
from tests.spark.logs import FS, write_segments
from wakelog.compiled.layout import PHYSICAL_OFFSET, PROPERTIES_BEGIN, PROPERTIES_BYTES
from wakelog.spark.records.bodiless_walk import BodilessWalk
from wakelog.spark.records.column_walk import Sound
from wakelog.spark.stores import OpenSegment, open_store


def walked(folder: Path, log: LogBytes, walk: BodilessWalk) -> list[tuple[Sound, list[bytes]]]:
    """Return each step with the properties of its records."""
    [segment] = open_store(FS, str(write_segments(folder, log))).segments
    file = OpenSegment(FS, segment)
    found = []
    for step in walk.steps(file, 0, log.end):
        assert isinstance(step, Sound)
        rows = walk.numbers[: walk.count].tolist()
        assert rows[0][PHYSICAL_OFFSET] == step.begin
        spans = [(row[PROPERTIES_BEGIN], row[PROPERTIES_BYTES]) for row in rows]
        found.append((step, [bytes(walk.buffer[at : at + length]) for at, length in spans]))
    file.close()
    return found


@pytest.mark.parametrize(("text_bytes", "steps_count"), [(10, 2), (30_000, 6)])
def test_a_step_ends_where_there_is_no_room(
    text_bytes: int, steps_count: int, tmp_path: Path
) -> None:
    log = LogBytes(segment_bytes=1 << 20)
    texts = [properties(KEYS=f"{i}", x="x" * text_bytes) for i in range(6)]
    for text in texts:
        log.add(text, body=bytes(5000))
    walk = BodilessWalk(kept_bytes=40_000, records_max=4)
    found = walked(tmp_path, log, walk)
    assert len(found) == steps_count
    assert [text for _, step in found for text in step] == texts


def test_bodies_take_no_room(tmp_path: Path) -> None:
    log = LogBytes(segment_bytes=1 << 24)
    for _ in range(12):
        log.add(body=bytes(1 << 20))
    walk = BodilessWalk()
    [(step, texts)] = walked(tmp_path, log, walk)
    assert (step, len(texts)) == (Sound(0, log.end), 12)
    assert len(walk.buffer) < log.end // 2
