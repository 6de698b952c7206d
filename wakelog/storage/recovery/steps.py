"""Recovery, step by step: find the log's end, cut what lies after it, say where dispatch begins.

Runs in the Broker's process with the store's lock held, before any other process has a file open.
The package's page lists the steps; the comments in `recover` and `_recover` have their numbers.

Where we differ from 4.9.3:
- Step 4 never begins at a segment that lies after one that may not be durable (`search.py`).
- Step 6 zeroes and removes durably. 4.9.3 moves positions in memory: after the next crash an old
  record can come back after a new one.
- Index files that step 9 removes are built again completely. 4.9.3 loses what they held of
  segments before the one where its checks begin.

Source: org.apache.rocketmq.store.DefaultMessageStore.load, recover, start,
CommitLog.recoverNormally, recoverAbnormally, isMappedFileMatchedRecover,
index.IndexService.load (4.9.3).
"""

import sys
from contextlib import ExitStack, closing
from posixpath import join
from typing import Final, NamedTuple

from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.checkpoint import Checkpoint, CheckpointTimes
from wakelog.storage.durability.deleted_topics import DeletedTopics
from wakelog.storage.durability.dispatched import IndexEnd, lower_dispatched, read_dispatched
from wakelog.storage.durability.marks import AbortFile, FailedSyncMark
from wakelog.storage.durability.store_lock import was_another_brokers
from wakelog.storage.durability.sum_file import drop_sums_from, drop_sums_of_changed
from wakelog.storage.durability.watermark import Watermark
from wakelog.storage.errors import store_errors
from wakelog.storage.file_system import FileSystem
from wakelog.storage.index.index_file import IndexFileReader
from wakelog.storage.index.index_service import (
    index_names,
    index_shape,
    remove_index_files_after,
)
from wakelog.storage.log.commit_log_reader import commit_log_files
from wakelog.storage.log.mapped_file_queue import MappedFileQueue
from wakelog.storage.log.queue_offsets import QueueKey
from wakelog.storage.recovery.log_end import DamagedStretch
from wakelog.storage.recovery.quarantine import QuarantinedPiece, copy_to_quarantine
from wakelog.storage.recovery.queues import QueueRepair
from wakelog.storage.recovery.search import (
    RecoveringStore,
    Searched,
    plan_after_crash,
    search_log_end,
)
from wakelog.storage.recovery.segments import load_segments, sync_segments
from wakelog.storage.recovery.watermark_trust import DurablePositions, known_durable, seal_of

RECOVERY_OWNER: Final = "recovery"
MISSING: Final = "segments are missing"


class RecoveryReport(NamedTuple):
    """What recovery found and did.

    clean_exit: there was no abort file, and no mark of a failed sync.
    checked_from: the physical offset at which record checks began.
    log_end: the first byte after the last sound record; everything below is durable.
    end_reason: what lies at the end, in words.
    dispatch_from: Reput starts here or below. Every dispatcher skips what it already has.
    queue_offsets: the next queue offset of each (topic, queue id), LMQ queues included.
    damaged: places in the log that were durable once; every reader skips them.
    quarantined: what was cut; empty if only zeros were.
    watermark: below it everything was known to be durable; 0 if nothing was.
    watermark_doubt: why an existing watermark was not trusted.
    after_another_broker: a RocketMQ broker had the store last.
    positions_doubt: why checks began below the watermark and the position of what is dispatched.
    read_only: why the log takes no messages, None if it does.
    unrestored: what a dead broker's transient pool held for places where another broker has written
        since; it is kept in the quarantine.
    last_record: physical offset of the last record that was checked, -1 if none was.
    """

    clean_exit: bool
    checked_from: int
    log_begin: int
    log_end: int
    end_reason: str
    dispatch_from: int
    queue_offsets: dict[QueueKey, int]
    records_checked_count: int
    last_store_timestamp_ms: int
    damaged: tuple[DamagedStretch, ...]
    quarantined: tuple[QuarantinedPiece, ...]
    commit_log_files_removed: tuple[str, ...]
    consume_queues_cut: tuple[QueueKey, ...]
    index_files_removed: tuple[str, ...]
    watermark: int = 0
    watermark_doubt: str | None = None
    positions_doubt: str | None = None
    read_only: str | None = None
    unrestored: tuple[QuarantinedPiece, ...] = ()
    last_record: int = -1
    after_another_broker: bool = False


class Recovered(NamedTuple):
    """The report, and the log's segments, loaded and cut."""

    report: RecoveryReport
    files: MappedFileQueue


