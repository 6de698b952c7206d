"""Open the parts of a store in the one safe order for a start, and close them in that for a stop.

    open    lock; no link leads out; guard; unfinished files; a dead broker's transient pool;
            recovery; abort file; the log
    close   write; commit; sync; watermark and checkpoint; the log's files; abort file; guard; lock

The lock comes first and goes last, so that a second broker changes nothing. The abort file is
durable before the log can be written, and goes only when all else is durable. A failure in between
leaves it, and the next start recovers.

Source: org.apache.rocketmq.store.DefaultMessageStore.load, start, shutdown (4.9.3), which recovers
first and takes the lock after.
"""

from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Final, NamedTuple

from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.checkpoint import Checkpoint
from wakelog.storage.durability.marks import AbortFile, FailedSyncMark
from wakelog.storage.durability.start_guard import StartGuard
from wakelog.storage.durability.store_links import refuse_links_out
from wakelog.storage.durability.store_lock import StoreLock
from wakelog.storage.durability.watermark import Watermark
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.allocate import InlineSegments, clean_unfinished
from wakelog.storage.log.commit_log import CommitLog, SegmentSource
from wakelog.storage.log.commit_log_reader import commit_log_files
from wakelog.storage.log.mapped_file import MappedFile
from wakelog.storage.log.mapped_file_queue import MappedFileQueue
from wakelog.storage.log.transient_pool import (
    CommitRange,
    TransientPool,
    copy_range,
    restore_buffers,
)
from wakelog.storage.paths import StorePaths
from wakelog.storage.recovery.quarantine import QuarantinedPiece, copy_to_quarantine
from wakelog.storage.recovery.search import first_store_timestamp_ms
from wakelog.storage.recovery.segments import sync_segments
from wakelog.storage.recovery.steps import RECOVERY_OWNER, RecoveryReport, recover
from wakelog.storage.recovery.watermark_trust import seal_log, unseal_log

BROKER_OWNER: Final = "broker"
"""In the names of unfinished segments that the log itself makes."""

CLOCK_AHEAD_MS_MAX: Final = 2 * 366 * 86_400_000
"""A store time further ahead of the clock than this is damage: a time has no CRC."""

MakeSegmentSource = Callable[[MappedFileQueue], SegmentSource]


class OpenOptions(NamedTuple):
    """How to open a store, beside its configuration.

    pool_directory: where a dead broker's transient pool may be, and where a configured one is made;
        None uses no pool.
    segment_source: gives the log its next segments; by default it makes them when it needs them.
    start_guard: whether a 4.9.3 broker that starts meanwhile is kept from recovering the store.
    after_lock: called with the lock held, before anything else is written, to end processes that
        still write for a dead broker.
    """

    pool_directory: str | None = None
    segment_source: MakeSegmentSource | None = None
    start_guard: bool = False
    after_lock: Callable[[], None] | None = None


class StoreParts(NamedTuple):
    """What a store holds while it is open."""

    fs: FileSystem
    config: StoreConfig
    lock: StoreLock
    guard: StartGuard | None
    log: CommitLog
    pool: TransientPool | None
    report: RecoveryReport


def open_parts(
    fs: FileSystem, config: StoreConfig, now_ms: int, options: OpenOptions
) -> StoreParts:
    """Lock and recover a store and open its log.

    Raises: StoreLocked, with nothing written; DamagedStore, with nothing cut; StoreFull,
    StoreFailed.
    """
    paths = config.paths
    with ExitStack() as undo:
        lock = StoreLock(fs, paths.lock)
        undo.callback(lock.release)
        refuse_links_out(fs, config)
        guard = None
        if options.start_guard:
            guard = StartGuard(fs, paths, lock)
            undo.callback(guard.remove)
        if options.after_lock is not None:
            options.after_lock()
        for owner in (BROKER_OWNER, RECOVERY_OWNER):
            clean_unfinished(fs, paths, owner)
        unrestored = _restore_pool(fs, config, options.pool_directory, now_ms)
        report, files = recover(fs, config, now_ms, cut_at_damage=config.compat_cut_at_damage)
        undo.callback(files.close)
        report = report._replace(unrestored=unrestored)
        lock.sign()
        AbortFile(fs, paths.abort).create()
        unseal_log(fs, config)
        _lower_checkpoint_time(fs, paths, files, report)
        # Recovery acted on it, and from here on the abort file shows a crash.
        FailedSyncMark(fs, paths).clear()
        pool = None
        if config.transient_pool_in_use and options.pool_directory is not None:
            pool = TransientPool(
                fs,
                options.pool_directory,
                count=config.transient_store_pool_count,
                segment_bytes=config.commit_log_file_bytes,
            )
        if options.segment_source is None:
            segments: SegmentSource = InlineSegments(fs, paths, files, BROKER_OWNER)
        else:
            segments = options.segment_source(files)
        is_plausible = report.last_store_timestamp_ms <= now_ms + CLOCK_AHEAD_MS_MAX
        log = CommitLog(
            fs,
            config,
            files,
            end_offset=report.log_end,
            queue_offsets=dict(report.queue_offsets),
            segments=segments,
            pool=pool,
            last_store_ms=report.last_store_timestamp_ms if is_plausible else 0,
        )
        if report.read_only is not None:
            log.fail(report.read_only)
        undo.pop_all()
    return StoreParts(fs, config, lock, guard, log, pool, report)


