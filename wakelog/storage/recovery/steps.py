"""Bring a store to a state that can be written: find the log's end, cut what is behind it.

Runs in the Broker's process with the store's lock held, before Reput or anyone else has a file
open. In this order, which a further crash at any point only repeats (`docs/recovery.md`):

 1. Load the segments. A short last one gets its length. Where some are missing between others the
    log is neither cut nor continued: steps 5 and 6 leave it as it is, and say why.
 2. Cut each consume queue behind its last written entry.
 3. Choose where to check from (`plan.py`): what is known to be durable is left alone, but for a
    look at what stands just below (`search.py`).
 4. After a crash cut queues with extension units there too: their units may be torn where the
    entries are not, and dispatch makes both anew. Let the page cache forget the log from there on:
    of a sync that failed it shows what the disk never got. Check records to the log's end
    (`log_end.py`).
 5. Copy what lies behind the end to the quarantine, forget its sums, then zero or remove it,
    durably: an old record must not come back when a later crash exposes it behind a new one.
 6. Cut each consume queue at the log's end, and say durably that the log is durable up to there.
 7. After a crash remove the index files that the checkpoint does not vouch for, unless it is known
    how far the index is durable: then Reput cuts it there.
 8. Say where dispatch has to begin so that queues and index are whole again.

Where we differ from 4.9.3: step 3 takes the newest segment there whose first message is not
younger than the checkpoint, wherever it lies. After the clock was set back that one can lie behind
segments that were not durable yet; ours never does. In step 5 4.9.3 moves positions in memory only.
In step 7 4.9.3 never builds again what an index file held of segments before the one of step 3.

Source: org.apache.rocketmq.store.DefaultMessageStore.load, recover, start,
CommitLog.recoverNormally, recoverAbnormally, isMappedFileMatchedRecover,
index.IndexService.load (4.9.3).
"""

from __future__ import annotations

import sys
from contextlib import closing
from posixpath import join
from typing import Final, NamedTuple

from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.checkpoint import Checkpoint, CheckpointTimes
from wakelog.storage.durability.dispatched import IndexEnd, lower_dispatched, read_dispatched
from wakelog.storage.durability.marks import AbortFile, FailedSyncMark
from wakelog.storage.durability.sum_file import drop_sums_from, drop_sums_of_changed
from wakelog.storage.durability.watermark import Seal, Watermark
from wakelog.storage.errors import store_failure
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
from wakelog.storage.paths import StorePaths
from wakelog.storage.recovery.durable import Durable, known_durable, seal_of
from wakelog.storage.recovery.log_end import DamagedStretch, LogEnd
from wakelog.storage.recovery.plan import DurablePositions, plan_after_crash
from wakelog.storage.recovery.quarantine import QuarantinedPiece, copy_to_quarantine
from wakelog.storage.recovery.queue_repair import QueueRepair
from wakelog.storage.recovery.search import (
    Searched,
    SearchedStore,
    search_after_clean_exit,
    search_after_crash,
)
from wakelog.storage.recovery.segments import load_segments, sync_segments

RECOVERY_OWNER: Final = "recovery"
MISSING: Final = "segments are missing"


