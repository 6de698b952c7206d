"""Where recovery begins to check the log, and where dispatch begins: what it can leave alone.

    stop before   known to be durable                        checks begin            dispatch begins
    in order      -                                          third last segment      queues' end
    a crash       log: watermark; queues, index: dispatched  the lower of the two    dispatched
    a crash       no position of the two                     by the checkpoint       there as well

By positions a recovery reads what a second or two of a broker's life have left, however long the
log is. By the checkpoint's times it begins with a segment, of which there are as many to read as
were written since. What lies below the positions is looked at only if something there or behind
is not what it was (`search.py`); else damage is found by whoever reads it, or by `verify`.

Source: org.apache.rocketmq.store.DefaultMessageStore.recover, CommitLog.recoverNormally,
recoverAbnormally, isMappedFileMatchedRecover (4.9.3).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from wakelog.protocol.message_record import MESSAGE_MAGIC, RECORD_BYTES_MIN, V6_EXTRA_BYTES
from wakelog.protocol.sys_flag import MESSAGE_BORN_HOST_V6
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.checkpoint import CheckpointTimes
from wakelog.storage.log.mapped_file import MappedFile
from wakelog.storage.log.mapped_file_queue import MappedFileQueue
from wakelog.storage.log.record_check import HEAD_BY_HOST_FLAGS, HOST_FLAGS_OFFSET

# A clean stop leaves everything durable; 4.9.3 looks at this many segments all the same.
SEGMENTS_CHECKED_AFTER_CLEAN_EXIT: Final = 3


class Plan(NamedTuple):
    """Where to begin what.

    cut_from: the log does not end below.
    dispatch_from: below, every queue has its entries.
    checked_from: where reading begins, not above the two: the records without entries say what the
        next queue offsets are.
    by_position: whether queues are durable up to `dispatch_from`, and an index that there was.
    """

    cut_from: int
    dispatch_from: int
    checked_from: int
    by_position: bool = False


class DurablePositions(NamedTuple):
    """How far the log, and queues with index, are known to be durable; 0 if nothing is known.

    has_index: whether there was an index then; while it is switched off none is known to be.
    """

    watermark: int
    dispatched: int
    has_index: bool = False


def plan_after_clean_exit(files: MappedFileQueue, queues_end: int) -> Plan:
    """Check the last segments; dispatch has nothing to do. `queues_end`: -1 without entries."""
    dispatch_from = _in_log(files, queues_end)
    return _from_segments(files, _third_last(files), dispatch_from)


def plan_after_crash(
    config: StoreConfig,
    files: MappedFileQueue,
    times: CheckpointTimes,
    queues_end: int,
    durable: DurablePositions,
) -> Plan:
    """Begin where something may be missing: by the positions, or else by the checkpoint's times."""
    if durable.watermark and durable.dispatched:
        dispatch_from = _in_log(files, min(queues_end, durable.dispatched))
        begin = max(files.min_offset, min(durable.watermark, dispatch_from))
        return Plan(begin, dispatch_from, begin, by_position=True)
    index_counts = config.message_index_enable and config.message_index_safe
    cut_from = checked_from_after_crash(files, times.min_index_ms if index_counts else times.min_ms)
    return _from_segments(files, cut_from, min(_in_log(files, queues_end), cut_from))


def _in_log(files: MappedFileQueue, physical_offset: int) -> int:
    return max(files.min_offset, min(physical_offset, files.max_file_end))


def _from_segments(files: MappedFileQueue, cut_from: int, dispatch_from: int) -> Plan:
    """Begin with the segment of the lower one."""
    segment = files.find(dispatch_from)
    checked_from = cut_from if segment is None else min(cut_from, segment.start_offset)
    return Plan(cut_from, dispatch_from, checked_from)


def checked_from_after_crash(files: MappedFileQueue, min_ms: int) -> int:
    """Return where to check from: everything in segments before is durable and dispatched.

    That is the last segment of the log's front part in which no first message is younger than
    `min_ms`; the first one if even that is younger.
    """
    begin = files.min_offset
    for file in files.files:
        store_timestamp_ms = first_store_timestamp_ms(file)
        if store_timestamp_ms is None or store_timestamp_ms > min_ms:
            break
        begin = file.start_offset
    return begin


def first_store_timestamp_ms(file: MappedFile) -> int | None:
    """Return the store time of a segment's first message, None if there is none."""
    head = file.read(0, RECORD_BYTES_MIN + V6_EXTRA_BYTES)
    size, magic, *_ = HEAD_BY_HOST_FLAGS[0].unpack_from(head)
    if magic != MESSAGE_MAGIC or size < RECORD_BYTES_MIN:
        return None
    fields = HEAD_BY_HOST_FLAGS[head[HOST_FLAGS_OFFSET] & MESSAGE_BORN_HOST_V6].unpack_from(head)
    store_timestamp_ms: int = fields[6]
    return store_timestamp_ms or None


def _third_last(files: MappedFileQueue) -> int:
    """Return where the third last segment begins, not counting those made ahead of need."""
    used = [file for file in files.files if first_store_timestamp_ms(file) is not None]
    last = used[-SEGMENTS_CHECKED_AFTER_CLEAN_EXIT:]
    return last[0].start_offset if last else files.min_offset
