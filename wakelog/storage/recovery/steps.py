"""Bring a store to a state that can be written: find the log's end, cut what is behind it.

Runs in the Broker's process with the store's lock held, before Reput or anyone else has a file
open. In this order, which a further crash at any point only repeats (`docs/recovery.md`):

 1. Load the segments. A short last one gets its length; a gap is refused, with nothing changed.
 2. Cut each consume queue behind its last written entry.
 3. Choose where to check from. Clean exit (no abort file): the third last segment. Otherwise the
    last segment of the log's front part whose first message is not younger than the checkpoint.
 4. After a crash let the page cache forget the log from there on: of a sync that failed it shows
    what the disk never got. Check records to the log's end (`log_end.py`).
 5. Copy what lies behind the end to the quarantine, then zero or remove it, durably: an old record
    must not come back when a later crash exposes it behind a new one.
 6. Cut each consume queue at the log's end, and say durably that the log is durable up to there.
 7. After a crash remove the index files that the checkpoint does not vouch for.
 8. Say where dispatch has to begin so that queues and index are whole again.

Where we differ from 4.9.3: step 3 takes the newest segment there whose first message is not
younger, wherever it lies. After the clock was set back that one can lie behind segments that were
not durable yet; ours is the same or an earlier one. In step 5 4.9.3 moves positions in memory only.
In step 7 4.9.3 never builds again what an index file held of segments before the one of step 3.

Source: org.apache.rocketmq.store.DefaultMessageStore.load, recover, start,
CommitLog.recoverNormally, recoverAbnormally, isMappedFileMatchedRecover,
index.IndexService.load (4.9.3).
"""

from __future__ import annotations

from contextlib import closing
from posixpath import join
from typing import Final, NamedTuple

from wakelog.protocol.message_record import MESSAGE_MAGIC, RECORD_BYTES_MIN, V6_EXTRA_BYTES
from wakelog.protocol.sys_flag import MESSAGE_BORN_HOST_V6
from wakelog.storage.commit_log_reader import commit_log_files
from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import store_failure
from wakelog.storage.file_system import FileSystem
from wakelog.storage.index.index_file import IndexFileReader
from wakelog.storage.index.index_service import (
    index_names,
    index_shape,
    remove_index_files_after,
)
from wakelog.storage.mapped_file import MappedFile
from wakelog.storage.mapped_file_queue import MappedFileQueue
from wakelog.storage.paths import StorePaths
from wakelog.storage.queue_offsets import QueueKey
from wakelog.storage.record_check import HEAD_BY_HOST_FLAGS, HOST_FLAGS_OFFSET
from wakelog.storage.recovery.durable import known_durable, seal_of
from wakelog.storage.recovery.log_end import DamagedStretch, LogEnd, LogEndSearch
from wakelog.storage.recovery.quarantine import QuarantinedPiece, keep_aside
from wakelog.storage.recovery.queue_ends import QueueEnds
from wakelog.storage.recovery.queue_repair import QueueRepair
from wakelog.storage.recovery.segments import load_segments, read_anew, sync_segments
from wakelog.storage.state.abort_file import AbortFile
from wakelog.storage.state.checkpoint import Checkpoint, CheckpointTimes
from wakelog.storage.state.failed_sync import FailedSyncMark
from wakelog.storage.state.watermark import Seal, Watermark

# A clean stop leaves everything durable; 4.9.3 looks at this many segments all the same.
SEGMENTS_CHECKED_AFTER_CLEAN_EXIT: Final = 3
RECOVERY_OWNER: Final = "recovery"


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


class Recovered(NamedTuple):
    """The report, and the log's segments, loaded and cut."""

    report: RecoveryReport
    files: MappedFileQueue