class RecoveryReport(NamedTuple):
    """What recovery found and did.

    clean_exit: there was no abort file, and no mark of a failed sync.
    checked_from: the physical offset at which record checks began.
    log_end: the first byte after the last sound record; everything below is durable.
    end_reason: what stands behind the end, in words.
    dispatch_from: Reput starts here or below; every dispatcher ignores what it already has.
    queue_offsets: the next queue offset of each (topic, queue id), LMQ queues included.
    damaged: places in the log that were durable once and are passed over by every reader.
    quarantined: what was cut; empty if only zeros were.
    watermark: below it everything was known to be durable; 0 if nothing was.
    watermark_doubt: why a watermark that was there is not believed.
    positions_doubt: why checks began further below than the watermark and the position of what is
        dispatched would have allowed.
    read_only: why the log takes no messages, None if it does.
    unrestored: what a dead broker's transient pool held for places where another broker has written
        since, as it is kept in the quarantine.
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
    bridge: serve what lies on both sides of missing segments; False refuses them, and so does
        `cut_at_damage`.

    Raises: DamagedStore when nothing can be done without guessing, and then nothing was changed;
    StoreFull when there is no room for the quarantine; StoreFailed.
    """
    failed_sync = FailedSyncMark(fs, config.paths).is_set()
    clean_exit = not _is_aborted(fs, config.paths) and not failed_sync
    files = load_segments(fs, config, bridge=bridge and not cut_at_damage)
    times = _read_checkpoint(fs, config.paths.checkpoint)
    known = known_durable(fs, config, files, times)
    if not known.watermark:
        drop_sums_of_changed(fs, config.paths, files)
    durable = _durable(fs, config, known, ignored=failed_sync or cut_at_damage)
    queues = QueueRepair(fs, config)
    store = SearchedStore(fs, config, files, queues, times, cut_at_damage)
    try:
        queues.cut_unwritten(after_crash=not clean_exit, durable=durable.dispatched)
        if clean_exit:
            found = search_after_clean_exit(store, known.watermark)
        else:
            found = search_after_crash(store, durable)
        plan, end = found.plan, found.end
        quarantined, removed = _end_log(
            fs, config, files, end, times, plan.checked_from, known, now_ms
        )
        dispatched = durable.dispatched if found.doubt is None else 0
        # Before the log can grow over what queues and index have of another life.
        lower_dispatched(fs, config.paths.dispatched, min(dispatched, end.physical_offset))
        queues_cut = queues.cut_at(end.physical_offset)
        queue_offsets = _next_offsets(queues, found, files)
    finally:
        queues.close()
    dispatch_from = min(plan.dispatch_from, end.physical_offset)
    index_removed: tuple[str, ...] = ()
    if not clean_exit and not (plan.by_position and durable.has_index):
        index_removed, index_end = _distrust_index(fs, config, times.index_ms)
        dispatch_from = max(files.min_offset, min(dispatch_from, index_end))
    report = RecoveryReport(
        clean_exit=clean_exit,
        checked_from=plan.checked_from,
        log_begin=min(files.min_offset, end.physical_offset),
        log_end=end.physical_offset,
        end_reason=end.reason,
        dispatch_from=dispatch_from,
        queue_offsets=queue_offsets,
        records_checked_count=end.records_checked_count,
        last_store_timestamp_ms=end.last_store_timestamp_ms,
        watermark=known.watermark,
        watermark_doubt=known.doubt,
        positions_doubt=found.doubt,
        damaged=_with_missing(end.damaged, files),
        quarantined=quarantined,
        commit_log_files_removed=removed,
        consume_queues_cut=queues_cut,
        index_files_removed=index_removed,
        read_only=_why_read_only(files),
    )
    return Recovered(report, files)


def _is_aborted(fs: FileSystem, paths: StorePaths) -> bool:
    """Tell whether there is the abort mark, and make it durable then.

    Of a broker that was killed the page cache alone may have it. What recovery writes says that a
    broker ran; without the mark that would be another one.
    """
    abort = AbortFile(fs, paths.abort)
    if not abort.exists():
        return False
    abort.create()
    return True


def _leave_log(
    fs: FileSystem, config: StoreConfig, files: MappedFileQueue, log_end: int, watermark: int
) -> None:
    """Let go segments behind the end, as `_end_log` would; on the disk everything stays.

    A watermark that was not believed now must not be later, when the lock says that it is ours.
    """
    while files.last is not None and files.last.start_offset > log_end:
        files.forget_last()
    with closing(Watermark(fs, config.paths.watermark)) as mark:
        mark.lower(watermark)


def _with_missing(
    damaged: tuple[DamagedStretch, ...], files: MappedFileQueue
) -> tuple[DamagedStretch, ...]:
    missing = (DamagedStretch(*one, MISSING) for one in files.missing_stretches())
    return tuple(sorted([*damaged, *missing]))


def _why_read_only(files: MappedFileQueue) -> str | None:
    missing = files.missing_stretches()
    if not missing:
        return None
    places = ", ".join(f"{begin} to {end}" for begin, end in missing)
    return (
        f"{MISSING} in the middle of the log: bytes {places}; put them back, or move those behind"
        " away, and start the broker again"
    )


def _durable(
    fs: FileSystem, config: StoreConfig, known: Durable, *, ignored: bool
) -> DurablePositions:
    """Return how far log, queues and index are durable; 0 where that cannot be believed.

    Another broker that had the store wrote queues and index as well.
    """
    if ignored or not known.watermark:
        return DurablePositions(known.watermark, 0)
    mark = read_dispatched(fs, config.paths.dispatched)
    has_index = mark.index_end != IndexEnd()
    return DurablePositions(known.watermark, mark.physical_offset, has_index=has_index)


