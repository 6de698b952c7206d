"""Proves a store sound, or lists its damage: rebuilds what the log says and compares.

Names, kinds and lengths first (`audit/store_files.py`); a link out of the store ends
it there. Then the log is read once: each record's place, lengths and CRC, and the queues and the
index that follow from it. Then those are held against the store's own, both ways, and the log
against the sums that were kept of it.

Below the durable watermark nothing is a tail: what holds no record there is damage.

Of a store whose broker runs, the log grows behind our back and Reput follows it: what is missing at
the ends, and a tail, is no damage then (`is_live`).
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from posixpath import join, relpath
from typing import Final, NamedTuple, TypeVar

from wakelog.audit.findings import Finding, Findings, Severity
from wakelog.audit.index_compare import IndexDifference, compare_index
from wakelog.audit.parallel.turns import AT_ONCE, InTurn
from wakelog.audit.queue_compare import (
    Extensions,
    QueueDifference,
    Span,
    compare_queue,
)
from wakelog.audit.rebuild import LogReport, Rebuild
from wakelog.audit.store_files import StoreFiles
from wakelog.dispatchers.read_ahead import Pending, Worker
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.checkpoint import read_times
from wakelog.storage.durability.sum_keeper import ChangedBlock, compare_sums
from wakelog.storage.errors import DamagedStore
from wakelog.storage.file_system import FileSystem
from wakelog.storage.index.index_service import index_shape
from wakelog.storage.log.commit_log_reader import commit_log_files
from wakelog.storage.log.mapped_file import OpenFiles
from wakelog.storage.log.queue_offsets import QueueKey
from wakelog.storage.paths import StorePaths
from wakelog.storage.queue.consume_queue_ext import ConsumeQueueExt
from wakelog.storage.recovery.durable import known_durable
from wakelog.storage.recovery.queue_repair import list_queues

T = TypeVar("T")

# Comparisons that were begun and not yet looked at: enough for any worker, however many queues.
QUEUES_AT_ONCE_MAX: Final = 16

Run = Callable[[Rebuild], LogReport]
"""Steps a rebuild to its end: the caller has the clock, and shows how far it is."""


class VerifyReport(NamedTuple):
    """What was looked at, and what was found; log is None if the files forbade to read it."""

    findings: Findings
    is_live: bool
    log: LogReport | None = None
    queues_count: int = 0
    entries_count: int = 0
    keys_count: int = 0


def verify_files(fs: FileSystem, config: StoreConfig) -> tuple[Findings, bool]:
    """Look at names, kinds and lengths; False if nothing may be read on."""
    findings = Findings()
    files = StoreFiles(fs, config, findings)
    files.check()
    return findings, not files.leads_outside


def verify_store(
    fs: FileSystem,
    config: StoreConfig,
    rebuild: Callable[[], Rebuild],
    run: Run,
    *,
    is_live: bool = False,
    worker: Worker | None = None,
) -> VerifyReport:
    """Verify a store. `rebuild` makes one into an empty folder of the caller's.

    worker: compares queues, index and sums, several at once if it can.
    Raises: StoreError, OSError; not of a queue's or the index's file that its disk does not give,
        which is damage.
    """
    findings, may_read = verify_files(fs, config)
    if not may_read:
        return VerifyReport(findings, is_live)
    try:
        return _verify_contents(
            fs, config, findings, rebuild, run, is_live=is_live, worker=worker or InTurn()
        )
    except DamagedStore as error:
        # Files that cannot be opened without guessing end the reading, not the list.
        place = relpath(error.path, config.paths.root)
        if not any(finding.place == place for finding in findings.kept):
            findings.add(Finding(Severity.DAMAGE, "file", place, error.reason))
        return VerifyReport(findings, is_live)


def _verify_contents(
    fs: FileSystem,
    config: StoreConfig,
    findings: Findings,
    rebuild: Callable[[], Rebuild],
    run: Run,
    *,
    is_live: bool,
    worker: Worker,
) -> VerifyReport:
    watermark = _watermark(fs, config, findings, is_live=is_live)
    made = rebuild()
    try:
        log = run(made)
    finally:
        made.close()
    for finding in _log_findings(log, watermark, is_live=is_live):
        findings.add(finding)
    span = Span(log.begin, log.end)
    changed = worker.submit(lambda: list(_changed_blocks(fs, config, made.crc)))
    comparison = _Comparison(fs, config, made.config.paths, findings, span, worker, is_live=is_live)
    index = comparison.begin_index() if config.message_index_enable else None
    comparison.queues()
    for finding in changed.result():
        findings.add(finding)
    if index is not None:
        comparison.index(index)
    return VerifyReport(
        findings,
        is_live,
        log,
        comparison.queues_count,
        comparison.entries_count,
        comparison.keys_count,
    )


def _watermark(fs: FileSystem, config: StoreConfig, findings: Findings, *, is_live: bool) -> int:
    """Return how far the log is known to be durable; 0 if nothing is known."""
    small = (config.paths.checkpoint, config.paths.watermark)
    if any(fs.exists(path) and not fs.is_file(path) for path in small):
        return 0
    # Read before the watermark: a broker that runs writes both, that one first.
    times = read_times(fs, config.paths.checkpoint)
    files = commit_log_files(fs, config, read_only=True)
    files.refresh()
    try:
        return known_durable(fs, config, files, times).watermark
    except DamagedStore as error:
        if not is_live:  # else segments were made since they were listed
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
        offset, topic, queue_id, queue_offset = body
        reason = "the body's CRC differs"
        yield Finding(damage, "body", "commitlog", reason, offset, topic, queue_id, queue_offset, 1)
    if log.end < watermark:
        reason = f"{watermark - log.end} bytes that were durable hold no record"
        yield Finding(damage, "record", "commitlog", reason, log.end)
    if log.end + log.tail_bytes > max(log.end, watermark) and not is_live:
        reason = f"{log.tail_bytes} bytes are written behind the last sound record"
        yield Finding(damage, "tail", "commitlog", reason, log.end)


def _changed_blocks(
    fs: FileSystem, config: StoreConfig, crc: Callable[[bytes], int]
) -> Iterator[Finding]:
    """Yield what differs from when it was durable, neighbouring blocks as one."""
    begin = end = -1
    for looked in compare_sums(fs, config, crc):
        if begin >= 0 and not (isinstance(looked, ChangedBlock) and looked.begin == end):
            yield _changed(begin, end)
            begin = -1
        if isinstance(looked, ChangedBlock):
            begin, end = (begin if begin >= 0 else looked.begin), looked.end
    if begin >= 0:
        yield _changed(begin, end)


def _changed(begin: int, end: int) -> Finding:
    reason = f"in {end - begin} bytes something differs from when they were durable"
    return Finding(Severity.DAMAGE, "block", "commitlog", reason, begin)


class _Comparison:
    """Holds queues and index of a store against the rebuilt ones."""

    def __init__(
        self,
        fs: FileSystem,
        config: StoreConfig,
        rebuilt: StorePaths,
        findings: Findings,
        log: Span,
        worker: Worker,
        *,
        is_live: bool,
    ) -> None:
        self._fs = fs
        self._config = config
        self._rebuilt = rebuilt
        self._findings = findings
        self._log = log
        self._worker = worker
        self._is_live = is_live
        self.queues_count = 0
        self.entries_count = 0
        self.keys_count = 0

    def queues(self) -> None:
        """Compare every queue that either side has."""
        paths = self._config.paths
        keys = {*list_queues(self._fs, paths), *list_queues(self._fs, self._rebuilt)}
        begun: deque[tuple[QueueKey, Pending[list[QueueDifference | int]]]] = deque()
        for key in sorted(keys):
            is_behind = begun and not begun[0][1].done()
            worker = AT_ONCE if is_behind else self._worker
            begun.append((key, worker.submit(partial(self._compared, key))))
            if len(begun) >= QUEUES_AT_ONCE_MAX:
                self._queue_findings(*begun.popleft())
        while begun:
            self._queue_findings(*begun.popleft())

    def _compared(self, key: QueueKey) -> list[QueueDifference | int]:
        found, expected = self._config.paths.consume_queue(*key), self._rebuilt.consume_queue(*key)
        size = self._config.consume_queue_bytes
        units = self._extensions(key)
        try:
            return list(compare_queue(self._fs, found, expected, size, self._log, units))
        finally:
            for side in units or ():
                side.close()

    def _queue_findings(
        self, key: QueueKey, compared: Pending[list[QueueDifference | int]]
    ) -> None:
        self.queues_count += 1
        directory = self._config.paths.consume_queue(*key)
        for result in self._read(compared, "queue", directory, *key):
            if isinstance(result, int):
                self.entries_count += result
            else:
                self._queue_finding(key, result)

    def _extensions(self, key: QueueKey) -> Extensions | None:
        if not self._config.enable_consume_queue_extension:
            return None
        found, expected = (
            ConsumeQueueExt(
                self._fs,
                paths.consume_queue_extension(*key),
                file_bytes=self._config.consume_queue_extension_file_bytes,
                open_files=OpenFiles(),
            )
            for paths in (self._config.paths, self._rebuilt)
        )
        return Extensions(found, expected)

    def _queue_finding(self, key: QueueKey, found: QueueDifference) -> None:
        if self._is_live and found.reason in (
            "no entry",
            "entries of records behind the log's end",
        ):
            return
        topic, queue_id = key
        self._findings.add(
            Finding(
                Severity.DAMAGE,
                "queue",
                join("consumequeue", topic, str(queue_id)),
                found.reason,
                found.physical_offset,
                topic,
                queue_id,
                found.queue_offset,
                found.affected_count,
            )
        )

    def begin_index(self) -> Pending[list[IndexDifference | int]]:
        """Begin to compare the keys of both sides."""
        shape = index_shape(self._config)
        directories = self._config.paths.index_directory, self._rebuilt.index_directory
        return self._worker.submit(
            lambda: list(compare_index(self._fs, *directories, shape, self._log))
        )

    def index(self, compared: Pending[list[IndexDifference | int]]) -> None:
        """Take in what came of that."""
        for result in self._read(compared, "index", self._config.paths.index_directory):
            if isinstance(result, int):
                self.keys_count += result
            elif not self._is_live:
                name, count, physical_offset, reason = result
                place = join("index", name) if name else "index"
                self._findings.add(
                    Finding(
                        Severity.DAMAGE,
                        "index",
                        place,
                        reason,
                        physical_offset,
                        affected_count=count,
                    )
                )

    def _read(
        self,
        compared: Pending[list[T]],
        kind: str,
        directory: str,
        topic: str | None = None,
        queue_id: int | None = None,
    ) -> list[T]:
        """Return what came of a comparison; what the disk does not give of the folder is damage."""
        try:
            return compared.result()
        except OSError as error:
            path = str(error.filename)
            if error.errno != errno.EIO or not path.startswith(join(directory, "")):
                raise
            place = relpath(path, self._config.paths.root)
            reason = "the disk does not give it: I/O error"
            self._findings.add(
                Finding(Severity.DAMAGE, kind, place, reason, topic=topic, queue_id=queue_id)
            )
            return []
