"""Makes consume queues and index from the log's files alone: `audit/rebuild.py`, scanned by tasks.

    every segment       -> files of scanned stretches    a task each, in any order
    stretches in order  -> queues and index              on the driver

Invariants: the target appears whole or not at all; a task that runs twice changes nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from os import makedirs
from os.path import abspath
from typing import TYPE_CHECKING

from wakelog.audit.operator import AuditRefused
from wakelog.audit.parts import ScanJob, part_loader, scan_segment
from wakelog.audit.rebuild import LogReport, check_target, needs_values, rebuild_into
from wakelog.audit.stretches import FillStretch
from wakelog.spark.errors import JobFailed
from wakelog.spark.jobs.run import Runner, run_tasks
from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.commit_log_reader import commit_log_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASKS_LOG_BYTES_MIN = 64 << 20
"""A smaller log is scanned before tasks have begun."""

PARTS: str = ".parts"
"""The target's name with this is the folder of scanned stretches; every task has to see it."""


def rebuild(spark: SparkSession, config: StoreConfig, target: str) -> LogReport:
    """Make queues and index of a log below `target`, a new folder.

    config: names the log's folders and the lengths of all files.
    Raises: JobFailed, StoreError, OSError.
    """
    return rebuild_by(partial(run_tasks, spark), config, target)


def rebuild_by(run: Runner, config: StoreConfig, target: str) -> LogReport:
    """Make them with tasks of any runner."""
    begins = segment_begins(config)
    try:
        check_target(abspath(target))
        with scanned(run, config, begins, abspath(target) + PARTS, check_bodies=False) as load:
            return rebuild_into(config, target, load=load)
    except AuditRefused as error:
        raise JobFailed(error.cause, error.remedy) from error


@contextmanager
def scanned(
    run: Runner, config: StoreConfig, begins: list[int], folder: str, *, check_bodies: bool
) -> Iterator[FillStretch]:
    """Scan segments by tasks into a folder that is removed in the end.

    The rebuild itself scans a small log, and a log whose records are all needed as values.
    """
    shutil.rmtree(folder, ignore_errors=True)  # of a job that was killed
    makedirs(folder)
    try:
        is_large = len(begins) * config.commit_log_file_bytes >= TASKS_LOG_BYTES_MIN
        if is_large and not needs_values(config):
            run(partial(scan_segment, ScanJob(config, folder, check_bodies)), begins)
        yield part_loader(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def segment_begins(config: StoreConfig) -> list[int]:
    """Return where each segment of the log begins. Raises: JobFailed, DamagedStore."""
    files = commit_log_files(FileSystem(), config, read_only=True)
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
            f"{log} has no file for physical offset {found.gap_after}, but some after it",
            "copy the segments that are missing, or only those on one side of them",
        )
    if not begins:
        raise JobFailed(f"{log} holds no segment of a log", "give a folder of commit-log files")
    return begins
