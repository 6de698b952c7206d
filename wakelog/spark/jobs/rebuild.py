"""Consume queues and index from the log's files alone, a task a segment, byte for byte.

    every segment        -> pieces of queues, keys      a task each, in any order
    pieces of all        -> queues                      a task for some of them
    keys of all          -> one index file              a task each, beside those

The result is what `wakelog log rebuild` makes and what a broker makes that starts over the copied
log, in a new folder with consumequeue/ and index/ in it; `audit/parallel` says how. Until all
of it is durable it lies in `<target>.unfinished`; a rebuild that was killed is started again and
removes what the one before has left there.

Invariants:
- The target appears whole or not at all. A task that runs twice, even at one time, gives the
  files once: each attempt writes in a folder of its own, and names are given in one step.
- A task's memory is a scan's buffers, and for an index file its slots: 20 MB at 4.9.3's size.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
import uuid
from collections.abc import Sequence
from functools import cache, partial
from os.path import abspath, dirname, join
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from wakelog.audit.parallel.index_merge import IndexPart, make_index_part, plan_index
from wakelog.audit.parallel.pieces import BUCKETS_COUNT, KeyFile
from wakelog.audit.parallel.queue_merge import MergeSummary, merge_queues
from wakelog.audit.parallel.segment_scan import SegmentSummary, scan_segment
from wakelog.dispatchers.log_cursor import BadStretch
from wakelog.spark.errors import JobFailed
from wakelog.spark.jobs.run import Runner, SparkRunner
from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import RealFileSystem
from wakelog.storage.log.commit_log_reader import commit_log_files
from wakelog.storage.paths import StorePaths, offset_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from wakelog.storage.kernels.kernels import Kernels

UNFINISHED: Final = ".unfinished"
BULK_LOG_BYTES_MIN: Final = 64 << 20
"""Below, the plain scan is done before numba is imported."""
TASKS_PER_CORE: Final = 2
"""For queues: so that a core which has got small ones takes over from one with large ones."""


class RebuildReport(NamedTuple):
    """What was read and made.

    begin, end: of the log; what is behind its last record is no bad stretch.
    illegal_names_count: queues left out, since their topics could not become a path.
    """

    target: str
    begin: int
    end: int
    records_count: int
    queues_count: int
    keys_count: int
    index_files_count: int
    illegal_names_count: int
    size_mismatches_count: int
    bad_stretches_count: int
    bad_stretches: tuple[BadStretch, ...]


class _Folders(NamedTuple):
    """Where one rebuild writes."""

    target: str

    @property
    def work(self) -> str:
        return self.target + UNFINISHED

    @property
    def pieces(self) -> str:
        return join(self.work, "pieces")

    @property
    def attempts(self) -> str:
        return join(self.work, "attempts")

    @property
    def made(self) -> str:
        return join(self.work, "made")

    def queues_of(self, begin: int) -> str:
        return join(self.pieces, offset_name(begin) + ".queues")

    def keys_of(self, begin: int) -> str:
        return join(self.pieces, offset_name(begin) + ".keys")


class _Job(NamedTuple):
    """What every task gets; `is_bulk`: compiled code is worth its loading."""

    config: StoreConfig
    folders: _Folders
    is_bulk: bool

    def kernels(self) -> Kernels | None:
        return _compiled() if self.is_bulk else None


class _QueueTask(NamedTuple):
    buckets: frozenset[int]
    begins: tuple[int, ...]


class _IndexTask(NamedTuple):
    part: IndexPart
    keys: tuple[KeyFile, ...]


def rebuild(spark: SparkSession, config: StoreConfig, target: str) -> RebuildReport:
    """Make queues and index of a log below `target`, a new folder.

    config: names the log's folders and the lengths of all files.
    Raises: JobFailed, StoreError, OSError.
    """
    return rebuild_by(SparkRunner(spark), config, target, now_ms=time.time_ns() // 1_000_000)


def rebuild_by(run: Runner, config: StoreConfig, target: str, *, now_ms: int) -> RebuildReport:
    """Do it by whatever runs the tasks."""
    if config.enable_consume_queue_extension:
        raise JobFailed(
            "extension units of consume queues are not made by this job",
            "leave enableConsumeQueueExt out, or use wakelog log rebuild",
        )
    begins = segment_begins(config)
    folders = _Folders(abspath(target))
    _check_target(folders.target)
    shutil.rmtree(folders.work, ignore_errors=True)
    for folder in (folders.pieces, folders.attempts, folders.made):
        os.makedirs(folder)
    is_bulk = len(begins) * config.commit_log_file_bytes >= BULK_LOG_BYTES_MIN
    job = _Job(config, folders, is_bulk)
    summaries = run(partial(_scan, job), begins)
    parts = plan_index(summaries, config, now_ms)
    tasks = [*_index_tasks(folders, parts, summaries), *_queue_tasks(run.parallelism, summaries)]
    made = run(partial(_make, job), tasks)
    _put_in_place(folders)
    return _report(folders.target, config, summaries, parts, made)


def segment_begins(config: StoreConfig) -> list[int]:
    """Return where each segment of the log begins. Raises: JobFailed, DamagedStore."""
    files = commit_log_files(RealFileSystem(), config, read_only=True)
    found = files.load()
    begins = [file.start_offset for file in files.files]
    files.close()
    log = ",".join(config.paths.commit_log_directories)
    if found.short_last is not None:
        raise JobFailed(
            f"{found.short_last} is shorter than {config.commit_log_file_bytes} bytes",
            "copy it whole, or fill it up with zeros (truncate --size), or give "
            "mappedFileSizeCommitLog",
        )
    if found.gap_after is not None:
        raise JobFailed(
            f"{log} has no file for physical offset {found.gap_after}, but some behind it",
            "copy the segments that are missing, or only those on one side of them",
        )
    if not begins:
        raise JobFailed(f"{log} holds no segment of a log", "give a folder of commit-log files")
    return begins


def _check_target(target: str) -> None:
    if os.path.lexists(target) and not os.path.isdir(target):
        raise JobFailed(f"{target} is no folder", "give a new one")
    if os.path.isdir(target) and os.listdir(target):
        raise JobFailed(f"{target} is not empty", "give a new folder")


def _queue_tasks(parallelism: int, summaries: Sequence[SegmentSummary]) -> list[_QueueTask]:
    """Deal the buckets that have entries out to tasks of about equal size."""
    sizes = [sum(x.bucket_bytes[i] for x in summaries) for i in range(BUCKETS_COUNT)]
    by_size = sorted((i for i in range(BUCKETS_COUNT) if sizes[i]), key=lambda i: -sizes[i])
    shares: list[list[int]] = [[] for _ in range(min(len(by_size), TASKS_PER_CORE * parallelism))]
    for bucket in by_size:
        min(shares, key=lambda share: sum(sizes[i] for i in share)).append(bucket)
    begins = tuple(summary.begin for summary in summaries)
    return [_QueueTask(frozenset(share), begins) for share in shares]


def _index_tasks(
    folders: _Folders, parts: Sequence[IndexPart], summaries: Sequence[SegmentSummary]
) -> list[_IndexTask]:
    files = tuple(KeyFile(folders.keys_of(x.begin), x.keys_count) for x in summaries)
    return [_IndexTask(part, files) for part in parts]


@cache
def _compiled() -> Kernels:
    from wakelog.storage.kernels.loader import compile_kernels

    return compile_kernels()


def _scan(job: _Job, begin: int) -> SegmentSummary:
    """One task of the first half: read a segment."""
    folders, attempt = job.folders, join(job.folders.attempts, uuid.uuid4().hex)
    summary = scan_segment(
        RealFileSystem(),
        job.config,
        begin,
        queues_path=attempt + ".queues",
        keys_path=attempt + ".keys",
        kernels=job.kernels,
    )
    os.rename(attempt + ".queues", folders.queues_of(begin))
    if job.config.message_index_enable:
        os.rename(attempt + ".keys", folders.keys_of(begin))
    return summary


def _make(job: _Job, task: _QueueTask | _IndexTask) -> MergeSummary | None:
    """One task of the second half: write some queues, or one index file."""
    fs = RealFileSystem()
    attempt = join(job.folders.attempts, uuid.uuid4().hex)
    os.mkdir(attempt)
    config = msgspec.structs.replace(
        job.config,
        store_path_root=attempt,
        store_path_commit_log=",".join(job.config.paths.commit_log_directories),
    )
    made = StorePaths(job.folders.made)
    if isinstance(task, _IndexTask):
        path = make_index_part(fs, config, task.keys, task.part, job.kernels())
        fs.make_directories(made.index_directory)
        os.rename(path, join(made.index_directory, task.part.name))
        fs.sync_directory(made.index_directory)
        return None
    pieces = [job.folders.queues_of(begin) for begin in task.begins]
    summary = merge_queues(fs, config, pieces, task.buckets)
    _move_queues(fs, config.paths.consume_queue_root, made.consume_queue_root)
    return summary


def _move_queues(fs: RealFileSystem, source: str, target: str) -> None:
    """Give whole queues their names; one that has its name already is of another attempt."""
    fs.make_directories(target)
    for topic in os.listdir(source) if os.path.isdir(source) else ():
        fs.make_directories(join(target, topic))
        for queue in os.listdir(join(source, topic)):
            try:
                os.rename(join(source, topic, queue), join(target, topic, queue))
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
        fs.sync_directory(join(target, topic))


def _put_in_place(folders: _Folders) -> None:
    os.rename(folders.made, folders.target)
    RealFileSystem().sync_directory(dirname(folders.target))
    shutil.rmtree(folders.work, ignore_errors=True)


def _report(
    target: str,
    config: StoreConfig,
    summaries: Sequence[SegmentSummary],
    parts: Sequence[IndexPart],
    made: Sequence[MergeSummary | None],
) -> RebuildReport:
    end = summaries[-1].begin + config.commit_log_file_bytes
    stretches = [stretch for summary in summaries for stretch in summary.bad_stretches]
    known_count = len(stretches)
    while stretches and stretches[-1].end == end:
        end = stretches.pop().begin
    queues = [summary for summary in made if summary is not None]
    return RebuildReport(
        target=target,
        begin=summaries[0].begin,
        end=end,
        records_count=sum(summary.records_count for summary in summaries),
        queues_count=sum(summary.queues_count for summary in queues),
        keys_count=sum(summary.keys_count for summary in summaries),
        index_files_count=len(parts),
        illegal_names_count=sum(summary.illegal_names_count for summary in queues),
        size_mismatches_count=sum(summary.size_mismatches_count for summary in summaries),
        bad_stretches_count=sum(summary.bad_stretches_count for summary in summaries)
        - (known_count - len(stretches)),
        bad_stretches=tuple(stretches),
    )
