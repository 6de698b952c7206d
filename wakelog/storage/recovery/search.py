"""Choose where to check records, then find the log's end from there.

    stop     known to be durable                        checks begin            dispatch begins
    clean    -                                          third last segment      at the queues' end,
                                                                                or at dispatched
    crash    log: watermark; queues, index: dispatched  the lower of the two    at dispatched
    crash    not both                                   by the checkpoint       there as well

Two findings make a recovery fall back from the positions to the checkpoint's times:

- The records just below the positions are damaged, or do not end there (`store_time_below`).
- Something above them that was durable is damaged: then more below may be damaged.

A queue that has files but no entries has lost data, even after a clean stop. Then the whole log is
checked and dispatched again, unless dispatch reaches the queue's first record anyway.

Invariant: damage below the watermark is listed and never ends the log.

Source: org.apache.rocketmq.store.DefaultMessageStore.recover, CommitLog.recoverNormally,
recoverAbnormally, isMappedFileMatchedRecover (4.9.3).
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from wakelog.protocol.record import (
    CHECKED_HEADS,
    HOST_FLAGS_OFFSET,
    MESSAGE_MAGIC,
    RECORD_BYTES_MIN,
    V6_EXTRA_BYTES,
)
from wakelog.protocol.sys_flag import MESSAGE_BORN_HOST_V6
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.checkpoint import CheckpointTimes
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.mapped_file import MappedFile
from wakelog.storage.log.mapped_file_queue import MappedFileQueue
from wakelog.storage.recovery.log_end import LogEnd, LogEndSearch
from wakelog.storage.recovery.queues import QueueEnds, QueueRepair
from wakelog.storage.recovery.segments import reread_from_disk, store_time_below
from wakelog.storage.recovery.watermark_trust import DurablePositions

# A clean stop leaves everything durable; 4.9.3 checks this many segments all the same.
SEGMENTS_CHECKED_AFTER_CLEAN_EXIT: Final = 3
LOST_NAMED_MAX: Final = 3


class CheckPlan(NamedTuple):
    """Where to begin.

    cut_from: the log does not end below.
    dispatch_from: every queue has its entries below.
    checked_from: where reading begins, at most the lower of the two. Records without entries give
        the next queue offsets.
    by_position: whether queues, and the index if there was one, are durable up to `dispatch_from`.
    """

    cut_from: int
    dispatch_from: int
    checked_from: int
    by_position: bool = False


class RecoveringStore(NamedTuple):
    """The store to search.

    cut_at_damage: end the log at durable bytes with damage, as 4.9.3.
    deleted: topics whose records below an offset have no queue, see `deleted_topics.py`.
    """

    fs: FileSystem
    config: StoreConfig
    files: MappedFileQueue
    queues: QueueRepair
    times: CheckpointTimes
    cut_at_damage: bool
    deleted: Mapping[str, int]


class Searched(NamedTuple):
    """The plan that was used, where the log ends, and what its records say about queues.

    doubt: why positions that were known were not used; None if they were used or not known.
    """

    plan: CheckPlan
    end: LogEnd
    ends: QueueEnds
    doubt: str | None = None


def search_log_end(
    store: RecoveringStore, durable: DurablePositions, *, clean_exit: bool
) -> Searched:
    """Check what may not be durable and find the log's end. Raises: StoreFailed."""
    if clean_exit:
        queues_end = store.queues.max_physical_offset
        if durable.watermark and durable.dispatched:
            # A slave that makes queues of deleted topics again may have been stopped meanwhile.
            queues_end = min(queues_end, durable.dispatched)
        plan = plan_after_clean_exit(store.files, queues_end)
        found = _search(store, plan, durable.watermark, clean_exit=True)
    else:
        found = _search_after_crash(store, durable)
    lost = _queues_that_lost_entries(store, found)
    if lost is None:
        return found
    begin = store.files.min_offset
    plan = found.plan._replace(dispatch_from=begin, checked_from=begin, by_position=False)
    return _search(store, plan, durable.watermark, clean_exit=clean_exit)._replace(doubt=lost)


def plan_after_clean_exit(files: MappedFileQueue, queues_end: int) -> CheckPlan:
    """Check the last segments; dispatch has nothing to do. `queues_end`: -1 without entries."""
    used = [file for file in files.files if first_store_timestamp_ms(file) is not None]
    last = used[-SEGMENTS_CHECKED_AFTER_CLEAN_EXIT:]
    cut_from = last[0].start_offset if last else files.min_offset
    return _from_segments(files, cut_from, _in_log(files, queues_end))


