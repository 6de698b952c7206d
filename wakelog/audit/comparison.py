"""Compares the queues and the index of a store with rebuilt ones, and adds the findings.

Queues, the index and the sums are compared by the same workers, several at a time.

Invariants: findings come in the order of the queues' names, then those of the index.
"""

from __future__ import annotations

import errno
from collections import deque
from functools import partial
from posixpath import join, relpath
from typing import Final, TypeVar

from wakelog.audit.findings import Finding, Findings, Severity
from wakelog.audit.index_compare import IndexDifference, compare_index
from wakelog.audit.queue_compare import (
    BEYOND_END,
    NO_ENTRY,
    Extensions,
    QueueDifference,
    Span,
    compare_queue,
)
from wakelog.audit.workers import AT_ONCE
from wakelog.dispatchers.read_ahead import Pending, Worker
from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import FileSystem
from wakelog.storage.index.index_service import index_shape
from wakelog.storage.log.mapped_file import OpenFiles
from wakelog.storage.log.queue_offsets import QueueKey
from wakelog.storage.paths import StorePaths
from wakelog.storage.queue.consume_queue_ext import ConsumeQueueExt
from wakelog.storage.recovery.queues import list_queues

T = TypeVar("T")

# Comparisons that were begun and not read yet: enough for any worker, for any number of queues.
QUEUES_AT_ONCE_MAX: Final = 16


class Comparison:
    """See the module. The counts are of what was compared so far."""

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
        """Compare nothing yet.

        log: the physical offsets that the log holds. is_live: a broker runs, so entries may be
        missing at the ends.
        """
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

    def compare_queues(self) -> None:
        """Compare every queue that either side has."""
        paths = self._config.paths
        keys = {*list_queues(self._fs, paths), *list_queues(self._fs, self._rebuilt)}
        begun: deque[tuple[QueueKey, Pending[list[QueueDifference | int]]]] = deque()
        for key in sorted(keys):
            is_behind = begun and not begun[0][1].done()
            worker = AT_ONCE if is_behind else self._worker
            begun.append((key, worker.submit(partial(self._compare_one, key))))
            if len(begun) >= QUEUES_AT_ONCE_MAX:
                self._queue_findings(*begun.popleft())
        while begun:
            self._queue_findings(*begun.popleft())

    def _compare_one(self, key: QueueKey) -> list[QueueDifference | int]:
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
        if self._is_live and found.reason in (NO_ENTRY, BEYOND_END):
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
        """Submit the comparison of the keys of both sides."""
        shape = index_shape(self._config)
        directories = self._config.paths.index_directory, self._rebuilt.index_directory
        return self._worker.submit(
            lambda: list(compare_index(self._fs, *directories, shape, self._log))
        )

    def finish_index(self, compared: Pending[list[IndexDifference | int]]) -> None:
        """Add the differences that `begin_index` found."""
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
        """Return a comparison's result; an I/O error of the compared folder is damage."""
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
