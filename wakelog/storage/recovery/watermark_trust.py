"""Decide whether the watermark still describes this store, or another broker wrote to it.

A 4.9.3 broker ignores the watermark. It may have cut the log below it and appended bytes that it
never synced. Then the watermark is not trusted: recovery runs without it and writes a new one at
the log's end. docs/recovery.md, "After another broker", lists the traces that show one; `_doubt`
looks for them. A segment that is only younger is still ours: a copy of the store or a repair by
hand does that.

Invariant: a trusted watermark lies in a segment that exists, or at the end of the last one.

Source: none upstream.
"""

from contextlib import closing
from typing import NamedTuple

from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.checkpoint import CHECKPOINT_BYTES, CheckpointTimes
from wakelog.storage.durability.marks import AbortFile
from wakelog.storage.durability.store_lock import was_another_brokers
from wakelog.storage.durability.watermark import Mark, Seal, Watermark, checkpoint_digest, read_mark
from wakelog.storage.errors import DamagedStore, store_errors
from wakelog.storage.file_system import FileSystem, opened
from wakelog.storage.log.mapped_file_queue import MappedFileQueue
from wakelog.storage.log.record_check import CheckKind
from wakelog.storage.recovery.segments import check_in_segment


class DurablePositions(NamedTuple):
    """How far parts of the store are known to be durable; 0 if nothing is known.

    watermark: of the log. dispatched: of queues and index.
    has_index: whether an index was durable then; none is while the index is switched off.
    doubt: why the watermark is not trusted, None if it is or there is none.
    """

    watermark: int = 0
    dispatched: int = 0
    has_index: bool = False
    doubt: str | None = None


def known_durable(
    fs: FileSystem, config: StoreConfig, files: MappedFileQueue, times: CheckpointTimes
) -> DurablePositions:
    """Return how far the log is known to be durable; `dispatched` stays 0.

    Raises: DamagedStore when segments below the watermark are missing at the log's end;
    StoreFailed.
    """
    mark = read_mark(fs, config.paths.watermark)
    # A slave's log ends where its master says, not where it once was durable. A replica of a group
    # with a register has acknowledged what was durable, and its cuts lower the watermark.
    is_kept = config.appends or fs.exists(config.paths.epochs)
    if not mark.physical_offset or not is_kept:
        return DurablePositions()
    doubt = _doubt(fs, config, files, mark, times)
    if doubt is not None:
        return DurablePositions(doubt=doubt)
    if mark.physical_offset > files.max_file_end:
        raise DamagedStore(
            config.paths.commit_log_directories[0],
            f"the log was durable up to {mark.physical_offset}, and its segments end at "
            f"{files.max_file_end}",
            f"put the missing segments back, or remove {config.paths.watermark} to do without",
        )
    return DurablePositions(mark.physical_offset)


def seal_of(
    fs: FileSystem, config: StoreConfig, files: MappedFileQueue, physical_offset: int
) -> Seal:
    """Return the parts of a store that another broker would change. Raises: StoreFailed."""
    path = config.paths.checkpoint
    with store_errors(path, "read"), opened(fs, path, read_only=True) as fd:
        digest = checkpoint_digest(fs.pread(fd, CHECKPOINT_BYTES, 0))
    file = files.find(max(physical_offset - 1, 0))
    if file is None:
        return Seal(digest, 0, 0)
    with store_errors(file.path, "read"):
        return Seal(digest, file.size_bytes, fs.modified_ms(file.path))


def seal_log(
    fs: FileSystem, config: StoreConfig, files: MappedFileQueue, physical_offset: int
) -> None:
    """Record durably that the store is left cleanly and its log is durable up to here.

    Call after the last write to any other file of the store. Raises: StoreFailed, StoreFull.
    """
    seal = seal_of(fs, config, files, physical_offset)
    with closing(Watermark(fs, config.paths.watermark)) as watermark:
        watermark.note(physical_offset, 0, seal)


def unseal_log(fs: FileSystem, config: StoreConfig) -> None:
    """Record durably that a broker runs; call after making the abort file, before other writes.

    Raises: StoreFailed, StoreFull.
    """
    with closing(Watermark(fs, config.paths.watermark)) as watermark:
        watermark.note(watermark.mark.physical_offset, 0)


def _doubt(
    fs: FileSystem,
    config: StoreConfig,
    files: MappedFileQueue,
    mark: Mark,
    times: CheckpointTimes,
) -> str | None:
    """Return the trace of another broker, None if there is none."""
    with store_errors(config.paths.lock, "read"):
        if was_another_brokers(fs, config.paths.lock):
            return "another broker had the store, and wrote into its lock"
    is_aborted = AbortFile(fs, config.paths.abort).exists()
    if mark.seal is None:
        if not is_aborted:
            return "another broker had the store since a crash, and stopped in order"
        if times.physic_ms > mark.physic_ms:
            return "another broker had the store since a crash, and wrote its checkpoint"
        return None
    found = seal_of(fs, config, files, mark.physical_offset)
    if found.checkpoint_digest != mark.seal.checkpoint_digest:
        return "another broker had the store, and wrote its checkpoint"
    if found == mark.seal:
        return None
    if is_aborted:
        return "another broker had the store, and did not stop in order"
    if _is_message(files, mark.physical_offset):
        return "another broker had the store, and wrote after the log's end"
    return None


def _is_message(files: MappedFileQueue, physical_offset: int) -> bool:
    file = files.find(physical_offset)
    if file is None:
        return False
    return check_in_segment(file, physical_offset - file.start_offset).kind is CheckKind.SOUND
