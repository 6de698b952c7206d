"""Which queues a batch has entries in: one for each visible message, more for a message of many."""

from typing import Any

from tests.dispatchers.stores import batch_of, dispatch_config
from tests.fakes.records import LogBytes, properties
from wakelog.compiled.columns import ScanFunctions
from wakelog.compiled.layout import ENTRY_BYTES
from wakelog.dispatchers.queue_entries import EntryPlacement
from wakelog.storage.log.queue_offsets import QueueKey


class Noted:
    """Takes entries and keeps their queue offsets."""

    def __init__(self) -> None:
        self.queue_offsets: list[int] = []
        self.units: list[Any] = []
        self.runs_count = 0

    def put(self, *places: int, unit: tuple[int, bytes] | None = None) -> None:
        self.queue_offsets.append(places[3])
        self.units.append(unit)

    def put_run(self, entries: Any, *, queue_offset: int, **places: int) -> bool:
        self.runs_count += 1
        if queue_offset != 0:
            return False
        self.queue_offsets += range(len(entries) // ENTRY_BYTES)
        return True

    def put_column(self, entries: Any, *, queue_offsets: Any, **columns: Any) -> None:
        assert len(entries) == ENTRY_BYTES * len(queue_offsets)
        self.queue_offsets += queue_offsets.tolist()


def placed(
    log: LogBytes, functions: ScanFunctions | None = None, **config: Any
) -> dict[QueueKey, Noted]:
    noted: dict[QueueKey, Noted] = {}

    def open_queue(key: QueueKey) -> Noted | None:
        return None if key[0] == "refused" else noted.setdefault(key, Noted())

    placement = EntryPlacement(dispatch_config(**config), open_queue)
    touched = placement.place(batch_of(log, functions))
    assert list(touched) == list(noted.values())
    return noted


def test_prepared_and_rolled_back_messages_have_none(functions: ScanFunctions | None) -> None:
    log = LogBytes()
    for i, sys_flag in enumerate((0, 4, 8, 12)):
        log.add(queue_offset=i, sys_flag=sys_flag)
    assert placed(log, functions)["T", 0].queue_offsets == [0, 2]


def test_a_refused_queue_is_left_out(functions: ScanFunctions | None) -> None:
    log = LogBytes()
    log.add(topic="refused")
    log.add(topic="U")
    assert [*placed(log, functions)] == [("U", 0)]


def test_an_unbroken_run_is_offered_as_one(compiled: ScanFunctions) -> None:
    log = LogBytes()
    for i in range(3):
        log.add(queue_offset=i)
        log.add(topic="U", queue_offset=7 + i)
        log.add(topic="V", queue_offset=2 * i)
    found = placed(log, compiled)
    assert found["T", 0].queue_offsets == [0, 1, 2]
    assert (found["U", 0].queue_offsets, found["U", 0].runs_count) == ([7, 8, 9], 1)
    assert (found["V", 0].queue_offsets, found["V", 0].runs_count) == ([0, 2, 4], 0)


def test_a_message_of_several_queues_comes_behind_in_each(functions: ScanFunctions | None) -> None:
    log = LogBytes()
    multi = properties(INNER_MULTI_DISPATCH="B", INNER_MULTI_QUEUE_OFFSET="5")
    log.add(multi, topic="A")
    log.add(topic="B", queue_offset=6)
    found = placed(log, functions, enable_multi_dispatch=True)
    assert found["B", 0].queue_offsets == [5, 6]
    assert (("B", 0) in placed(log, functions)) and placed(log, functions)[
        "B", 0
    ].queue_offsets == [6]


def test_units_belong_to_own_queues_alone(functions: ScanFunctions | None) -> None:
    log = LogBytes()
    multi = properties(INNER_MULTI_DISPATCH="B", INNER_MULTI_QUEUE_OFFSET="5")
    log.add(multi, topic="A", store_timestamp_ms=9)
    found = placed(log, functions, enable_multi_dispatch=True, enable_consume_queue_extension=True)
    assert found["A", 0].units == [(9, b"")] and found["B", 0].units == [None]
