"""Dispatch: Reput's core with its files, its checkpoint and the plug-ins.

The Reput service opens it when it is attached and closes it when it is released.

Source: org.apache.rocketmq.store.DefaultMessageStore (4.9.3), the parts that ReputMessageService
and FlushConsumeQueueService work on.
"""

import time
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from typing import Any

from wakelog.actors.services.plugin_threads import PluginThreads
from wakelog.actors.services.session import AttachRequest
from wakelog.actors.transport.clocks import wall_ms
from wakelog.compiled.library import CHOICE
from wakelog.dispatchers import core_dispatchers
from wakelog.dispatchers.consume_queue import ConsumeQueueDispatcher
from wakelog.dispatchers.dispatcher import CoreDispatcher
from wakelog.dispatchers.filter_bitmap import FilterFile
from wakelog.dispatchers.index import IndexDispatcher
from wakelog.dispatchers.lagging_dispatcher import LaggingDispatcher
from wakelog.dispatchers.log_cursor import LogCursor
from wakelog.dispatchers.plugins import PluginCursor, find_plugins, own_plugins
from wakelog.dispatchers.reput import DispatchDecision, FlushJob, Reput
from wakelog.network.time_share import run_for_a_share
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.checkpoint import Checkpoint
from wakelog.storage.durability.dispatched import DispatchedFile
from wakelog.storage.durability.marks import FailedSyncMark
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.recovery.steps import recover_derived
from wakelog.telemetry.histogram import Histogram

STEP_BYTES_MAX = 8 << 20
"""A scan's buffer: some milliseconds of work; then notifications and calls are served."""

CATCH_UP_SECONDS_MAX = 0.5
"""How long a release waits for an index that is behind: a new Broker gives it a second. Later it
goes on where it stopped; only a 4.9.3 broker that opens the store in between would not."""


