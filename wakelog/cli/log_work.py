"""What the commands of `wakelog log` do with a store: locks, folders, threads, the clock, progress.

command   writes                                            a broker may run
verify    a folder of its own, outside, removed afterwards  yes
dump      nothing                                           yes
rebuild   the given folder; or the store, under its lock    with a folder of its own
repair    the store, under its lock                         no
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from posixpath import abspath, expanduser, join
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from wakelog.actors.errors import PlanRefused
from wakelog.audit.rebuild import LogReport, Rebuild
from wakelog.audit.record_dump import Selection, selected_records
from wakelog.audit.scratch_files import (
    ScratchFileSystem,
    UnfinishedFileSystem,
    store_twins,
)
from wakelog.audit.swap import REBUILD_NAME, Move, swap_in, undo
from wakelog.audit.verify import VerifyReport, verify_files, verify_store
from wakelog.cli.log_text import MENDED
from wakelog.cli.stop_signals import StopAsked, unbroken
from wakelog.dispatchers.log_cursor import BadStretch
from wakelog.dispatchers.read_ahead import Worker
from wakelog.dispatchers.sync_files import sync_tree
from wakelog.filter.filter_table import FilterTable, stored_filters
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.message_record import MessageRecord
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.config_files import ConfigFiles
from wakelog.storage.durability.start_guard import GUARDED, KEPT
from wakelog.storage.durability.store_lock import BROKER_BYTE, StoreLock, holder_pid
from wakelog.storage.errors import DamagedStore, StoreError
from wakelog.storage.file_system import FileSystem, RealFileSystem
from wakelog.storage.kernels.kernels import Kernels
from wakelog.storage.kernels.loader import compile_kernels
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.paths import StorePaths
from wakelog.storage.recovery.quarantine import QuarantinedPiece
from wakelog.storage.recovery.steps import recover

# Below, the plain scan is done before numba is imported.
BULK_LOG_BYTES_MIN = 64 << 20
# Threads that read and scan, beside the one that puts queues and index in order, which scans too
# when it would have to wait, and keeps pace with about four.
WORKERS_COUNT = min(4, max(1, (os.cpu_count() or 1) - 1))


Tell = Callable[[Sequence[Move]], None]
"""Hears of folders as soon as they were moved: what follows may fail or be interrupted."""


class RepairReport(NamedTuple):
    """What was done: bytes of the log that were kept aside, and how the store is now."""

    pieces: tuple[QuarantinedPiece, ...]
    after: VerifyReport


def verify(
    config: StoreConfig, *, scratch: str | None, show_progress: bool, holds_lock: bool = False
) -> VerifyReport:
    """Verify a store; `scratch` is where the folder for the rebuild is made. Raises: StoreError."""
    fs: FileSystem = RealFileSystem()
    # Asking for the holder would drop a lock of this process.
    is_live = not holds_lock and _is_live(fs, config)
    place = None if scratch is None else abspath(expanduser(scratch))
    # A broker that runs may know of filters that its file does not have yet.
    filters = None if is_live else _filters(fs, config, needed_only=True)
    with (
        tempfile.TemporaryDirectory(prefix="wakelog-verify-", dir=place) as folder,
        _workers() as worker,
    ):
        twins = () if is_live else (store_twins(fs, StorePaths(folder), config.paths),)
        fs = ScratchFileSystem(*twins)
        return verify_store(
            fs,
            config,
            lambda: _rebuild(fs, config, folder, worker, filters, check_bodies=True),
            lambda made: _run(made, "verify", show_progress),
            is_live=is_live,
            worker=worker,
        )


def records_of(
    config: StoreConfig, selection: Selection, tell: Callable[[BadStretch], None]
) -> Iterator[MessageRecord]:
    """Yield the selected records of the log; `tell` hears of what is passed over."""
    reader = CommitLogReader(RealFileSystem(), config)
    try:
        yield from selected_records(reader, selection, tell)
    finally:
        reader.close()


def rebuild_into(config: StoreConfig, target: str, *, show_progress: bool) -> LogReport:
    """Make queues and index below `target`. Raises: PlanRefused if it is not empty; StoreError."""
    target = abspath(expanduser(target))
    os.makedirs(target, exist_ok=True)
    if os.listdir(target):
        raise PlanRefused(f"{target} is not empty", "Give a new folder with --into.")
    try:
        return _rebuilt(config, target, show_progress=show_progress)
    except BaseException:
        shutil.rmtree(target)  # half of it is of no use, and the next one wants it empty
        raise


def make_files(config: StoreConfig, target: str, *, show_progress: bool) -> LogReport:
    """Make queues and index below an empty `target`, none of it durable. Raises: StoreError."""
    with _workers() as worker:
        filters = _filters(RealFileSystem(), config)
        made = _rebuild(UnfinishedFileSystem(), config, target, worker, filters, check_bodies=False)
        try:
            return _run(made, "rebuild", show_progress)
        finally:
            made.close()


def rebuild_store(config: StoreConfig, tell: Tell, *, show_progress: bool) -> LogReport:
    """Make queues and index anew and put them in place. Raises: StoreLocked, StoreError."""
    fs = RealFileSystem()
    lock = StoreLock(fs, config.paths.lock)
    try:
        _refuse_links(fs, config)
        return _rebuild_in_place(fs, config, tell, show_progress=show_progress)
    finally:
        lock.release()


def repair(
    config: StoreConfig, tell: Tell, *, scratch: str | None, show_progress: bool
) -> RepairReport:
    """Cut the log behind its end, keeping what is cut; replace queues and index that disagree.

    Queues and index go aside first: recovery removes what it does not trust of them.

    Raises: StoreLocked, DamagedStore, StoreError.
    """
    fs = RealFileSystem()
    lock = StoreLock(fs, config.paths.lock)

    def look() -> VerifyReport:
        return verify(config, scratch=scratch, show_progress=show_progress, holds_lock=True)

    try:
        _refuse_links(fs, config)
        found = look()
        if not any(finding.kind in MENDED for finding in found.findings.kept):
            return RepairReport((), found)
        moves: list[Move] = []
        aside = _rebuild_paths(config)
        try:
            _swap_in(fs, config, aside, moves.extend)
            recovered = recover(fs, config, _now_ms(), bridge=False)
        except (StoreError, StopAsked):
            with unbroken():
                undo(fs, moves)
            raise
        tell(moves)
        recovered.files.close()
        lock.sign()
        _rebuild_in_place(fs, config, tell, show_progress=show_progress)
        return RepairReport(recovered.report.quarantined, look())
    finally:
        lock.release()


def _rebuild_in_place(
    fs: FileSystem, config: StoreConfig, tell: Tell, *, show_progress: bool
) -> LogReport:
    rebuilt = _rebuild_paths(config)
    target = rebuilt.root
    os.mkdir(target)
    try:
        log = _rebuilt(config, target, show_progress=show_progress)
        _swap_in(fs, config, rebuilt, tell)
    finally:
        shutil.rmtree(target)
    return log


def _swap_in(fs: FileSystem, config: StoreConfig, rebuilt: StorePaths, tell: Tell) -> None:
    with unbroken():  # half of the renames would be hard to explain, untold ones hard to undo
        tell(swap_in(fs, config.paths, rebuilt, _now_ms()))


def _rebuild_paths(config: StoreConfig) -> StorePaths:
    target = join(config.paths.root, REBUILD_NAME)
    if os.path.islink(target) or os.path.isfile(target):
        raise PlanRefused(f"{target} is no folder", "Remove it, or give a new folder with --into.")
    shutil.rmtree(target, ignore_errors=True)  # of one that was killed
    return StorePaths(target)


def _rebuilt(config: StoreConfig, target: str, *, show_progress: bool) -> LogReport:
    found = make_files(config, target, show_progress=show_progress)
    sync_tree(RealFileSystem(), target)
    return found


def _filters(
    fs: FileSystem, config: StoreConfig, *, needed_only: bool = False
) -> FilterTable | None:
    """Return the filters that the store's broker keeps, None if there are none to be read."""
    if not config.enable_consume_queue_extension:
        return None
    paths = config.paths
    is_guarded = fs.read_link(paths.config(GUARDED)) is not None

    def decode(text: str) -> FilterTable | None:
        try:
            return stored_filters(text, needed_only=needed_only)
        except RemoteProtocolError as error:
            raise ValueError(str(error)) from None

    try:
        return ConfigFiles(fs, paths).load(KEPT if is_guarded else GUARDED, decode)
    except DamagedStore:
        return None  # bitmaps may be missing, and the check of the files says why


