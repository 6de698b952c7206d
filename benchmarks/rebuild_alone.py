"""What ``wakelog log rebuild`` and ``wakelog log verify`` do, timed without the command's start.

In a process of its own three things are timed. The first is a
rebuild of a copied log, until queues and index are written, and until they are durable. The second
is how fast this machine copies memory with a thread a core. The third is a verify of the store from
which the log was copied.

    python -m benchmarks.rebuild_alone STORE INTO WHOLE    print the figures as JSON
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from wakelog.audit.rebuild import make_files
from wakelog.audit.verify import verify
from wakelog.dispatchers.sync_files import sync_tree
from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import FileSystem

TIMES_COUNT = 3
COPY_BYTES = 512 << 20


class Alone(NamedTuple):
    """Medians of some times; ``copy_bytes_per_second`` counts what is copied once."""

    rebuild_seconds: float
    durable_seconds: float
    verify_seconds: float
    copy_bytes_per_second: float
    log_bytes: int


def measure_alone(store: Path, into: Path, whole: Path) -> Alone:
    """Let a process of its own measure; the last rebuild stays in ``into``."""
    command = [sys.executable, "-m", __name__, str(store), str(into), str(whole)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Alone(**json.loads(done.stdout.splitlines()[-1]))


def copy_bytes_per_second() -> float:
    """Copy an array into another that was touched before, a part in each of as many threads."""
    source, target = (np.full(COPY_BYTES, value, dtype=np.uint8) for value in (1, 2))
    count = os.cpu_count() or 1
    part = COPY_BYTES // count

    def copy(begin: int) -> None:
        np.copyto(target[begin : begin + part], source[begin : begin + part])

    def copy_all() -> None:
        threads = [threading.Thread(target=copy, args=(part * i,)) for i in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return part * count / min(_seconds(copy_all) for _ in range(TIMES_COUNT))


def _seconds(work: Callable[[], object]) -> float:
    began_seconds = time.perf_counter()
    work()
    return time.perf_counter() - began_seconds


def _measure(store: Path, into: Path, whole: Path) -> Alone:
    config = StoreConfig(store_path_root=str(store))
    rebuilds, syncs, verifies, copies = [], [], [], []
    log_bytes = 0
    for _ in range(TIMES_COUNT):
        shutil.rmtree(into, ignore_errors=True)
        into.mkdir()
        began_seconds = time.perf_counter()
        found = make_files(config, str(into))
        rebuilds.append(time.perf_counter() - began_seconds)
        sync_tree(FileSystem(), str(into))
        syncs.append(time.perf_counter() - began_seconds)
        log_bytes = found.end - found.begin
        copies.append(copy_bytes_per_second())
        whole_config = StoreConfig(store_path_root=str(whole))
        began_seconds = time.perf_counter()
        report = verify(whole_config, scratch=str(into.parent))
        verifies.append(time.perf_counter() - began_seconds)
        if not report.findings.is_sound:
            raise RuntimeError(f"the real broker's store is not sound: {report.findings.kept}")
    return Alone(
        rebuild_seconds=statistics.median(rebuilds),
        durable_seconds=statistics.median(syncs),
        verify_seconds=statistics.median(verifies),
        copy_bytes_per_second=statistics.median(copies),
        log_bytes=log_bytes,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("store", "into", "whole"):
        parser.add_argument(name, type=Path)
    print(json.dumps(_measure(**vars(parser.parse_args()))._asdict()))
