"""Scan a stretch of the log into dispatch requests, record after record, until something is not one.

Two ways, one result: plain Python for small steps, columns made by a compiled kernel
(`scan_kernel.py`) for catching up.
"""

from __future__ import annotations

from typing import NamedTuple

from wakelog.storage.dispatch_request import DispatchRequest
from wakelog.storage.record_check import Buffer, RecordCheck


class ScanSpan(NamedTuple):
    """Where to scan: buffer[begin:end]; buffer[begin] lies at `physical_offset`.

    segment_end: physical offset at which the segment ends.
    """

    buffer: Buffer
    begin: int
    end: int
    physical_offset: int
    segment_end: int


class PlainScan(NamedTuple):
    """Sound records in order, and what came after them (None: `end` was reached exactly)."""

    requests: list[DispatchRequest]
    next_physical_offset: int
    stopped_by: RecordCheck | None


def scan_plain(span: ScanSpan, delay_levels_ms: tuple[int, ...]) -> PlainScan:
    """Scan in plain Python."""
    raise NotImplementedError