def _rebuild(
    fs: FileSystem,
    config: StoreConfig,
    target: str,
    worker: Worker,
    filters: FilterTable | None,
    *,
    check_bodies: bool,
) -> Rebuild:
    loaded: list[Kernels] = []

    def kernels() -> Kernels | None:
        if made.total_bytes < BULK_LOG_BYTES_MIN:
            return None
        if not loaded:
            with unbroken():  # else numba complains of what it had half made
                loaded.append(compile_kernels(windows=True))
            gc.freeze()  # else each collection meanwhile goes through all that numba made
        return loaded[0]

    source = None if filters is None else lambda: filters
    made = Rebuild(
        fs,
        config,
        target,
        kernels=kernels,
        worker=worker,
        workers_count=WORKERS_COUNT,
        filters=source,
        check_bodies=check_bodies,
    )
    return made


def _run(made: Rebuild, title: str, show_progress: bool) -> LogReport:
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    console = Console(stderr=True)
    hidden = not show_progress or not sys.stderr.isatty()
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        task = progress.add_task(title, total=made.total_bytes)
        while made.step(_now_ms()):
            progress.update(task, completed=made.done_bytes)
        return made.finish()


def _refuse_links(fs: FileSystem, config: StoreConfig) -> None:
    findings, may_read = verify_files(fs, config)
    if not may_read:
        [first, *_] = [finding for finding in findings.kept if finding.kind == "link"]
        raise DamagedStore(
            join(config.paths.root, first.place), first.reason, "replace it by what it leads to"
        )


def _is_live(fs: FileSystem, config: StoreConfig) -> bool:
    try:
        return holder_pid(fs, config.paths.lock, BROKER_BYTE) is not None
    except StoreError:
        return False  # a medium that cannot be written has no broker


@contextmanager
def _workers() -> Iterator[Worker]:
    was_frozen = gc.get_freeze_count() > 0
    try:
        with ThreadPoolExecutor(WORKERS_COUNT, thread_name_prefix="read-ahead") as pool:
            yield pool
    finally:
        if not was_frozen:
            gc.unfreeze()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
