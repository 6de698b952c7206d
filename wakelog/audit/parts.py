"""Stretches that tasks scan elsewhere, kept in files until the rebuild dispatches them.

    <folder>/<20 digits>   the stretch with this nominal begin: a pickled `Filled`, columns packed

Tasks run in any order, one for each segment. The rebuild then loads the stretches in order. It
scans a stretch itself if there is no file for it, so a task that fails or is left out costs time
only. The files hold some 150 bytes a record and live as long as one rebuild.

Invariants: a file appears whole; a task that runs twice writes the same bytes.

Source: none upstream.
"""

import os
import pickle
import uuid
from posixpath import join
from typing import NamedTuple

from wakelog.audit.stretches import FillStretch, StretchReader, fill_stretch, next_nominal
from wakelog.compiled.library import CHOICE
from wakelog.dispatchers.read_ahead import Filled
from wakelog.storage.columns.window_columns import WindowColumns
from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.paths import offset_name


class ScanJob(NamedTuple):
    """What each task gets, the same for all; `check_bodies` is that of the rebuild."""

    config: StoreConfig
    folder: str
    check_bodies: bool


def scan_segment(job: ScanJob, begin: int) -> None:
    """Scan the stretches of the segment at `begin` into files. Raises: StoreFailed, OSError.

    Without the compiled library nothing is scanned here.
    """
    if CHOICE.library is None:
        return
    log = CommitLogReader(FileSystem(), job.config)
    delays_ms = job.config.delays_ms
    lane = StretchReader(
        log, WindowColumns(CHOICE.library, delays_ms, check_bodies=job.check_bodies)
    )
    end = log.segment_end(begin)
    try:
        while begin < end:
            filled = fill_stretch(lane, begin, end)
            if filled is not None and filled.scan is not None:
                part = lane.columns.pack(), *filled[1:]
                _write(join(job.folder, offset_name(begin)), part)
            begin = next_nominal(begin)
    finally:
        log.close()


def _write(path: str, part: tuple[object, ...]) -> None:
    # Another attempt of the task may run at the same time.
    attempt = f"{path}.{uuid.uuid4().hex}"
    with open(attempt, "wb") as file:
        pickle.dump(part, file, protocol=pickle.HIGHEST_PROTOCOL)
    os.replace(attempt, path)


def part_loader(folder: str) -> FillStretch:
    """Return what fills lanes from the files of a folder."""

    def load(lane: StretchReader, begin: int, end: int) -> Filled | None:
        try:
            with open(join(folder, offset_name(begin)), "rb") as file:
                packed, *rest = pickle.load(file)
        except FileNotFoundError:
            return None
        lane.columns.unpack(packed)
        return Filled(lane.columns, *rest)

    return load
