"""The records that a selection wants, over many fillings of the columns."""

from pathlib import Path

import numpy as np

from tests.fakes.records import LogBytes
from tests.spark.logs import FS, write_segments
from wakelog.compiled.layout import GROUP, NUMBER_FIELDS, PHYSICAL_OFFSET, QUEUE_OFFSET
from wakelog.protocol.java import LONG_MAX
from wakelog.spark.bounds import Bounds, Selection, Topics
from wakelog.spark.records.column_walk import RecordWalk, Sound
from wakelog.spark.records.wanted import Wanted, wanted_records
from wakelog.spark.stores import OpenSegment, open_store


class Asked(Topics):
    """Topics that count how often they are asked."""

    asked = 0

    def accept(self, broker: str, topic: str, queue_id: int) -> bool:
        Asked.asked += 1
        return super().accept(broker, topic, queue_id)


def test_a_queue_is_asked_about_once(walk: RecordWalk, tmp_path: Path) -> None:
    log = LogBytes(segment_bytes=1 << 15)
    for i in range(120):
        log.add(topic="AB"[i % 2], queue_id=i % 3, queue_offset=i)
    selection = Selection(Asked(frozenset({"A"})), queues={("b", "A", 0): Bounds(queue_begin=60)})
    wanted = Wanted(selection, "b")
    file = OpenSegment(FS, open_store(FS, str(write_segments(tmp_path, log))).segments[0])
    found: list[int] = []
    for step in walk.steps(file, 0, log.end):
        assert isinstance(step, Sound)
        found += walk.numbers[wanted.rows(walk), PHYSICAL_OFFSET].tolist()
    file.close()
    assert [log.offsets.index(x) for x in found] == [
        i for i in range(0, 120, 2) if i % 3 or i >= 60
    ]
    assert Asked.asked == 6


def test_messages_in_no_queue_are_not_wanted(walk: RecordWalk, tmp_path: Path) -> None:
    log = LogBytes()
    for sys_flag in (0, 4, 8, 12):
        log.add(sys_flag=sys_flag)
    file = OpenSegment(FS, open_store(FS, str(write_segments(tmp_path, log))).segments[0])
    for _ in walk.steps(file, 0, log.end):
        assert Wanted(Selection(), "b").rows(walk).tolist() == [0, 2]
    file.close()


def test_what_is_wanted_lies_within_every_bound() -> None:
    numbers = np.zeros((6, NUMBER_FIELDS), dtype=np.int64)
    numbers[:, QUEUE_OFFSET] = [0, 1, 2, LONG_MAX, 4, 5]
    numbers[:, GROUP] = [0, 0, 0, 0, 1, -1]

    def wanted(*limits: Bounds) -> list[int]:
        found: list[int] = wanted_records(numbers, list(limits)).tolist()
        return found

    everything, nothing = Bounds(), Bounds(1, 0, 1, 0)
    assert wanted(everything, everything) == [0, 1, 2, 3, 4]
    assert wanted(everything, nothing) == [0, 1, 2, 3]
    assert wanted(Bounds(queue_begin=1, queue_end=2), everything) == [1, 4]
    assert wanted(Bounds(physical_begin=1), everything) == [4]