def recover(
    fs: FileSystem,
    config: StoreConfig,
    now_ms: int,
    *,
    cut_at_damage: bool = False,
    bridge: bool = True,
) -> Recovered:
    """Recover a store whose lock the caller holds.

    cut_at_damage: end the log at damage that was durable once, as 4.9.3 does.
    bridge: serve the log on both sides of missing segments. False refuses such a log, and so does
        `cut_at_damage`.

    Raises: DamagedStore when only a guess could go on, and then nothing was changed; StoreFull when
    there is no room for the quarantine; StoreFailed.
    """
    # 1: the segments
    files = load_segments(fs, config, bridge=bridge and not cut_at_damage)
    with ExitStack() as undo:
        undo.callback(files.close)
        report = _recover(fs, config, files, now_ms, cut_at_damage=cut_at_damage)
        undo.pop_all()
    return Recovered(report, files)


def _recover(
    fs: FileSystem,
    config: StoreConfig,
    files: MappedFileQueue,
    now_ms: int,
    *,
    cut_at_damage: bool,
) -> RecoveryReport:
    failed_sync = FailedSyncMark(fs, config.paths).is_set()
    clean_exit = not _is_aborted(fs, config.paths.abort) and not failed_sync
    times = _read_checkpoint(fs, config.paths.checkpoint)
    # 2: how far the log is durable
    durable = known_durable(fs, config, files, times)
    if not durable.watermark:
        drop_sums_of_changed(fs, config.paths, files)
    elif not failed_sync and not cut_at_damage:
        durable = _with_dispatched(fs, config, durable)
    with closing(QueueRepair(fs, config)) as queues:  # 3, 4, 5: queues' own ends, then the log's
        deleted = _cut_queues(fs, config, queues, None if clean_exit else durable.dispatched)
        store = RecoveringStore(fs, config, files, queues, times, cut_at_damage, dict(deleted.ends))
        found = search_log_end(store, durable, clean_exit=clean_exit)
        plan, end = found.plan, found.end
        # 6, 7: cut the log there, durably
        quarantined, removed = _end_log(store, found, durable.watermark, now_ms)
        # 8: cut the queues; first lower what is dispatched, because the log may grow over it
        dispatched = durable.dispatched if found.doubt is None else 0
        deleted.lower(end.physical_offset)
        lower_dispatched(fs, config.paths.dispatched, min(dispatched, end.physical_offset))
        queues_cut = queues.cut_at(end.physical_offset)
        queue_offsets = _next_offsets(queues, found, files)
        queues.on_durable()
    # 9, 10: the index, and where dispatch begins
    dispatch_from = min(plan.dispatch_from, end.physical_offset)
    index_removed: tuple[str, ...] = ()
    if not clean_exit and not (plan.by_position and durable.has_index):
        index_removed, index_end = _remove_untrusted_index(fs, config, times.index_ms)
        dispatch_from = max(files.min_offset, min(dispatch_from, index_end))
    return RecoveryReport(
        clean_exit=clean_exit,
        checked_from=plan.checked_from,
        log_begin=min(files.min_offset, end.physical_offset),
        log_end=end.physical_offset,
        end_reason=end.reason,
        dispatch_from=dispatch_from,
        queue_offsets=queue_offsets,
        records_checked_count=end.records_checked_count,
        last_store_timestamp_ms=end.last_store_timestamp_ms,
        watermark=durable.watermark,
        watermark_doubt=durable.doubt,
        positions_doubt=found.doubt,
        damaged=_with_missing(end.damaged, files),
        quarantined=quarantined,
        commit_log_files_removed=removed,
        consume_queues_cut=queues_cut,
        index_files_removed=index_removed,
        read_only=_why_read_only(files),
        last_record=end.last_record,
        after_another_broker=_is_after_another_broker(fs, config, durable),
    )


def recover_derived(fs: FileSystem, config: StoreConfig) -> int:
    """Recover queues and index alone, as after a crash; return where dispatch has to begin.

    For a Reput that replaces one whose sync failed, while the Broker lives.

    Raises: StoreFailed, DamagedStore.
    """
    files = commit_log_files(fs, config, read_only=True)
    files.load()
    times = _read_checkpoint(fs, config.paths.checkpoint)
    with closing(files), closing(QueueRepair(fs, config)) as queues:
        queues.cut_unwritten(after_crash=True)
        queues_end = queues.max_physical_offset
        plan = plan_after_crash(config, files, times, queues_end, DurablePositions())
    _, index_end = _remove_untrusted_index(fs, config, times.index_ms)
    return min(plan.dispatch_from, index_end)


def _with_dispatched(
    fs: FileSystem, config: StoreConfig, durable: DurablePositions
) -> DurablePositions:
    mark = read_dispatched(fs, config.paths.dispatched)
    has_index = mark.index_end != IndexEnd()
    return durable._replace(dispatched=mark.physical_offset, has_index=has_index)


