"""The row of a rebuild: a broker starts over a log of 1 GB that has neither queues nor index.

The log is written once by the real broker, with keys, and copied for each run. The time begins when
a side logs where its dispatch begins. So the start of a JVM or of Ray is no part of it, and neither
is recovery, which reads the same log first. The time ends when three things are as the real broker
had written them while the messages came: the last entry of each queue, the index's header, and the
last page of its hash table. ``whole_seconds`` counts from the start of the first process.

``kernel_seconds`` is what ``wakelog log rebuild`` takes for the same. ``verify_seconds`` is what
``wakelog log verify`` takes for the store that the real broker left. Both are without their start,
see ``rebuild_alone.py``. Both stand beside the same time of the real broker.
"""

import os
import shutil
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from benchmarks.load import SETTINGS, Drivers, Run, memory
from benchmarks.rebuild_alone import measure_alone
from benchmarks.rows import REBUILD_MESSAGES
from benchmarks.sides import STORE_LOG_NAME, OtherCheckout, RocketMQ, Side, Wakelog

LOG_NAME = "commitlog"
INDEX = "index"
ENTRY = struct.Struct(">qiq")
INDEX_HEADER_BYTES = 40
INDEX_SLOTS = 5_000_000
INDEX_SLOT_BYTES = 4
PAGE_BYTES = 4096
POLL_SECONDS = 0.005
REBUILD_SECONDS_MAX = 120.0

# What each side writes when it begins to dispatch, and where; a line begins with its time.
_OWN_BEGINNING = ("store/wakelog.logs/*.log", 'event="dispatch begins"')
_BEGINNINGS = {
    Wakelog.name: _OWN_BEGINNING,
    OtherCheckout.name: _OWN_BEGINNING,
    RocketMQ.name: (STORE_LOG_NAME, "[SetReputOffset]"),
}


class Piece(NamedTuple):
    """Bytes that a finished rebuild has at a place; files of a folder go by number, not name."""

    folder: Path
    number: int
    position: int
    content: bytes

    def is_in(self, store: Path) -> bool:
        """Tell whether the store has it."""
        try:
            path = sorted((store / self.folder).iterdir())[self.number]
            with open(path, "rb") as file:
                file.seek(self.position)
                return file.read(len(self.content)) == self.content
        except (OSError, IndexError):
            return False


class RebuildLog:
    """The log that all runs begin with, and what a rebuild of it has to end with."""

    def __init__(self, folder: Path, drivers: Drivers) -> None:
        """Let the real broker write it."""
        side = RocketMQ(folder / "log", SETTINGS)
        try:
            sent = drivers.client(side, "batch", 1, warmup=0, count=REBUILD_MESSAGES)
        finally:
            side.stop(in_order=True)
        if sent["errors"]:
            raise RuntimeError(f"the log was not written: {sent}")
        self.store = side.store
        self.pieces = list(last_pieces(side.store))

    def copy_into(self, store: Path) -> None:
        """Copy the log alone; the disk has nothing to write when a side begins."""
        subprocess.run(["cp", "-R", str(self.store / LOG_NAME), str(store)], check=True)
        os.sync()


def measure_rebuild(
    make_side: Callable[[], Side], log: RebuildLog, store: Path
) -> tuple[Run, Mapping[str, object]]:
    """Start a side over the log and watch its files; return figures and configuration."""
    watch = Watch(log.pieces, store)
    try:
        side = make_side()
        try:
            ended_seconds = watch.wait()
            cost = side.cost()
        finally:
            side.stop()
    finally:
        watch.stop()
    seconds = ended_seconds - dispatch_began(side.name, side.folder)
    run: Run = {
        "errors": 0,
        "messages": REBUILD_MESSAGES,
        "seconds": seconds,
        "per_second": REBUILD_MESSAGES / seconds,
        "kernel_seconds": seconds,
        "verify_seconds": seconds,
        "whole_seconds": ended_seconds - side.began_seconds,
        "ready_seconds": side.ready_seconds,
        "cpu_seconds": cost.cpu_seconds,
        "broker_cpu_seconds": cost.broker_cpu_seconds,
        "busy_percent": {},
        **memory(cost),
    }
    if side.name == Wakelog.name:
        run |= _alone(log, store)
    return run, side.configuration


def _alone(log: RebuildLog, store: Path) -> dict[str, float]:
    """Rebuild and verify without actors; return figures of a run."""
    shutil.rmtree(store)
    store.mkdir()
    log.copy_into(store)
    into = store.parent / "rebuilt"
    found = measure_alone(store, into, log.store)
    if not all(piece.is_in(into) for piece in log.pieces):
        raise RuntimeError("what was rebuilt is not as the real broker's")
    shutil.rmtree(into)
    percent = 100 * found.log_bytes / found.copy_bytes_per_second
    return {
        "kernel_seconds": found.rebuild_seconds,
        "durable_seconds": found.durable_seconds,
        "verify_seconds": found.verify_seconds,
        "copy_gb_per_second": found.copy_bytes_per_second / 1e9,
        "rebuild_copy_percent": percent / found.rebuild_seconds,
        "verify_copy_percent": percent / found.verify_seconds,
    }


def dispatch_began(side_name: str, folder: Path) -> float:
    """Return when dispatch began, of ``time.time``, as the side's log has it."""
    pattern, word = _BEGINNINGS[side_name]
    for path in sorted(folder.glob(pattern)):
        for line in path.read_text(errors="replace").splitlines():
            if word in line:
                stamp = line.split()[0].removeprefix("timestamp=")
                return datetime.fromisoformat(stamp).timestamp()
    raise RuntimeError(f"{side_name} does not say when dispatch began")


class Watch:
    """Looks at a store's files, in a thread, until all pieces are there."""

    def __init__(self, pieces: list[Piece], store: Path) -> None:
        self._pieces = pieces
        self._store = store
        self._stopped = threading.Event()
        self._ended_seconds = 0.0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        waiting = list(self._pieces)
        while waiting and not self._stopped.wait(POLL_SECONDS):
            # One at a time and in order: looking must not cost what is measured.
            while waiting and waiting[0].is_in(self._store):
                waiting.pop(0)
        if not waiting:
            self._ended_seconds = time.time()

    def wait(self) -> float:
        """Return when all were there, of ``time.time``."""
        self._thread.join(REBUILD_SECONDS_MAX)
        if self._thread.is_alive():
            raise RuntimeError(f"not rebuilt within {REBUILD_SECONDS_MAX:.0f} s")
        return self._ended_seconds

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        self._thread.join()


def last_pieces(store: Path) -> Iterator[Piece]:
    """Yield what comes last of each queue, then of the index, in a store that is complete."""
    for folder in sorted((store / "consumequeue").glob("*/*")):
        files = [path.read_bytes().rstrip(b"\0") for path in sorted(folder.iterdir())]
        number = max(index for index, content in enumerate(files) if content)
        position = (len(files[number]) - 1) // ENTRY.size * ENTRY.size
        entry = files[number][position:].ljust(ENTRY.size, b"\0")
        yield Piece(folder.relative_to(store), number, position, entry)
    index = sorted((store / INDEX).iterdir())
    end = INDEX_HEADER_BYTES + INDEX_SLOTS * INDEX_SLOT_BYTES
    with open(index[-1], "rb") as file:
        header = file.read(INDEX_HEADER_BYTES)
        file.seek(end - PAGE_BYTES)
        page = file.read(PAGE_BYTES)
    yield Piece(Path(INDEX), len(index) - 1, 0, header)
    yield Piece(Path(INDEX), len(index) - 1, end - PAGE_BYTES, page)