def close_parts(parts: StoreParts, *, last_store_timestamp_ms: int, clean: bool) -> bool:
    """Make the log durable, close everything, and return whether there is nothing to recover.

    last_store_timestamp_ms: of the log's last message, for the checkpoint.
    clean: False if the caller knows of records that are not dispatched.

    Raises: StoreError, after everything was closed; then the abort file stays.
    """
    with ExitStack() as releases:
        releases.callback(parts.lock.release)
        if parts.guard is not None:
            releases.callback(parts.guard.remove)
        with ExitStack() as closings:
            if parts.pool is not None:
                closings.callback(parts.pool.close)
            closings.callback(parts.log.close)
            if parts.log.failure is None:
                make_durable(parts)
                _write_durable(parts, last_store_timestamp_ms, clean=clean)
        clean = clean and parts.log.failure is None
        if clean:
            AbortFile(parts.fs, parts.config.paths.abort).remove()
        return clean


def make_durable(parts: StoreParts) -> None:
    """Write and sync all that was put. Raises: StoreError; the log then takes no more."""
    try:
        parts.log.write_pending()
        _commit(parts)
        sync_segments(parts.log.files, parts.report.checked_from)
    except StoreError as error:
        parts.log.fail(str(error))
        raise


def _commit(parts: StoreParts) -> None:
    """Copy what only the transient pool holds to its segments."""
    pool, log = parts.pool, parts.log
    if pool is None:
        return
    for piece in pool.pending(log.appended_offset):
        segment = log.files.find(piece.segment_start_offset)
        assert segment is not None, piece
        copy_range(parts.fs, piece, segment.path)
        pool.on_committed(piece.end)


def _lower_checkpoint_time(
    fs: FileSystem, paths: StorePaths, files: MappedFileQueue, report: RecoveryReport
) -> None:
    """Lower the checkpoint's time to where dispatch begins: a crash may tear what is made there.

    Call after `unseal_log`, because the seal covers the checkpoint. Reput's first flush raises the
    time again.
    """
    if report.dispatch_from >= report.log_end:
        return
    segment = files.find(report.dispatch_from)
    first_ms = None if segment is None else first_store_timestamp_ms(segment)
    with closing(Checkpoint(fs, paths.checkpoint)) as checkpoint:
        if checkpoint.read().logics_ms > (first_ms or 0):
            checkpoint.set_logics(first_ms or 0)
            checkpoint.sync()


def _write_durable(parts: StoreParts, store_timestamp_ms: int, *, clean: bool) -> None:
    """Write watermark and checkpoint, sealed if the abort file will be removed."""
    fs, paths, end = parts.fs, parts.config.paths, parts.log.appended_offset
    with (
        closing(Watermark(fs, paths.watermark)) as watermark,
        closing(Checkpoint(fs, paths.checkpoint)) as checkpoint,
    ):
        watermark.note(end, store_timestamp_ms)
        if store_timestamp_ms > 0:
            checkpoint.set_physic(store_timestamp_ms)
        checkpoint.sync()
    if clean:
        seal_log(fs, parts.config, parts.log.files, end)


def _restore_pool(
    fs: FileSystem, config: StoreConfig, directory: str | None, now_ms: int
) -> tuple[QuarantinedPiece, ...]:
    """Commit what a dead broker's transient pool holds; return what was quarantined."""
    kept: list[QuarantinedPiece] = []

    def quarantine(piece: CommitRange) -> None:
        start = piece.segment_start_offset
        buffer = MappedFile(
            fs,
            piece.buffer_path,
            start_offset=start,
            size_bytes=piece.end - start,
            read_only=True,
        )
        try:
            root = config.paths.root
            kept.extend(copy_to_quarantine(fs, root, [buffer], piece.begin, now_ms, suffix=".pool"))
        finally:
            buffer.release()

    if directory is not None:
        restore_buffers(fs, directory, _segment_paths(fs, config), quarantine)
    return tuple(kept)


def _segment_paths(fs: FileSystem, config: StoreConfig) -> Callable[[int], str | None]:
    """Return where the segment of a start offset is or belongs; None below the log's begin."""
    files = commit_log_files(fs, config, read_only=True)
    files.refresh()

    def path_of(start_offset: int) -> str | None:
        if start_offset < files.min_offset:
            return None  # retention has removed it
        file = files.find(start_offset)
        return files.path_for(start_offset) if file is None else file.path

    return path_of
