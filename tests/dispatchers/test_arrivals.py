"""The arrivals and the put statistics of a batch."""

from tests.dispatchers.stores import batch_of
from tests.fakes.columns import compiled_functions
from tests.fakes.records import LogBytes, properties, record
from wakelog.compiled.columns import ScanFunctions
from wakelog.dispatchers.arrivals import TopicPuts, batch_arrivals, count_puts
from wakelog.dispatchers.dispatcher import DispatchBatch
from wakelog.protocol.java import string_hash
from wakelog.storage.columns.scan_columns import Columns
from wakelog.storage.log.scan import scan_plain
from wakelog.storage.queue.entries import Arrival

MULTI = properties(TAGS="m", INNER_MULTI_DISPATCH="%LMQ%x,Y", INNER_MULTI_QUEUE_OFFSET="4,5")


def log_of_messages() -> LogBytes:
    log = LogBytes()
    log.add(properties(TAGS="a"), topic="A", queue_offset=0)
    log.add(properties(TAGS="b"), topic="A", queue_offset=1)
    log.add(properties(TAGS="c"), topic="B", queue_id=2, queue_offset=7)
    log.add(topic="Half", sys_flag=4)
    log.add(topic="A", sys_flag=12)
    log.add(MULTI, topic="C", queue_id=1, queue_offset=3, sys_flag=8)
    return log


FURTHER = [Arrival("%LMQ%x", 0, 5, string_hash("m")), Arrival("Y", 1, 6, string_hash("m"))]


def test_one_by_one_in_log_order() -> None:
    assert batch_arrivals(batch_of(log_of_messages()), enable_lmq=True) == [
        Arrival("A", 0, 1, string_hash("a")),
        Arrival("A", 0, 2, string_hash("b")),
        Arrival("B", 2, 8, string_hash("c")),
        Arrival("C", 1, 4, string_hash("m")),
        *FURTHER,
    ]


def test_in_bulk_one_a_queue(compiled: ScanFunctions) -> None:
    assert batch_arrivals(batch_of(log_of_messages(), compiled), enable_lmq=True) == [
        Arrival("A", 0, 2, None),
        Arrival("B", 2, 8, string_hash("c")),
        Arrival("C", 1, 4, string_hash("m")),
        *FURTHER,
    ]


def test_a_prepared_message_for_several_queues_is_none(functions: ScanFunctions | None) -> None:
    log = LogBytes()
    log.add(MULTI, sys_flag=4)
    assert batch_arrivals(batch_of(log, functions), enable_lmq=True) == []


def test_a_slave_counts_every_record(functions: ScanFunctions | None) -> None:
    log = log_of_messages()
    puts: dict[str, TopicPuts] = {}
    for _ in range(2):
        count_puts(batch_of(log, functions), puts)
    sizes = [
        end - begin for begin, end in zip(log.offsets, [*log.offsets[1:], log.end], strict=True)
    ]
    assert puts == {
        "A": TopicPuts(6, 2 * (sizes[0] + sizes[1] + sizes[4])),
        "B": TopicPuts(2, 2 * sizes[2]),
        "Half": TopicPuts(2, 2 * sizes[3]),
        "C": TopicPuts(2, 2 * sizes[5]),
    }


def test_both_forms_give_the_same_records() -> None:
    data = record(0) + record(len(record(0)), topic="Other")
    plain = scan_plain(data, 0, 4096, ()).requests
    columns = Columns(compiled_functions(), buffer_bytes=len(data), records_max=2)
    columns.buffer[:] = data
    columns.scan(begin=0, end=len(data), physical_offset=0, segment_end=4096)
    one = DispatchBatch(0, len(data), 5, requests=plain)
    other = DispatchBatch(0, len(data), 5, columns=columns, caught_up=False)
    assert len(one) == len(other) == 2
    assert one.requests == other.requests
    assert other.requests is other.requests
    assert (one.columns, one.caught_up) == (None, True)
    assert (other.columns, other.caught_up) == (columns, False)
