"""Columns of a log in memory, as a compiled scan fills them."""

from tests.fakes.records import LogBytes
from wakelog.storage.kernels.columns import Columns
from wakelog.storage.kernels.kernels import Kernels


def scanned(
    kernels: Kernels, log: LogBytes, begin: int = 0, delays_ms: tuple[int, ...] = ()
) -> Columns:
    """Return the columns of a log of one segment, from `begin` on."""
    columns = Columns(kernels, delays_ms, buffer_bytes=log.segment_bytes, records_max=64)
    columns.buffer[: log.end] = log.data
    end = log.segment_bytes
    columns.scan(begin=begin, end=log.end, physical_offset=begin, segment_end=end)
    return columns
