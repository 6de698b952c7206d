"""Mistakes that the simulation must notice: 4.9.3's own, and classic ones.

Each mutant changes the code that runs, for as long as its context lasts, and production code knows
nothing of it. `test_mutants.py` says how each is found. A simulation that stops finding one of them
has become blind.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple
from unittest.mock import patch

from tests.simulation.client import Acknowledged
from tests.simulation.disk import SimulatedFileSystem
from tests.simulation.machine import Machine
from wakelog.actors.services.dispatch import Dispatch
from wakelog.dispatchers import consume_queue, index, reput
from wakelog.dispatchers.consume_queue import ConsumeQueueDispatcher
from wakelog.dispatchers.index import IndexDispatcher
from wakelog.dispatchers.reput import FlushJob
from wakelog.storage import message_store, store_parts
from wakelog.storage.durability import config_files, slot_file
from wakelog.storage.durability.config_files import ConfigFiles
from wakelog.storage.durability.dispatched import read_dispatched
from wakelog.storage.durability.marks import AbortFile
from wakelog.storage.durability.watermark import read_mark
from wakelog.storage.errors import store_failure
from wakelog.storage.file_system import FileSystem, write_synced
from wakelog.storage.index import index_repair
from wakelog.storage.log import allocate
from wakelog.storage.log.flush import SegmentSync
from wakelog.storage.log.mapped_file import MappedFile
from wakelog.storage.log.mapped_file_queue import MappedFileQueue
from wakelog.storage.queue.consume_queue_ext import ConsumeQueueExtWriter
from wakelog.storage.queue.consume_queue_writer import ConsumeQueueWriter
from wakelog.storage.recovery import log_end, quarantine, queues, search, steps, watermark_trust
from wakelog.storage.recovery.log_end import LogEndSearch
from wakelog.storage.recovery.queues import QueueEnds, QueueRepair
from wakelog.storage.recovery.watermark_trust import DurablePositions


class Mutant(NamedTuple):
    """A mistake: what it is in words, and what is replaced to make it: owner, name, new value."""

    meaning: str
    replacements: tuple[tuple[Any, str, Any], ...]

    @contextmanager
    def active(self) -> Iterator[None]:
        """Make the mistake until the context ends."""
        with ExitStack() as stack:
            for owner, name, value in self.replacements:
                stack.enter_context(patch.object(owner, name, value))
            yield


def _nothing(*_arguments: Any, **_named: Any) -> None:
    pass


def _acknowledge_failed_sync(self: SegmentSync, begin_offset: int, end_offset: int) -> None:
    for start_offset in self.start_offsets:
        if start_offset < end_offset and start_offset + self._segment_bytes > begin_offset:
            # MappedFile.flush of 4.9.3 logs the error, and moves its position.
            with suppress(OSError):
                self._fs.datasync(self._fds[start_offset])


def _retry_failed_sync(self: SegmentSync, begin_offset: int, end_offset: int) -> None:
    for start_offset in self.start_offsets:
        if start_offset < end_offset and start_offset + self._segment_bytes > begin_offset:
            for attempt in range(3):
                try:
                    self._fs.datasync(self._fds[start_offset])
                    break
                except OSError as error:
                    if attempt == 2:
                        raise store_failure("segment", "sync", error) from error


def _reopen_after_failed_sync(self: Machine) -> bool:
    written = _FLUSH(self)
    if not written and self.store.log.failure is not None:
        # New descriptors do not get the error; the pages count as clean.
        self.store.log.failure = None
        self.segments = SegmentSync(self.fs, self.config.commit_log_file_bytes)
        for file in self.store.log.files.files:
            file.release()
        self.flush_core.failure = None
        return _FLUSH(self)
    return written


_FLUSH = Machine.flush


def _truncate_in_memory(
    self: MappedFileQueue, offset: int, *, keep_empty: bool = False
) -> list[str]:
    kept_from = offset + 1 if keep_empty else offset
    while self.files and self.files[-1].start_offset >= kept_from:
        self.files.pop().release()
    return []


def _lock_after_recovery(*arguments: Any, **named: Any) -> Any:
    fs, config, now_ms, _ = arguments
    fs.make_directories(config.store_path_root)
    _, files = steps.recover(fs, config, now_ms)
    files.close()
    return _OPEN_PARTS(*arguments, **named)


_OPEN_PARTS = store_parts.open_parts


def _checkpoint_ahead_of_queues(self: Dispatch, job: FlushJob) -> None:
    if job.store_timestamp_ms:
        self._checkpoint.set_logics(job.store_timestamp_ms)
        self._checkpoint.set_index(job.index_timestamp_ms or 0)
    self._checkpoint.sync()
    job.run()
    self.flushed = job.position


def _dispatched_ahead_of_queues(self: Dispatch, job: FlushJob) -> None:
    self._dispatched.note(job.position, job.index_end)
    _RUN(self, job)


_RUN = Dispatch.run


def _from_the_page_cache(fs: Any, fd: int, length: int) -> bytes:
    return bytes(fs.pread(fd, length, 0))


def _empty_slots(fs: Any, fd: int, shape: Any, slots: Any, kept: int) -> None:
    slots[(slots < 0) | (slots >= kept)] = 0


def _delete_then_rename(self: ConfigFiles, name: str, text: str) -> None:
    path = self._path_of(name)
    try:
        self._fs.make_directories(path.rpartition("/")[0])
        write_synced(self._fs, path + ".tmp", text.encode())
        if self._fs.exists(path):
            self._fs.unlink(path)
        self._fs.rename(path + ".tmp", path)
    except OSError as error:
        raise store_failure(path, "save", error) from error


def _write_unsynced(fs: FileSystem, path: str, data: bytes) -> None:
    fd = fs.open(path, create=True)
    try:
        fs.truncate(fd, 0)
        fs.pwrite(fd, data, 0)
    finally:
        fs.close(fd)


def _make_unsynced_directories(
    self: SimulatedFileSystem, path: str, unsynced: list[str] | None = None
) -> None:
    with patch.object(SimulatedFileSystem, "sync_directory", _nothing):
        _MAKE_DIRECTORIES(self, path, unsynced)


_MAKE_DIRECTORIES = SimulatedFileSystem.make_directories


def _readable_is_appended(self: Machine) -> None:
    self.readable = self.store.max_physical_offset


def _flock(self: SimulatedFileSystem, fd: int, byte: int) -> bool:
    # A lock of another kind: it does not see 4.9.3's.
    return self._open[fd].inode.locks.setdefault(1000 + byte, self.pid) == self.pid


def _create_unsynced(self: AbortFile) -> None:
    self._fs.close(self._fs.open(self._path, create=True))


def _make_segment_unsynced(
    fs: SimulatedFileSystem, path: str, size_bytes: int, *, temporary_path: str
) -> bool:
    with patch.object(SimulatedFileSystem, "sync_directory", _nothing):
        return _MAKE_SEGMENT(fs, path, size_bytes, temporary_path=temporary_path)


_MAKE_SEGMENT = allocate.make_segment


def _leave_all_names_to_the_flush(self: ConsumeQueueDispatcher, path: str, size_bytes: int) -> None:
    unfinished = self._config.paths.new_file(path, consume_queue.FILE_OWNER)
    allocate.make_segment(
        self._fs,
        path,
        size_bytes,
        temporary_path=unfinished,
        unsynced=self._unsynced,
    )


def _sync_newest_segment(self: SegmentSync, begin_offset: int, end_offset: int) -> None:
    if begin_offset < end_offset:
        newest = (end_offset - 1) - (end_offset - 1) % self._segment_bytes
        _SYNC(self, newest, end_offset)


_SYNC = SegmentSync.sync


def _acknowledge_what_is_written(self: Machine) -> bool:
    self.flushed = self.store.log.appended_offset
    self.disk.mark(Acknowledged(self.flushed, is_synchronous=True))
    self._update_readable()
    return True


def _forget_queue_ends(self: QueueEnds) -> dict[Any, int]:
    return {}


def _damage_ends_the_log(self: LogEndSearch, position: int) -> None:
    return None


def _watermark_ahead(self: Machine) -> bool:
    if self.store.log.failure is None and self._stored_ms:
        self._watermark.note(self.store.log.appended_offset, self._stored_ms)
    return _FLUSH(self)


def _watermark_unheeded(*_: Any) -> DurablePositions:
    return DurablePositions()


def _positions_of_any_broker(fs: Any, config: Any, *_: Any, **__: Any) -> DurablePositions:
    mark = read_dispatched(fs, config.paths.dispatched)
    durable_end = read_mark(fs, config.paths.watermark).physical_offset
    return DurablePositions(durable_end, mark.physical_offset, has_index=True)


def _resume_anywhere(self: LogEndSearch, position: int) -> int:
    found = self._next_sound(position)
    return self._watermark if found is None else min(found[0], self._watermark)


def _begin_where_the_broker_says(self: IndexDispatcher, max_physical_offset: int) -> int:
    _RECOVER_INDEX(self, max_physical_offset)
    return max_physical_offset


_RECOVER_INDEX = IndexDispatcher.recover


def _say_that_the_index_is_whole(*arguments: Any) -> Any:
    removed, _ = _REMOVE_INDEX(*arguments)
    return removed, 1 << 62


_REMOVE_INDEX = steps._remove_untrusted_index


def _drop_index(self: IndexDispatcher, physical_offset: int) -> int:
    self._writer.repair(0, self._store_time)
    return physical_offset


def _keep_aside_unsynced(*arguments: Any) -> Any:
    with (
        patch.object(SimulatedFileSystem, "sync", _nothing),
        patch.object(SimulatedFileSystem, "sync_directory", _nothing),
    ):
        return _KEEP_ASIDE(*arguments)


_KEEP_ASIDE = quarantine.copy_to_quarantine


def _without_units(self: ConsumeQueueWriter) -> tuple[str, ...]:
    return (self.directory,)


def _recover_by_bisection(self: ConsumeQueueWriter, **_careful: Any) -> None:
    _RECOVER(self)


_RECOVER = ConsumeQueueWriter.recover


def _remove_blank(self: ConsumeQueueWriter, queue_offset: int, **_careful: bool) -> None:
    _SET_END(self, queue_offset)


_SET_END = ConsumeQueueWriter._set_end


def _mutant(meaning: str, *replacements: tuple[Any, str, Any]) -> Mutant:
    return Mutant(meaning, replacements)


MUTANTS: dict[str, Mutant] = {
    "acknowledge_failed_sync": _mutant(
        "a failed sync counts as done (4.9.3, MappedFile.flush)",
        (SegmentSync, "sync", _acknowledge_failed_sync),
    ),
    "retry_failed_sync": _mutant(
        "a failed sync is repeated and then trusted", (SegmentSync, "sync", _retry_failed_sync)
    ),
    "reopen_after_failed_sync": _mutant(
        "after a failed sync files are opened again and synced",
        (Machine, "flush", _reopen_after_failed_sync),
    ),
    "believe_the_page_cache": _mutant(
        "recovery reads what a failed sync left in memory",
        (MappedFile, "reread_from_disk", MappedFile.datasync),
    ),
    "sync_newest_segment": _mutant(
        "a flush forgets the segment before", (SegmentSync, "sync", _sync_newest_segment)
    ),
    "acknowledge_what_is_written": _mutant(
        "synchronous flush does not sync", (Machine, "flush", _acknowledge_what_is_written)
    ),
    "truncate_in_memory": _mutant(
        "truncation moves positions only (4.9.3, MappedFileQueue.truncateDirtyFiles)",
        (MappedFileQueue, "truncate", _truncate_in_memory),
    ),
    "end_at_the_first_bad_record": _mutant(
        "damage ends the log (4.9.3, CommitLog.recoverAbnormally)",
        (LogEndSearch, "_resume_at", _damage_ends_the_log),
    ),
    "believe_what_the_crc_leaves_out": _mutant(
        "a record without the sectors after its body counts as whole (4.9.3)",
        (log_end, "is_torn_after_body", lambda *_: False),
    ),
    "lock_after_recovery": _mutant(
        "a second broker recovers the store of a running one (4.9.3, DefaultMessageStore.load)",
        (message_store, "open_parts", _lock_after_recovery),
    ),
    "flock_instead_of_record_lock": _mutant(
        "the lock does not keep a 4.9.3 broker out", (SimulatedFileSystem, "lock_byte", _flock)
    ),
    "checkpoint_ahead_of_queues": _mutant(
        "the checkpoint is written before what it claims (4.9.3)",
        (Dispatch, "run", _checkpoint_ahead_of_queues),
    ),
    "delete_then_rename": _mutant(
        "the old text goes before the new one has its name (4.9.3, MixAll.string2File)",
        (ConfigFiles, "save", _delete_then_rename),
    ),
    "config_unsynced": _mutant(
        "a text gets its name before its bytes are durable",
        (config_files, "write_synced", _write_unsynced),
    ),
    "no_directory_sync": _mutant(
        "names are never synced (4.9.3)",
        (SimulatedFileSystem, "make_directories", _make_unsynced_directories),
        (SimulatedFileSystem, "sync_directory", _nothing),
    ),
    "queue_names_unsynced": _mutant(
        "the checkpoint covers queues and an index whose names may be lost",
        (reput, "sync_directories", _nothing),
    ),
    "later_queue_name_unsynced": _mutant(
        "a queue's second name outlives its first, and the queue looks trimmed",
        (ConsumeQueueDispatcher, "_make_file", _leave_all_names_to_the_flush),
    ),
    "segment_name_unsynced": _mutant(
        "a segment is written before its name is durable",
        (allocate, "make_segment", _make_segment_unsynced),
    ),
    "abort_mark_unsynced": _mutant(
        "a power loss looks like a clean stop (4.9.3, DefaultMessageStore.createTempFile)",
        (AbortFile, "create", _create_unsynced),
    ),
    "dispatch_past_readable": _mutant(
        "consumers see what is not durable (4.9.3, ReputMessageService)",
        (Machine, "_update_readable", _readable_is_appended),
    ),
    "queue_ends_from_queues_alone": _mutant(
        "numbering goes on before the queues are whole", (QueueEnds, "table", _forget_queue_ends)
    ),
    "index_dropped_after_a_crash": _mutant(
        "removed index files are not made again (4.9.3, IndexService.load)",
        (steps, "_remove_untrusted_index", _say_that_the_index_is_whole),
        (IndexDispatcher, "recover", _begin_where_the_broker_says),
        (IndexDispatcher, "truncate", _drop_index),
    ),
    "watermark_ahead_of_the_log": _mutant(
        "the watermark is written before the sync that it tells of",
        (Machine, "flush", _watermark_ahead),
    ),
    "watermark_unheeded": _mutant(
        "damage to the last durable records is taken for a torn tail (4.9.3)",
        (steps, "known_durable", _watermark_unheeded),
    ),
    "watermark_of_another_broker": _mutant(
        "the watermark is trusted after another broker had the store",
        (watermark_trust, "_doubt", _nothing),
        (LogEndSearch, "_resume_below_watermark", _resume_anywhere),
    ),
    "lock_text_unheeded": _mutant(
        "another broker is noticed by its checkpoint alone",
        (watermark_trust, "was_another_brokers", lambda *_: False),
    ),
    "dispatched_ahead_of_queues": _mutant(
        "queues and index are said to be durable before they are synced",
        (Dispatch, "run", _dispatched_ahead_of_queues),
    ),
    "marks_of_the_page_cache": _mutant(
        "a mark whose sync failed is taken for lowered, and the disk has the one before",
        (slot_file, "pread_from_disk", _from_the_page_cache),
    ),
    "dispatched_of_another_broker": _mutant(
        "the position of what is dispatched is trusted after another broker had the store",
        (steps, "known_durable", _positions_of_any_broker),
    ),
    "records_below_unchecked": _mutant(
        "recovery begins by positions whatever stands in front of them",
        (search, "store_time_below", lambda *_: 0),
    ),
    "left_unsynced_by_a_killed_reput": _mutant(
        "what a killed Reput wrote counts as durable without a sync",
        (ConsumeQueueWriter, "mark_unsynced", _nothing),
    ),
    "slots_of_torn_entries_emptied": _mutant(
        "an index that is cut forgets what torn entries were chained to",
        (index_repair, "_reset_slots", _empty_slots),
    ),
    "index_cut_unsaid": _mutant(
        "a cut that is half done is taken for an index that is whole",
        (index, "lower_index_end", _nothing),
    ),
    "blank_queue_unheeded": _mutant(
        "a queue that has lost its entries is taken for one that never had any",
        (QueueRepair, "without_entries", {}),
    ),
    "blank_queue_removed_at_once": _mutant(
        "a start takes away what tells the next one that a queue has lost its entries",
        (ConsumeQueueWriter, "_set_end", _remove_blank),
    ),
    "vouched_for_while_made_again": _mutant(
        "the checkpoint says that entries are durable which are dispatched again",
        (store_parts, "_lower_checkpoint_time", _nothing),
    ),
    "cut_before_it_is_kept": _mutant(
        "what is cut is gone before its copy is durable",
        (steps, "copy_to_quarantine", _keep_aside_unsynced),
    ),
    "units_left_unsynced_by_a_killed_reput": _mutant(
        "extension units of a killed Reput count as durable without a sync",
        (ConsumeQueueExtWriter, "mark_unsynced", _nothing),
        (ConsumeQueueWriter, "directories", property(_without_units)),
    ),
    "light_queues_uncounted": _mutant(
        "numbering of light queues goes on before they are whole",
        (queues, "multi_targets", lambda *_, **_options: []),
    ),
    "queues_not_checked_after_a_crash": _mutant(
        "a hole in a queue stays",
        (ConsumeQueueWriter, "recover", _recover_by_bisection),
    ),
}
