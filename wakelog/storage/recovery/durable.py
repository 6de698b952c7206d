"""How far the log is known to be durable, if the watermark is still true of this store.

A 4.9.3 broker that had the store meanwhile knows nothing of the watermark. It may have cut the log
below it, and written there what it never synced. It leaves traces, and then the watermark is not
believed: recovery does without, and a new one begins where it ends.

    left by us       what shows that another broker had the store
    either way       it has written its text into the lock file (`durability/store_lock.py`)
    in order         the checkpoint differs; or the last segment was written later, and either the
                     abort mark is there, which we had removed, or a message stands where we ended
    by a crash       the abort mark is gone, which a stop in order does; or the checkpoint's first
                     time is above every one that we wrote

The first shows every broker of 4.9.3 that came as far as to append; the others are for stores
whose lock file was lost, or not copied. A segment that was only written later, as by a copy of the
store or a repair by hand, is ours.

Invariants: the watermark lies in a segment that is there, or at the end of the last one.

Source: none upstream.
"""

from __future__ import annotations

from contextlib import closing
from typing import NamedTuple

from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.checkpoint import CHECKPOINT_BYTES, CheckpointTimes
from wakelog.storage.durability.marks import AbortFile
from wakelog.storage.durability.store_lock import was_another_brokers
from wakelog.storage.durability.watermark import Mark, Seal, Watermark, checkpoint_digest, read_mark
from wakelog.storage.errors import DamagedStore, store_failure
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.mapped_file_queue import MappedFileQueue
from wakelog.storage.log.record_check import CheckKind
from wakelog.storage.recovery.segments import check_at


class Durable(NamedTuple):
    """Below `watermark` everything is durable; `doubt` says why nothing is known, if so."""

    watermark: int
    doubt: str | None = None


def known_durable(
    fs: FileSystem, config: StoreConfig, files: MappedFileQueue, times: CheckpointTimes
) -> Durable:
    """Return how far the watermark says the log is durable; 0 without one that can be believed.

    Raises: DamagedStore when segments below it are missing at the log's end; StoreFailed.
    """
    mark = read_mark(fs, config.paths.watermark)
    # A slave's log ends where its master says, not where it once was durable.
    if not mark.physical_offset or not config.appends:
        return Durable(0)
    doubt = _doubt(fs, config, files, mark, times)
    if doubt is not None:
        return Durable(0, doubt)
    if mark.physical_offset > files.max_file_end:
        raise DamagedStore(
            config.paths.commit_log_directories[0],
            f"the log was durable up to {mark.physical_offset}, and its segments end at "
            f"{files.max_file_end}",
            f"put the missing segments back, or remove {config.paths.watermark} to do without",
        )
    return Durable(mark.physical_offset)


def seal_of(
    fs: FileSystem, config: StoreConfig, files: MappedFileQueue, physical_offset: int
) -> Seal:
    """Return what tells later whether another broker had the store. Raises: StoreFailed."""
    path = config.paths.checkpoint
    try:
        fd = fs.open(path, read_only=True)
        try:
            digest = checkpoint_digest(fs.pread(fd, CHECKPOINT_BYTES, 0))
        finally:
            fs.close(fd)
        file = files.find(max(physical_offset - 1, 0))
        if file is None:
            return Seal(digest, 0, 0)
        path = file.path
        return Seal(digest, file.size_bytes, fs.modified_ms(path))
    except OSError as error:
        raise store_failure(path, "read", error) from error


def seal_log(
    fs: FileSystem, config: StoreConfig, files: MappedFileQueue, physical_offset: int
) -> None:
    """Say durably that a store without the abort mark is left with its log durable up to here.

    Call when nothing else of it will be written. Raises: StoreFailed, StoreFull.
    """
    seal = seal_of(fs, config, files, physical_offset)
    with closing(Watermark(fs, config.paths.watermark)) as watermark:
        watermark.note(physical_offset, 0, seal)


def unseal_log(fs: FileSystem, config: StoreConfig) -> None:
    """Say durably that a broker runs; call with the abort mark made, before anything is written.

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
    try:
        if was_another_brokers(fs, config.paths.lock):
            return "another broker had the store, and wrote into its lock"
    except OSError as error:
        raise store_failure(config.paths.lock, "read", error) from error
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
        return "another broker had the store, and wrote behind the log's end"
    return None


def _is_message(files: MappedFileQueue, physical_offset: int) -> bool:
    file = files.find(physical_offset)
    if file is None:
        return False
    return check_at(file, physical_offset - file.start_offset).kind is CheckKind.SOUND