def plan_after_crash(
    config: StoreConfig,
    files: MappedFileQueue,
    times: CheckpointTimes,
    queues_end: int,
    durable: DurablePositions,
) -> CheckPlan:
    """Begin where something may be missing: by the positions, or else by the checkpoint's times."""
    if durable.watermark and durable.dispatched:
        dispatch_from = _in_log(files, min(queues_end, durable.dispatched))
        begin = max(files.min_offset, min(durable.watermark, dispatch_from))
        return CheckPlan(begin, dispatch_from, begin, by_position=True)
    index_counts = config.message_index_enable and config.message_index_safe
    cut_from = checked_from_after_crash(files, times.min_index_ms if index_counts else times.min_ms)
    return _from_segments(files, cut_from, min(_in_log(files, queues_end), cut_from))


def checked_from_after_crash(files: MappedFileQueue, min_ms: int) -> int:
    """Return where to check from: segments before that are durable and dispatched.

    Walks the segments from the front as long as their first message is not younger than `min_ms`,
    and returns the begin of the last one. 4.9.3 takes the newest segment that is old enough. After
    a clock was set back, that one can lie after segments that were not durable.
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
    size, magic, *_ = CHECKED_HEADS[0].unpack_from(head)
    if magic != MESSAGE_MAGIC or size < RECORD_BYTES_MIN:
        return None
    fields = CHECKED_HEADS[head[HOST_FLAGS_OFFSET] & MESSAGE_BORN_HOST_V6].unpack_from(head)
    store_timestamp_ms: int = fields[6]
    return store_timestamp_ms or None


def _in_log(files: MappedFileQueue, physical_offset: int) -> int:
    return max(files.min_offset, min(physical_offset, files.max_file_end))


def _from_segments(files: MappedFileQueue, cut_from: int, dispatch_from: int) -> CheckPlan:
    """Begin the checks at the segment of the lower of the two offsets."""
    segment = files.find(dispatch_from)
    checked_from = cut_from if segment is None else min(cut_from, segment.start_offset)
    return CheckPlan(cut_from, dispatch_from, checked_from)


def _queues_that_lost_entries(store: RecoveringStore, found: Searched) -> str | None:
    """Return a text with queues that have lost all of their entries, None if there are none.

    A Reput that is killed while it makes a queue leaves a file without entries as well. Then the
    queue's first record is one that is dispatched again.
    """
    lost = []
    for (topic, queue_id), begin in store.queues.without_entries.items():
        first, place = found.ends.first((topic, queue_id)) or (None, 0)
        if first != begin or place < found.plan.dispatch_from:
            lost.append(f"{topic}/{queue_id}")
    if not lost or found.plan.dispatch_from <= store.files.min_offset:
        return None
    return f"queues have files and no entries: {', '.join(sorted(lost)[:LOST_NAMED_MAX])}"


def _search_after_crash(store: RecoveringStore, durable: DurablePositions) -> Searched:
    """Search by the positions, and by the checkpoint's times where those turn out to be wrong."""
    queues_end = store.queues.max_physical_offset
    plan = plan_after_crash(store.config, store.files, store.times, queues_end, durable)
    if not plan.by_position:
        return _search(store, plan, durable.watermark)
    doubt = f"the records in front of {plan.checked_from} are not what they were"
    last_ms = store_time_below(store.files, plan.checked_from)
    if last_ms is not None:
        found = _search(store, plan, durable.watermark, last_ms=last_ms)
        if not found.end.damaged:
            return found
        doubt = f"what was durable is damaged at {found.end.damaged[0].begin}"
    store.queues.check_each()
    queues_end = store.queues.max_physical_offset
    plan = plan_after_crash(store.config, store.files, store.times, queues_end, DurablePositions())
    return _search(store, plan, durable.watermark)._replace(doubt=doubt)


def _search(
    store: RecoveringStore,
    plan: CheckPlan,
    watermark: int,
    *,
    clean_exit: bool = False,
    last_ms: int = 0,
) -> Searched:
    """Check records as the plan says; after a crash, what the disk holds and not the page cache."""
    config = store.config
    if not clean_exit:
        if config.enable_consume_queue_extension:
            # A unit may be torn where its entry is whole: dispatch makes both again.
            store.queues.cut_at(plan.dispatch_from)
        reread_from_disk(store.fs, store.files, plan.checked_from)
    ends = QueueEnds(
        enable_multi_dispatch=config.enable_multi_dispatch,
        enable_lmq=config.enable_lmq,
        deleted=store.deleted,
    )
    search = LogEndSearch(
        store.files,
        ends,
        cut_from=plan.cut_from,
        # A slave of 4.9.3 writes this time at dispatch, and its master resends what is cut.
        durable_ms=store.times.physic_ms if config.appends else 0,
        check_body=config.check_crc_on_recover,
        cut_at_damage=store.cut_at_damage,
        may_be_torn=not clean_exit,
        watermark=watermark,
        last_ms=last_ms,
    )
    return Searched(plan, search.run(plan.checked_from), ends)