def _is_after_another_broker(
    fs: FileSystem, config: StoreConfig, durable: DurablePositions
) -> bool:
    """Return whether a RocketMQ broker had the store last; before the lock file is signed."""
    with store_errors(config.paths.lock, "read"):
        return durable.doubt is not None or was_another_brokers(fs, config.paths.lock)


def _is_aborted(fs: FileSystem, path: str) -> bool:
    """Return whether there is an abort file; if there is one, make it durable.

    A killed broker may have left it in the page cache alone. Recovery writes files that only our
    own broker writes; if a power loss then removed the abort file, they would look foreign.
    """
    abort = AbortFile(fs, path)
    if abort.exists():
        abort.create()
        return True
    return False


def _cut_queues(
    fs: FileSystem, config: StoreConfig, queues: QueueRepair, durable: int | None
) -> DeletedTopics:
    """Cut each queue after its last entry, and end the removals that were interrupted.

    durable: how far entries were durable before a crash, None after a clean exit.
    """
    queues.cut_unwritten(after_crash=durable is not None, durable=durable or 0)
    deleted = DeletedTopics(fs, config.paths)
    queues.end_removals(deleted.ends)
    return deleted


def _end_log(
    store: RecoveringStore, found: Searched, watermark_offset: int, now_ms: int
) -> tuple[tuple[QuarantinedPiece, ...], tuple[str, ...]]:
    """Cut the log at its end; sync what is kept, then move the watermark to the end.

    A log with missing segments is left as it is. Return what was quarantined and removed.
    """
    fs, config, files, end = store.fs, store.config, store.files, found.end.physical_offset
    with closing(Watermark(fs, config.paths.watermark)) as watermark:
        if files.missing_stretches():
            while files.last is not None and files.last.start_offset > end:
                files.forget_last()
            # Lowered also where it was not trusted: the next start finds our text in the lock.
            watermark.lower(watermark_offset)
            return (), ()
        watermark.lower(end)
        drop_sums_from(fs, config.paths, end, files.file_size_bytes)
        quarantined = copy_to_quarantine(fs, config.paths.root, files.files, end, now_ms)
        # A segment that begins at the end stays, as in 4.9.3. Without it the next recovery would
        # end the log before the blank of the segment in front, or renumber from 0.
        removed = tuple(files.truncate(end, keep_empty=end > 0))
        # What a killed process wrote may still be in the page cache alone.
        sync_segments(files, found.plan.checked_from)
        # A clean store stays sealed until the abort file is made: this process may die before.
        is_sealed = not AbortFile(fs, config.paths.abort).exists()
        seal = seal_of(fs, config, files, end) if is_sealed else None
        watermark.note(end, store.times.physic_ms, seal)
    return quarantined, removed


def _next_offsets(
    queues: QueueRepair, found: Searched, files: MappedFileQueue
) -> dict[QueueKey, int]:
    """Return the next queue offset of each queue; resolve those without entries if possible."""
    ends = found.ends.table()
    is_whole = found.plan.checked_from <= files.min_offset
    if is_whole and not _with_missing(found.end.damaged, files):
        queues.resolve_unused(ends, files.min_offset)
    return queues.next_offsets(ends)


def _with_missing(
    damaged: tuple[DamagedStretch, ...], files: MappedFileQueue
) -> tuple[DamagedStretch, ...]:
    """Return the damage and the missing segments, in log order."""
    missing = (DamagedStretch(*one, MISSING) for one in files.missing_stretches())
    return tuple(sorted([*damaged, *missing]))


def _why_read_only(files: MappedFileQueue) -> str | None:
    missing = files.missing_stretches()
    if not missing:
        return None
    places = ", ".join(f"{begin} to {end}" for begin, end in missing)
    return (
        f"{MISSING} in the middle of the log: bytes {places}; put them back, or move the later"
        " segments away, and start the broker again"
    )


def _read_checkpoint(fs: FileSystem, path: str) -> CheckpointTimes:
    with closing(Checkpoint(fs, path)) as checkpoint:
        return checkpoint.read()


def _remove_untrusted_index(
    fs: FileSystem, config: StoreConfig, timestamp_ms: int
) -> tuple[tuple[str, ...], int]:
    """Remove index files younger than the checkpoint; return them, and where the others end.

    The end is where their last record begins, 0 without files. It counts even when nothing was
    removed: an earlier recovery may have been interrupted.
    """
    directory = config.paths.index_directory
    with store_errors(directory, "remove"):
        removed = remove_index_files_after(fs, config, timestamp_ms)
    if not config.message_index_enable:
        return removed, sys.maxsize
    with store_errors(directory, "read"):
        names = index_names(fs, directory)
        if not names:
            return removed, 0
        with closing(IndexFileReader(fs, join(directory, names[-1]), index_shape(config))) as file:
            return removed, file.header().end_physical_offset
