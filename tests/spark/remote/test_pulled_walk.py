"""Pulled records as columns, and their rows."""

import zlib
from typing import Any

from tests.fakes.records import properties, record
from tests.spark.logs import MESSAGES, rows_of
from tests.spark.plain_rows import plain_row
from wakelog.protocol.record import decode_record
from wakelog.spark.bounds import Bounds, Selection
from wakelog.spark.records.column_walk import RowOptions
from wakelog.spark.records.rows import Rows
from wakelog.spark.remote.pulled_walk import PulledWalk

V6: dict[str, Any] = {
    "born_host": ("2001:db8::1", 5),
    "store_host": ("::1", 10_911),
    "sys_flag": 0x30,
}


def test_rows_are_those_of_the_records() -> None:
    records = [
        record(7000, properties(TAGS="t", KEYS="k", UNIQ_KEY="U"), queue_offset=5, body=b"one"),
        record(90, queue_offset=6, **V6),
        record(400, queue_offset=7, body=zlib.compress(b"long " * 99), sys_flag=1),
    ]
    walk = PulledWalk()
    assert walk.scan([records[0], records[1] + records[2]], "T", 0, 3)
    assert (walk.count, walk.queues()) == (3, [(b"T", 0)])
    rows = Rows(walk, MESSAGES, Selection(), RowOptions(broker="b"))
    expected = [plain_row(decode_record(x), decode_record(x).body, "b") for x in records]
    expected[2]["body"] = b"long " * 99
    assert [row for batch in rows.batches() for row in rows_of(batch)] == expected
    bounds = Selection(queues={("b", "T", 0): Bounds(queue_begin=6, queue_end=7)})
    [batch] = Rows(walk, MESSAGES, bounds, RowOptions(broker="b")).batches()
    assert rows_of(batch) == [expected[1]]


def test_damaged_records_and_records_of_other_queues() -> None:
    walk = PulledWalk()
    assert not walk.scan([record(0), b"x" * 100], "T", 0, 5)
    assert walk.count == 1
    assert walk.scan([record(0, topic="U")], "T", 0, 5)
    assert (walk.count, walk.queues()) == (1, [])
    assert list(Rows(walk, MESSAGES, Selection(), RowOptions()).batches()) == []
    assert walk.scan([], "T", 0, 0) and walk.count == 0
