"""Bring a store directory to a state that can be written: find the log's end, cut what is behind.

Source: org.apache.rocketmq.store.CommitLog#recoverNormally, #recoverAbnormally,
DefaultMessageStore#recover (4.9.3).
"""

from typing import NamedTuple


class QuarantinedPiece(NamedTuple):
    """Bytes that recovery cut from the log and kept aside."""

    physical_offset: int
    size_bytes: int
    path: str


class RecoveryReport(NamedTuple):
    """What recovery found and did.

    clean_exit: there was no abort file.
    scan_from: the physical offset at which record checks began.
    log_end: the first byte after the last sound record; the log continues here.
    dispatch_from: Reput starts here or below; every dispatcher ignores what it already has.
    queue_offsets: the next queue offset of each (topic, queue id), LMQ queues included.
    quarantined: what was cut, nothing if only zeros were.
    """

    clean_exit: bool
    scan_from: int
    log_begin: int
    log_end: int
    dispatch_from: int
    queue_offsets: dict[tuple[str, int], int]
    records_checked_count: int
    quarantined: tuple[QuarantinedPiece, ...]
    commit_log_files_removed: tuple[str, ...]
    consume_queues_truncated: tuple[tuple[str, int], ...]
    index_files_removed: tuple[str, ...]
