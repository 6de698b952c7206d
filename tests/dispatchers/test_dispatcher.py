"""A batch gives its records in either form."""

from tests.fakes.records import record
from wakelog.dispatchers.dispatcher import DispatchBatch
from wakelog.storage.kernels.columns import Columns
from wakelog.storage.kernels.loader import compile_kernels
from wakelog.storage.log.scan import scan_plain


def test_both_forms_give_the_same_records() -> None:
    data = record(0) + record(len(record(0)), topic="Other")
    plain = scan_plain(data, 0, 4096, ()).requests
    columns = Columns(compile_kernels(), buffer_bytes=len(data), records_max=2)
    columns.buffer[:] = data
    columns.scan(begin=0, end=len(data), physical_offset=0, segment_end=4096)
    one = DispatchBatch(0, len(data), 5, requests=plain)
    other = DispatchBatch(0, len(data), 5, columns=columns, caught_up=False)
    assert len(one) == len(other) == 2
    assert one.requests == other.requests
    assert other.requests is other.requests
    assert (one.columns, one.caught_up) == (None, True)
    assert (other.columns, other.caught_up) == (columns, False)