def recover(
    fs: FileSystem, config: StoreConfig, now_ms: int, *, cut_at_damage: bool = False
) -> Recovered:
    """Recover a store whose lock the caller holds.

    cut_at_damage: end the log at damage that was durable once, as 4.9.3 does.

    Raises: DamagedStore when nothing can be done without guessing, and then nothing was changed;
    StoreFull when there is no room for the quarantine; StoreFailed.
    """
    failed_sync = FailedSyncMark(fs, config.paths).is_set()
    clean_exit = not AbortFile(fs, config.paths.abort).exists() and not failed_sync
    files = load_segments(fs, config)
    times = _read_checkpoint(fs, config.paths.checkpoint)
    known = known_durable(fs, config, files, times)
    queues = QueueRepair(fs, config)
    try:
        queues.cut_unwritten(careful=not clean_exit)
        plan = _plan(config, files, times, queues.max_physical_offset, clean_exit=clean_exit)
        if not clean_exit:
            read_anew(fs, files, plan.checked_from)
        ends = _no_ends(config)
        end = LogEndSearch(
            fs,
            files,
            ends,
            cut_from=plan.cut_from,
            # A slave of 4.9.3 notes this time when it dispatches, which proves nothing; and it
            # gets what is cut from its master again.
            durable_ms=times.physic_ms if config.appends else 0,
            check_body=config.check_crc_on_recover,
            cut_at_damage=cut_at_damage,
            may_be_torn=not clean_exit,
            watermark=known.watermark,
        ).run(plan.checked_from)
        with closing(Watermark(fs, config.paths.watermark)) as watermark:
            watermark.lower(end.physical_offset)
            quarantined, removed = _cut_log(fs, config.paths, files, end.physical_offset, now_ms)
            # What a killed process wrote may still be in the page cache alone.
            sync_segments(files, plan.checked_from)
            watermark.note(end.physical_offset, times.physic_ms, _seal(fs, config, files, end))
        queues_cut = queues.cut_at(end.physical_offset)
        queue_offsets = queues.next_offsets(ends.table())
    finally:
        queues.close()
    dispatch_from = min(plan.dispatch_from, end.physical_offset)
    index_removed = () if clean_exit else _remove_index_files(fs, config, times.index_ms)
    if config.message_index_enable and not clean_exit:
        # Also when nothing was removed: an earlier recovery may have come no further than that.
        dispatch_from = max(files.min_offset, min(dispatch_from, _index_end(fs, config)))
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
        damaged=end.damaged,
        quarantined=quarantined,
        commit_log_files_removed=removed,
        consume_queues_cut=queues_cut,
        index_files_removed=index_removed,
    )
    return Recovered(report, files)


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
        queues.cut_unwritten(careful=True)
        plan = _plan(config, files, times, queues.max_physical_offset, clean_exit=False)
    finally:
        queues.close()
        files.close()
    _remove_index_files(fs, config, times.index_ms)
    if not config.message_index_enable:
        return plan.dispatch_from
    return min(plan.dispatch_from, _index_end(fs, config))


class _Plan(NamedTuple):
    """Where to begin what.

    cut_from: the log does not end below.
    dispatch_from: below, every queue has its entries.
    checked_from: where reading begins: the segment of the lower of the two, since the records
        without entries say what the next queue offsets are.
    """

    cut_from: int
    dispatch_from: int
    checked_from: int


def _plan(
    config: StoreConfig,
    files: MappedFileQueue,
    times: CheckpointTimes,
    queues_end: int,
    *,
    clean_exit: bool,
) -> _Plan:
    dispatch_from = max(files.min_offset, min(queues_end, files.max_file_end))
    if clean_exit:
        cut_from = _third_last(files)
    else:
        index_counts = config.message_index_enable and config.message_index_safe
        min_ms = times.min_index_ms if index_counts else times.min_ms
        cut_from = checked_from_after_crash(files, min_ms)
        dispatch_from = min(dispatch_from, cut_from)
    segment = files.find(dispatch_from)
    checked_from = cut_from if segment is None else min(cut_from, segment.start_offset)
    return _Plan(cut_from, dispatch_from, checked_from)


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


def _cut_log(
    fs: FileSystem, paths: StorePaths, files: MappedFileQueue, log_end: int, now_ms: int
) -> tuple[tuple[QuarantinedPiece, ...], tuple[str, ...]]:
    """Copy what lies behind the end aside, then make it vanish durably.

    A segment that begins at the end stays, as in 4.9.3: without it the next recovery would end the
    log before the blank of the segment in front, or with none in front number anew from 0.
    """
    quarantined = keep_aside(fs, paths.root, files.files, log_end, now_ms)
    removed = files.truncate(log_end, keep_empty=log_end > 0)
    return quarantined, tuple(removed)


def _no_ends(config: StoreConfig) -> QueueEnds:
    return QueueEnds(
        enable_multi_dispatch=config.enable_multi_dispatch, enable_lmq=config.enable_lmq
    )


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
