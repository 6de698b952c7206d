"""The keys that a compiled scan counts; test_columns.py compares all that it finds."""

from tests.fakes.records import properties, record
from wakelog.storage.kernels.columns import Columns
from wakelog.storage.kernels.kernels import Kernels

RECORD = record(0, properties(UNIQ_KEY="u", KEYS="a b"), body=b"0123456789")


def test_records_and_keys_are_counted_and_a_cut_record_leaves_nothing(kernels: Kernels) -> None:
    both = RECORD + record(len(RECORD), properties(UNIQ_KEY="v"))
    columns = Columns(kernels, buffer_bytes=len(both), records_max=4)
    columns.buffer[:] = both
    for end in range(len(both) + 1):
        count = (end >= len(RECORD)) + (end == len(both))
        scan = columns.scan(begin=0, end=end, physical_offset=0, segment_end=len(both))
        assert (columns.count, columns.key_count) == (count, [0, 3, 4][count])
        assert scan.next_position == [0, len(RECORD), len(both)][count]
