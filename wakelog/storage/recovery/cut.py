"""Cut a log that is not open where another log has the same bytes no more.

A replica does that before it follows a new master. What lies behind was never confirmed; it goes to
the quarantine, as what recovery cuts does. Queues and index are left: the recovery at the next open
cuts them, because the abort file is there.

Invariant: a crash at any step leaves a log that the next recovery opens, and at most bytes that the
next cut cuts.

Source: none upstream. 4.9.3 cuts no log because of what its master has.
"""

from contextlib import closing

from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.marks import AbortFile
from wakelog.storage.durability.store_lock import StoreLock
from wakelog.storage.durability.sum_file import drop_sums_from
from wakelog.storage.durability.watermark import Watermark
from wakelog.storage.file_system import FileSystem
from wakelog.storage.recovery.quarantine import QuarantinedPiece, copy_to_quarantine
from wakelog.storage.recovery.segments import load_segments, sync_segments


def cut_log(
    fs: FileSystem, config: StoreConfig, physical_offset: int, now_ms: int
) -> tuple[QuarantinedPiece, ...]:
    """Set aside what lies behind an offset, which ends a whole record, and cut it, both durably.

    Raises: StoreLocked, StoreFull if there is no room for the copy, StoreFailed. DamagedStore.
    """
    paths = config.paths
    lock = StoreLock(fs, paths.lock)
    try:
        AbortFile(fs, paths.abort).create()
        with closing(load_segments(fs, config)) as files:
            with closing(Watermark(fs, paths.watermark)) as watermark:
                watermark.lower(physical_offset)
            drop_sums_from(fs, paths, physical_offset, files.file_size_bytes)
            pieces = copy_to_quarantine(fs, paths.root, files.files, physical_offset, now_ms)
            files.truncate(physical_offset, keep_empty=physical_offset > 0)
            sync_segments(files, max(files.min_offset, physical_offset - 1))
    finally:
        lock.release()
    return pieces
