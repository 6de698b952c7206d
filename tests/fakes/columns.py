"""Columns of a log in memory, as a compiled scan fills them."""

import pytest

from tests.fakes.records import LogBytes
from wakelog.compiled.columns import ScanFunctions
from wakelog.compiled.library import CHOICE, Library
from wakelog.storage.columns.scan_columns import Columns


def compiled_functions() -> Library:
    """Return the library's functions."""
    if CHOICE.library is None:
        pytest.skip("there is no C compiler")
    return CHOICE.library


def scanned(
    functions: ScanFunctions, log: LogBytes, begin: int = 0, delays_ms: tuple[int, ...] = ()
) -> Columns:
    """Return the columns of a log of one segment, from `begin` on."""
    columns = Columns(functions, delays_ms, buffer_bytes=log.segment_bytes, records_max=64)
    columns.buffer[: log.end] = log.data
    end = log.segment_bytes
    columns.scan(begin=begin, end=log.end, physical_offset=begin, segment_end=end)
    return columns
