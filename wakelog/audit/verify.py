"""Proves a store sound, or lists its damage: rebuilds what the log implies, and compares.

    1  names, kinds and lengths of the files (`store_files.py`); a link out of the store ends here
    2  the log, read once: place, lengths and CRC of each record; queues and index are rebuilt
    3  the rebuilt queues and index against the store's own, in both directions (`comparison.py`)
    4  the log against its sums

Below the durable watermark there is no tail: bytes that hold no record there are damage.

While a broker runs, the log grows and Reput follows it. Missing entries at the ends and a tail are
then no damage (`is_live`).
"""

import tempfile
from collections.abc import Iterator
from posixpath import abspath, expanduser, relpath
from typing import NamedTuple

from wakelog.audit.changed_blocks import CHANGED, changed_blocks
from wakelog.audit.comparison import Comparison
from wakelog.audit.findings import Finding, Findings, Severity
from wakelog.audit.operator import SILENT, Operator
from wakelog.audit.queue_compare import Span
from wakelog.audit.rebuild import LogReport, Rebuild, kept_filters, run_rebuild
from wakelog.audit.scratch_files import ScratchFileSystem, store_originals
from wakelog.audit.store_files import check_files
from wakelog.audit.stretches import FillStretch
from wakelog.audit.workers import AT_ONCE, threads
from wakelog.dispatchers.read_ahead import Worker
from wakelog.filter.filter_table import FilterTable
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.checkpoint import read_times
from wakelog.storage.durability.store_lock import BROKER_BYTE, holder_pid
from wakelog.storage.errors import DamagedStore, StoreError
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.commit_log_reader import commit_log_files
from wakelog.storage.paths import StorePaths
from wakelog.storage.recovery.watermark_trust import known_durable


class VerifyReport(NamedTuple):
    """What was checked and found; log is None if the state of the files prevented its reading."""

    findings: Findings
    is_live: bool
    log: LogReport | None = None
    queues_count: int = 0
    entries_count: int = 0
    keys_count: int = 0


def verify(
    config: StoreConfig,
    *,
    scratch: str | None,
    operator: Operator = SILENT,
    holds_lock: bool = False,
    load: FillStretch = lambda lane, begin, end: None,
    compares_queues: bool = True,
) -> VerifyReport:
    """Verify a store that is stopped or running; nothing is written into it.

    scratch: where the folder for the rebuild is made; None for the system's.
    holds_lock: this process holds the store's lock. load: see `parts.py`.
    compares_queues: False for a log alone. Raises: StoreError, OSError.
    """
    fs: FileSystem = FileSystem()
    # A query for the lock's holder would drop a lock of this process.
    is_live = not holds_lock and _is_live(fs, config)
    place = None if scratch is None else abspath(expanduser(scratch))
    # A running broker may have filters that its file does not have yet.
    filters = None if is_live else kept_filters(fs, config, needed_only=True)
    with (
        tempfile.TemporaryDirectory(prefix="wakelog-verify-", dir=place) as folder,
        threads() as worker,
    ):
        originals = () if is_live else (store_originals(fs, StorePaths(folder), config.paths),)
        fs = ScratchFileSystem(*originals)
        return verify_store(
            fs,
            config,
            folder,
            worker,
            filters=filters,
            load=load,
            operator=operator,
            is_live=is_live,
            compares_queues=compares_queues,
        )


def _is_live(fs: FileSystem, config: StoreConfig) -> bool:
    try:
        return holder_pid(fs, config.paths.lock, BROKER_BYTE) is not None
    except StoreError:
        return False  # a read-only medium has no broker


def verify_store(
    fs: FileSystem,
    config: StoreConfig,
    target: str,
    worker: Worker | None = None,
    *,
    filters: FilterTable | None = None,
    load: FillStretch = lambda lane, begin, end: None,
    operator: Operator = SILENT,
    is_live: bool = False,
    compares_queues: bool = True,
) -> VerifyReport:
    """Verify a store with a rebuild into the empty folder `target`; see `verify`.

    worker: scans the log, and compares queues, index and sums.
    Raises: StoreError, OSError; an I/O error of a queue or the index is damage instead.
    """
    findings, may_read = check_files(fs, config)
    if not may_read:
        return VerifyReport(findings, is_live)
    try:
        watermark = _watermark(fs, config, findings, is_live=is_live)
        made = Rebuild(fs, config, target, worker, filters=filters, load=load)
        worker = worker or AT_ONCE
        log = run_rebuild(made, "verify", operator)
        for finding in _log_findings(log, watermark, is_live=is_live):
            findings.add(finding)
        changed = worker.submit(lambda: list(changed_blocks(fs, config)))
        span, paths = Span(log.begin, log.end), made.config.paths
        comparison = Comparison(fs, config, paths, findings, span, worker, is_live)
        compares_index = compares_queues and config.message_index_enable
        index = comparison.begin_index() if compares_index else None
        if compares_queues:
            comparison.compare_queues()
        for block in changed.result():
            reason = f"in {block.end - block.begin} bytes {CHANGED}"
            findings.add(Finding(Severity.DAMAGE, "block", "commitlog", reason, block.begin))
        if index is not None:
            comparison.finish_index(index)
        return VerifyReport(
            findings,
            is_live,
            log,
            comparison.queues_count,
            comparison.entries_count,
            comparison.keys_count,
        )
    except DamagedStore as error:
        # The files cannot be opened without guessing: the reading ends here, not the list.
        place = relpath(error.path, config.paths.root)
        if not any(finding.place == place for finding in findings.kept):
            findings.add(Finding(Severity.DAMAGE, "file", place, error.reason))
        return VerifyReport(findings, is_live)


def _watermark(fs: FileSystem, config: StoreConfig, findings: Findings, *, is_live: bool) -> int:
    """Return the offset up to which the log is known to be durable; 0 if none is known."""
    small = (config.paths.checkpoint, config.paths.watermark)
    if any(fs.exists(path) and not fs.is_file(path) for path in small):
        return 0
    # Read before the watermark: a running broker writes the watermark first.
    times = read_times(fs, config.paths.checkpoint)
    files = commit_log_files(fs, config, read_only=True)
    files.refresh()
    try:
        return known_durable(fs, config, files, times).watermark
    except DamagedStore as error:
        if not is_live:  # else segments were added since the listing
            findings.add(Finding(Severity.DAMAGE, "file", "commitlog", error.reason))
        return 0
    finally:
        files.close()


def _log_findings(log: LogReport, watermark: int, *, is_live: bool) -> Iterator[Finding]:
    damage = Severity.DAMAGE
    for stretch in log.bad_stretches:
        reason = f"{stretch.end - stretch.begin} bytes hold no record: {stretch.reason}"
        yield Finding(damage, "record", "commitlog", reason, stretch.begin)
    more = log.bad_stretches_count - len(log.bad_stretches)
    if more > 0:
        yield Finding(damage, "record", "commitlog", f"{more} more places hold no record")
    for body in log.damaged_bodies:
        place = body.physical_offset, body.topic, body.queue_id, body.queue_offset
        yield Finding(damage, "body", "commitlog", "the body's CRC differs", *place, 1)
    if log.end < watermark:
        reason = f"{watermark - log.end} bytes that were durable hold no record"
        yield Finding(damage, "record", "commitlog", reason, log.end)
    if log.end + log.tail_bytes > max(log.end, watermark) and not is_live:
        reason = f"{log.tail_bytes} bytes are written after the last sound record"
        yield Finding(damage, "tail", "commitlog", reason, log.end)