class Dispatch:
    """The core with its files and its checkpoint: what `attach` opens and `release` closes."""

    def __init__(
        self,
        fs: FileSystem,
        config: StoreConfig,
        known: AttachRequest,
        *,
        calculates_bitmaps: bool = False,
        has_process: bool = False,
    ) -> None:
        """Open the derived files and find where dispatch begins. Raises: StoreError.

        has_process: whether no Broker is in this process.

        Nothing is open after it raised: a Broker tries again and again on a broken disk.
        """
        with ExitStack() as files:
            self._log = files.enter_context(closing(CommitLogReader(fs, config)))
            self._lagging_log = files.enter_context(closing(CommitLogReader(fs, config)))
            self._dispatchers: list[CoreDispatcher] = core_dispatchers(
                fs,
                config,
                self._log,
                skip_segment=config.compat_skip_segment,
                filters=FilterFile(fs, config.paths.filters) if calculates_bitmaps else None,
                has_process=has_process,
            )
            for dispatcher in self._dispatchers:
                files.enter_context(closing(dispatcher))
            self.flushed = 0
            checkpoint = Checkpoint(fs, config.paths.checkpoint)
            self._checkpoint = files.enter_context(closing(checkpoint))
            dispatched = DispatchedFile(fs, config.paths.dispatched)
            self._dispatched = files.enter_context(closing(dispatched))
            self.core = Reput(
                fs,
                self._log,
                self._dispatchers,
                config,
                skip_segment=config.compat_skip_segment,
                functions=CHOICE.library,
                lagging=self._make_lagging(config),
            )
            recovered = known.dispatch_from is not None
            dispatch_from = known.dispatch_from
            self._failed_sync = FailedSyncMark(fs, config.paths)
            is_doubtful = self._failed_sync.is_set()
            if is_doubtful:
                # Also if the Broker recovered meanwhile: the flush below may have failed since.
                self._dispatched.lower(0)
                found = recover_derived(fs, config)
                dispatch_from = found if dispatch_from is None else min(found, dispatch_from)
            # Who recovered has checked, cut and synced every queue.
            self._queues.open_later(are_durable=recovered or is_doubtful)
            self.core.start(
                known.committed,
                clean_exit=known.clean_exit and recovered and not is_doubtful,
                dispatch_from=dispatch_from,
                dispatched=None if recovered else known.dispatched,
            )
            # Make durable what an earlier process left unsynced; then the mark may go.
            self.run(self.core.prepare_flush())
            self._failed_sync.clear()
            self._puts: dict[str, tuple[int, int]] = {}
            self._step_seconds = Histogram()
            self.plugins = self._start_plugins(fs, config, known.committed)
            self.plugins.readable(known.readable)  # what they lack of it waits for no new message
            self._files = files.pop_all()

    def step(self, readable: int) -> DispatchDecision:
        """Dispatch some of what is below `readable`. Raises: StoreError."""
        position, began_seconds = self.core.position, time.perf_counter()
        decision = self.core.step(readable, STEP_BYTES_MAX, wall_ms())
        if self.core.position > position:
            self._step_seconds.observe(time.perf_counter() - began_seconds)
        for topic, puts in decision.topic_puts.items():
            count, size_bytes = self._puts.get(topic, (0, 0))
            self._puts[topic] = count + puts.messages_count, size_bytes + puts.messages_bytes
        self.plugins.readable(readable)
        return decision

    @property
    def refused_plugins(self) -> dict[str, str]:
        """Why plug-ins were not loaded, by what a user calls them."""
        failures = self.plugins.failures
        return {f"dispatcher {name}": failure for name, failure in failures.items()}

    def follow_deleted(self, ends: Mapping[str, int]) -> int | None:
        """Have the queues that a master has after its deletions; None if that cannot be done yet.

        No flush job may run. Returns: how many queues were removed. What they had of later records
        is dispatched again, after a crash as well. Raises: TooManyDeleted, StoreFull, StoreFailed.
        """
        if self.core.is_broken or self.core.is_behind:
            return None
        stale = self._queues.stale_queues(ends)
        if stale.again_from is not None:
            self._dispatched.lower(stale.again_from)
        self._queues.restart_queues(ends, stale)
        if stale.again_from is not None:
            self.core.dispatch_again(stale.again_from)
            self.flushed = min(self.flushed, self.core.position)
        return len(stale.keys)

    @property
    def _queues(self) -> ConsumeQueueDispatcher:
        queues = [one for one in self._dispatchers if isinstance(one, ConsumeQueueDispatcher)]
        return queues[0]

    def statistics(self) -> dict[str, Any]:
        """Return the core's counters, a slave's counts by topic, and times."""
        return {
            **self.core.statistics()._asdict(),
            "flushed": self.flushed,
            "step_seconds": self._step_seconds.statistics(),
            "puts_by_topic": self._puts.copy(),  # another thread may read it
            "plugins": self.plugins.statistics(),
        }

    def run(self, job: FlushJob) -> None:
        """Make what a job covers durable and write that into the checkpoint; for any thread.

        Raises: StoreError; then nothing of the job is durable, and Reput has to begin again.
        """
        try:
            job.run()
        except StoreError:
            self._failed_sync.set()
            raise
        if job.store_timestamp_ms:
            self._checkpoint.set_logics(job.store_timestamp_ms)
        if job.index_timestamp_ms is not None:
            # It falls when files were removed: it must not cover files that are made again.
            self._checkpoint.set_index(job.index_timestamp_ms)
        self._checkpoint.sync()
        self._dispatched.note(job.position, job.index_end)
        self.flushed = job.position

    def make_ahead(self) -> None:
        """Make files that new queues will need; for any thread.

        If that fails they are made when they are needed, and the error is reported then.
        """
        with suppress(StoreError):
            self.core.make_ahead()

    def close(self) -> None:
        """Make everything durable and close the files. Raises: StoreError."""
        self.plugins.stop()
        try:
            self._catch_up()
            self.run(self.core.prepare_flush())
        finally:
            self._files.close()

    def _catch_up(self) -> None:
        """Finish the index, or a part of it."""
        run_for_a_share(lambda: self.core.catch_up(wall_ms()), CATCH_UP_SECONDS_MAX)

    def _make_lagging(self, config: StoreConfig) -> LaggingDispatcher | None:
        """Let the index fall behind the queues, if there is an index."""
        for dispatcher in self._dispatchers:
            if isinstance(dispatcher, IndexDispatcher):
                cursor = LogCursor(
                    self._lagging_log,
                    config.delays_ms,
                    functions=CHOICE.library,
                    skip_segment=config.compat_skip_segment,
                )
                return LaggingDispatcher(dispatcher, cursor)
        return None

    @staticmethod
    def _start_plugins(fs: FileSystem, config: StoreConfig, log_end: int) -> PluginThreads:
        cursors, failures = [], {}
        functions = CHOICE.library
        for name, make, failure in (*own_plugins(config), *find_plugins()):
            if make is None:
                failures[name] = failure
            else:
                log = CommitLogReader(fs, config)
                cursors.append(
                    PluginCursor(fs, log, name, make, config, log_end=log_end, functions=functions)
                )
        return PluginThreads(config.paths.root, cursors, failures)