def _next_offsets(
    queues: QueueRepair, found: Searched, files: MappedFileQueue
) -> dict[QueueKey, int]:
    """Return the next queue offset of each queue; settle those without entries for good."""
    ends = found.ends.table()
    is_whole = found.plan.checked_from <= files.min_offset
    if is_whole and not _with_missing(found.end.damaged, files):
        queues.settle_unused(ends, files.min_offset)
    return queues.next_offsets(ends)


def _end_log(
    fs: FileSystem,
    config: StoreConfig,
    files: MappedFileQueue,
    end: LogEnd,
    times: CheckpointTimes,
    checked_from: int,
    known: Durable,
    now_ms: int,
) -> tuple[tuple[QuarantinedPiece, ...], tuple[str, ...]]:
    """Cut the log at its end, and make what is kept durable before that is noted.

    A log with missing segments is left as it is.
    """
    if files.missing_stretches():
        _leave_log(fs, config, files, end.physical_offset, known.watermark)
        return (), ()
    with closing(Watermark(fs, config.paths.watermark)) as watermark:
        watermark.lower(end.physical_offset)
        drop_sums_from(fs, config.paths, end.physical_offset, files.file_size_bytes)
        cut = _cut_log(fs, config.paths, files, end.physical_offset, now_ms)
        # What a killed process wrote may still be in the page cache alone.
        sync_segments(files, checked_from)
        watermark.note(end.physical_offset, times.physic_ms, _seal(fs, config, files, end))
    return cut


def recover_derived(fs: FileSystem, config: StoreConfig) -> int:
    """Do for queues and index alone what follows a crash; return where dispatch has to begin.

    For a Reput that follows one whose sync failed, while the Broker lives.

    Raises: StoreFailed, DamagedStore.
    """
    files = commit_log_files(fs, config, read_only=True)
    files.load()
    times = _read_checkpoint(fs, config.paths.checkpoint)
    queues = QueueRepair(fs, config)
    try:
        queues.cut_unwritten(after_crash=True)
        nothing = DurablePositions(0, 0)
        plan = plan_after_crash(config, files, times, queues.max_physical_offset, nothing)
    finally:
        queues.close()
        files.close()
    _, index_end = _distrust_index(fs, config, times.index_ms)
    return min(plan.dispatch_from, index_end)


def _cut_log(
    fs: FileSystem, paths: StorePaths, files: MappedFileQueue, log_end: int, now_ms: int
) -> tuple[tuple[QuarantinedPiece, ...], tuple[str, ...]]:
    """Copy what lies behind the end aside, then make it vanish durably.

    A segment that begins at the end stays, as in 4.9.3: without it the next recovery would end the
    log before the blank of the segment in front, or with none in front number anew from 0.
    """
    quarantined = copy_to_quarantine(fs, paths.root, files.files, log_end, now_ms)
    removed = files.truncate(log_end, keep_empty=log_end > 0)
    return quarantined, tuple(removed)


def _seal(fs: FileSystem, config: StoreConfig, files: MappedFileQueue, end: LogEnd) -> Seal | None:
    """Keep a store that was left in order sealed until the abort mark is made: we may not live."""
    if AbortFile(fs, config.paths.abort).exists():
        return None
    return seal_of(fs, config, files, end.physical_offset)


def _read_checkpoint(fs: FileSystem, path: str) -> CheckpointTimes:
    checkpoint = Checkpoint(fs, path)
    try:
        return checkpoint.read()
    finally:
        checkpoint.close()


def _distrust_index(
    fs: FileSystem, config: StoreConfig, timestamp_ms: int
) -> tuple[tuple[str, ...], int]:
    """Remove index files younger than the checkpoint; return them, and where the others end.

    That counts also when nothing was removed: an earlier recovery may have come no further.
    """
    removed = _remove_index_files(fs, config, timestamp_ms)
    return removed, _index_end(fs, config) if config.message_index_enable else sys.maxsize


def _remove_index_files(fs: FileSystem, config: StoreConfig, timestamp_ms: int) -> tuple[str, ...]:
    """Remove index files that hold messages younger than the checkpoint's time of the index."""
    try:
        return remove_index_files_after(fs, config, timestamp_ms)
    except OSError as error:
        raise store_failure(config.paths.index_directory, "remove", error) from error


def _index_end(fs: FileSystem, config: StoreConfig) -> int:
    """Return where the last record begins that the remaining index files have, 0 without any."""
    directory = config.paths.index_directory
    try:
        names = index_names(fs, directory)
        if not names:
            return 0
        reader = IndexFileReader(fs, join(directory, names[-1]), index_shape(config))
        try:
            return reader.header().end_physical_offset
        finally:
            reader.close()
    except OSError as error:
        raise store_failure(directory, "read", error) from error
