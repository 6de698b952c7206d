"""Compares the queues and the index of a store with rebuilt ones, and adds the findings.

Queues, the index and the sums are compared by the same workers, several at a time.

Invariants: findings come in the order of the queues' names, then those of the index.
"""

import errno
from collections import deque
from dataclasses import dataclass
from functools import partial
from posixpath import join, relpath
from typing import Final

from wakelog.audit.findings import Compared, Finding, Findings, Severity
from wakelog.audit.index_compare import compare_index
from wakelog.audit.queue_compare import BEYOND_END, NO_ENTRY, Extensions, Span, compare_queue
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

# Comparisons that were begun and not read yet: enough for any worker, for any number of queues.
QUEUES_AT_ONCE_MAX: Final = 16


@dataclass
class Comparison:
    """See the module. The counts are of what was compared so far.

    log: the physical offsets that the log holds. is_live: a broker runs, so entries may be missing
    at the ends.
    """

    fs: FileSystem
    config: StoreConfig
    rebuilt: StorePaths
    findings: Findings
    log: Span
    worker: Worker
    is_live: bool
    queues_count: int = 0
    entries_count: int = 0
    keys_count: int = 0

    def compare_queues(self) -> None:
        """Compare every queue that either side has."""
        keys = {*list_queues(self.fs, self.config.paths), *list_queues(self.fs, self.rebuilt)}
        begun: deque[tuple[QueueKey, Pending[Compared]]] = deque()
        for key in sorted(keys):
            is_behind = begun and not begun[0][1].done()
            worker = AT_ONCE if is_behind else self.worker
            begun.append((key, worker.submit(partial(self._compare_queue, key))))
            if len(begun) >= QUEUES_AT_ONCE_MAX:
                self._finish_queue(*begun.popleft())
        while begun:
            self._finish_queue(*begun.popleft())

    def begin_index(self) -> Pending[Compared]:
        """Submit the comparison of the keys of both sides."""
        return self.worker.submit(self._compare_index)

    def finish_index(self, compared: Pending[Compared]) -> None:
        """Add the differences that `begin_index` found."""
        directory = self.config.paths.index_directory
        self.keys_count += self._add_findings(compared, "index", directory)

    def _compare_queue(self, key: QueueKey) -> Compared:
        size_bytes = self.config.consume_queue_bytes
        found, expected = self.config.paths.consume_queue(*key), self.rebuilt.consume_queue(*key)
        units = self._extensions(key)
        try:
            result = compare_queue(self.fs, key, found, expected, size_bytes, self.log, units)
        finally:
            for side in units or ():
                side.close()
        if not self.is_live:
            return result
        damage = [each for each in result.findings if each.reason not in (NO_ENTRY, BEYOND_END)]
        return Compared(result.places_count, damage)

    def _finish_queue(self, key: QueueKey, compared: Pending[Compared]) -> None:
        self.queues_count += 1
        directory = self.config.paths.consume_queue(*key)
        self.entries_count += self._add_findings(compared, "queue", directory, *key)

    def _extensions(self, key: QueueKey) -> Extensions | None:
        if not self.config.enable_consume_queue_extension:
            return None
        found, expected = (
            ConsumeQueueExt(
                self.fs,
                paths.consume_queue_extension(*key),
                file_bytes=self.config.consume_queue_extension_file_bytes,
                open_files=OpenFiles(),
            )
            for paths in (self.config.paths, self.rebuilt)
        )
        return Extensions(found, expected)

    def _compare_index(self) -> Compared:
        directories = self.config.paths.index_directory, self.rebuilt.index_directory
        result = compare_index(self.fs, *directories, index_shape(self.config), self.log)
        return Compared(result.places_count, []) if self.is_live else result

    def _add_findings(
        self,
        compared: Pending[Compared],
        kind: str,
        directory: str,
        topic: str | None = None,
        queue_id: int | None = None,
    ) -> int:
        """Add the findings and return the count; an I/O error of the compared folder is damage."""
        try:
            count, findings = compared.result()
        except OSError as error:
            path = str(error.filename)
            if error.errno != errno.EIO or not path.startswith(join(directory, "")):
                raise
            place = relpath(path, self.config.paths.root)
            reason = "the disk does not give it: I/O error"
            found = Finding(Severity.DAMAGE, kind, place, reason, topic=topic, queue_id=queue_id)
            count, findings = 0, [found]
        for finding in findings:
            self.findings.add(finding)
        return count
